// SPDX-License-Identifier: MIT
// The lexer's two modes: data up to the next tag, and the tokens inside a tag.
#include "text/jinja/lexer.hpp"

#include <algorithm>
#include <array>

#include "text/jinja/budget.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {

void fail_syntax(int line, const std::string& message) {
  throw Error(Errc::malformed, "line " + std::to_string(line) + ": " + message);
}

namespace {

// "\r\n" and "\r" become "\n", and one newline at the very end is dropped.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') { out.push_back(source[i]); continue; }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit_char(char c) noexcept { return c >= '0' && c <= '9'; }

int hex_value(char c) noexcept {
  if (is_digit_char(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) data();
    emit(Token::Kind::end);
    return std::move(tokens_);
  }

 private:
  char char_at(std::size_t i) const noexcept { return i < source_.size() ? source_[i] : '\0'; }
  bool starts_with(std::string_view text, std::size_t at) const noexcept {
    return std::string_view(source_).substr(std::min(at, source_.size())).starts_with(text);
  }

  void emit(Token::Kind kind, std::string text = {}) { tokens_.push_back({kind, line_, std::move(text)}); }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  std::size_t after_space(std::size_t at) const noexcept {
    while (at < source_.size()) {
      const CodePoint c = decode(source_, at);
      if (!is_space(c.value)) break;
      at += c.length;
    }
    return at;
  }

  // Where a block tag or comment whose closing mark ends at `at` lets the text go on.
  std::size_t after_close(std::size_t at, char sign) const noexcept {
    if (sign == '-') return after_space(at);
    return sign != '+' && char_at(at) == '\n' ? at + 1 : at;
  }

  // Prints source_[at_, tag), less what the tag at `tag` strips, and moves to the tag.
  void emit_data(std::size_t tag, char sign, bool is_variable) {
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      text = strip(text, nullptr, Side::right);
    } else if (sign != '+' && !is_variable) {
      const std::size_t line_start = text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1;
      const bool at_line_start = line_start > 0 || at_ == 0 || source_[at_ - 1] == '\n';
      if (at_line_start && strip(text.substr(line_start), nullptr, Side::both).empty())
        text = text.substr(0, line_start);
    }
    if (!text.empty()) emit(Token::Kind::data, std::string(text));
    advance(tag);
  }

  void data() {
    std::size_t tag = at_;
    while ((tag = source_.find('{', tag)) != source_.npos) {
      const char mark = char_at(tag + 1);
      if (mark == '{' || mark == '%' || mark == '#') break;
      ++tag;
    }
    if (tag == source_.npos) {
      emit(Token::Kind::data, source_.substr(at_));
      advance(source_.size());
      return;
    }
    const char mark = source_[tag + 1];
    const char after = char_at(tag + 2);
    const char sign = after == '-' || after == '+' ? after : '\0';
    emit_data(tag, sign, mark == '{');
    const std::size_t inside = tag + (sign ? 3u : 2u);
    if (mark == '#') comment(inside);
    else if (mark == '%' && raw(inside)) return;
    else this->tag(mark == '%', inside);
  }

  void comment(std::size_t inside) {
    const std::size_t close = source_.find("#}", inside);
    if (close == source_.npos) fail_syntax(line_, "Missing end of comment tag");
    advance(after_close(close + 2, close > inside ? source_[close - 1] : '\0'));
  }

  // Whether a block tag reading just `word` opens at `inside`; sets `end` and its closing sign.
  bool bare_tag(std::size_t inside, std::string_view word, std::size_t& end, char& sign) const noexcept {
    std::size_t at = after_space(inside);
    if (!starts_with(word, at)) return false;
    at = after_space(at + word.size());
    sign = char_at(at) == '-' || char_at(at) == '+' ? source_[at] : '\0';
    if (sign) ++at;
    if (!starts_with("%}", at)) return false;
    end = at + 2;
    return true;
  }

  bool raw(std::size_t inside) {
    std::size_t end = 0;
    char sign = '\0';
    // Unlike other tags, raw keeps the newline after it, and takes no '+'.
    if (!bare_tag(inside, "raw", end, sign) || sign == '+') return false;
    advance(sign == '-' ? after_space(end) : end);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != source_.npos; ++tag) {
      const char open = char_at(tag + 2) == '-' || char_at(tag + 2) == '+' ? source_[tag + 2] : '\0';
      if (!bare_tag(tag + (open ? 3u : 2u), "endraw", end, sign)) continue;
      emit_data(tag, open, false);
      advance(after_close(end, sign));
      return true;
    }
    fail_syntax(line_, "Missing end of raw directive");
  }

  void tag(bool block, std::size_t inside) {
    emit(block ? Token::Kind::block_begin : Token::Kind::variable_begin);
    advance(inside);
    brackets_.clear();
    const std::string_view close = block ? "%}" : "}}";
    while (at_ < source_.size()) {
      const char c = source_[at_];
      const bool signed_close = (c == '-' || (c == '+' && block)) && starts_with(close, at_ + 1);
      if (brackets_.empty() && (signed_close || starts_with(close, at_))) {
        emit(block ? Token::Kind::block_end : Token::Kind::variable_end);
        const std::size_t end = at_ + (signed_close ? 3u : 2u);
        if (block) advance(after_close(end, signed_close ? c : '\0'));
        else advance(signed_close ? after_space(end) : end);
        return;
      }
      token();
    }
  }

  void token() {
    const std::size_t past_space = after_space(at_);
    if (past_space != at_) { advance(past_space); return; }
    const char c = source_[at_];
    if (is_digit_char(c)) { number(); return; }
    if (c == '\'' || c == '"') { string(c); return; }
    const CodePoint first = decode(source_, at_);
    if (first.value == '_' || is_alnum(first.value)) { name(); return; }
    op();
  }

  void name() {
    std::size_t end = at_;
    while (end < source_.size()) {
      const CodePoint c = decode(source_, end);
      if (c.value != '_' && !is_alnum(c.value)) break;
      end += c.length;
    }
    const std::int32_t first = decode(source_, at_).value;
    if (first != '_' && !is_alpha(first)) fail_syntax(line_, "Invalid character in identifier");
    emit(Token::Kind::name, source_.substr(at_, end - at_));
    advance(end);
  }

  // A run of digits with single underscores between them; `at` itself when there is none.
  std::size_t after_digits(std::size_t at) const noexcept {
    if (!is_digit_char(char_at(at))) return at;
    while (is_digit_char(char_at(at)) || (char_at(at) == '_' && is_digit_char(char_at(at + 1)))) ++at;
    return at;
  }

  void number() {
    std::size_t end = after_digits(at_);
    bool real = false;
    if (at_ == 0 || source_[at_ - 1] != '.') {
      std::size_t at = end;
      if (char_at(at) == '.' && after_digits(at + 1) != at + 1) {
        end = at = after_digits(at + 1);
        real = true;
      }
      if (char_at(at) == 'e' || char_at(at) == 'E') {
        const std::size_t digits = char_at(at + 1) == '+' || char_at(at + 1) == '-' ? at + 2 : at + 1;
        if (after_digits(digits) != digits) { end = after_digits(digits); real = true; }
      }
    }
    if (!real) end = integer_end();
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    Token token{real ? Token::Kind::real : Token::Kind::integer, line_};
    try {
      if (real) token.real = parse_real(digits).value_or(0.0);
      else token.integer = parse_int(digits, 0).value_or(0);
    } catch (const Error& e) {
      throw e.in("line " + std::to_string(line_));
    }
    tokens_.push_back(std::move(token));
    advance(end);
  }

  // 0x1F, 0o17, 0b11, 10, or zeros; a digit after a leading zero starts the next token.
  std::size_t integer_end() const noexcept {
    if (source_[at_] != '0') return after_digits(at_);
    const char kind = static_cast<char>(char_at(at_ + 1) | 0x20);
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    const auto digit = [&](std::size_t i) { const int v = hex_value(char_at(i)); return v >= 0 && v < base; };
    std::size_t end = at_ + 2;
    if (base != 0 && (digit(end) || (char_at(end) == '_' && digit(end + 1)))) {
      while (digit(end) || (char_at(end) == '_' && digit(end + 1))) ++end;
      return end;
    }
    end = at_ + 1;
    while (char_at(end) == '0' || (char_at(end) == '_' && char_at(end + 1) == '0')) ++end;
    return end;
  }

  void string(char quote) {
    std::size_t close = at_ + 1;
    while (close < source_.size() && source_[close] != quote) close += source_[close] == '\\' ? 2u : 1u;
    if (close >= source_.size()) fail_syntax(line_, "a string that does not end");
    emit(Token::Kind::string, unescape(std::string_view(source_).substr(at_ + 1, close - at_ - 1)));
    advance(close + 1);
  }

  std::string unescape(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 >= text.size()) { out.push_back(text[i]); continue; }
      const char c = text[++i];
      switch (c) {
        case '\n': break;
        case 'a': out.push_back('\a'); break;
        case 'b': out.push_back('\b'); break;
        case 'f': out.push_back('\f'); break;
        case 'n': out.push_back('\n'); break;
        case 'r': out.push_back('\r'); break;
        case 't': out.push_back('\t'); break;
        case 'v': out.push_back('\v'); break;
        case '\\': case '\'': case '"': out.push_back(c); break;
        case 'x': i = code_escape(text, i, 2, out); break;
        case 'u': i = code_escape(text, i, 4, out); break;
        case 'U': i = code_escape(text, i, 8, out); break;
        case 'N':
          throw Error(Errc::unsupported,
                      "line " + std::to_string(line_) + ": the escape \\N is not supported");
        default:
          if (c >= '0' && c <= '7') { i = octal_escape(text, i, out); break; }
          out.push_back('\\');
          out.push_back(c);
      }
    }
    return out;
  }

  // Both return the index of the escape's last character.
  std::size_t code_escape(std::string_view text, std::size_t at, std::size_t digits, std::string& out) const {
    std::int64_t code = 0;
    for (std::size_t i = 1; i <= digits; ++i) {
      const int v = at + i < text.size() ? hex_value(text[at + i]) : -1;
      if (v < 0) fail_syntax(line_, std::string("truncated \\") + text[at] + " escape");
      code = code * 16 + v;
    }
    if (code > 0x10FFFF) fail_syntax(line_, "an escape beyond the last code point");
    if (code >= 0xD800 && code < 0xE000) {
      throw Error(Errc::unsupported, "line " + std::to_string(line_) + ": a lone surrogate is not supported");
    }
    encode(static_cast<std::int32_t>(code), out);
    return at + digits;
  }

  static std::size_t octal_escape(std::string_view text, std::size_t at, std::string& out) {
    std::int32_t code = 0;
    std::size_t i = at;
    for (; i < text.size() && i < at + 3 && text[i] >= '0' && text[i] <= '7'; ++i)
      code = code * 8 + (text[i] - '0');
    encode(code, out);
    return i - 1;
  }

  void op() {
    static constexpr std::array<std::string_view, 6> two = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view one = "+-/*%~[](){}=.:|,;<>";
    std::string text;
    for (std::string_view symbol : two) {
      if (starts_with(symbol, at_)) text = symbol;
    }
    if (text.empty() && one.find(source_[at_]) != one.npos) text = source_[at_];
    if (text.empty()) {
      fail_syntax(line_, "unexpected character '" + source_.substr(at_, decode(source_, at_).length) + "'");
    }
    bracket(text.front());
    emit(Token::Kind::op, text);
    advance(at_ + text.size());
  }

  void bracket(char c) {
    if (c == '{') brackets_.push_back('}');
    else if (c == '(') brackets_.push_back(')');
    else if (c == '[') brackets_.push_back(']');
    else if (c == '}' || c == ')' || c == ']') {
      if (brackets_.empty()) fail_syntax(line_, std::string("unexpected '") + c + "'");
      if (brackets_.back() != c) {
        fail_syntax(line_, std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
      }
      brackets_.pop_back();
    }
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string brackets_;  // the closing brackets still expected in this tag
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace nibble::jinja
