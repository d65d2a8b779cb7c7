// SPDX-License-Identifier: MIT
// The scanners behind next_word. Every alternative of a pattern is one test, in the pattern's order;
// `\s+(?!\S)` is "the run of spaces, less its last one when something follows".
#include "nibble/text/pre_tokenizer.hpp"

#include <array>

#include "nibble/text/unicode.hpp"

namespace nibble {
namespace {

using unicode::CharClass;

struct Char {
  char32_t code_point;
  std::size_t end;  // offset behind the character
  CharClass cls;
  bool exists;
};

class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : text_(text) {}

  Char at(std::size_t pos) const noexcept {
    if (pos >= text_.size()) return {0, pos, CharClass::other, false};
    const unicode::Decoded d = unicode::decode_utf8(text_, pos);
    return {d.code_point, pos + d.size, d.valid ? unicode::char_class(d.code_point) : CharClass::other, true};
  }

  bool is(std::size_t pos, CharClass cls) const noexcept {
    const Char c = at(pos);
    return c.exists && c.cls == cls;
  }

  std::size_t run(std::size_t pos, CharClass cls,
                  std::size_t limit = static_cast<std::size_t>(-1)) const noexcept {
    for (Char c = at(pos); c.exists && c.cls == cls && limit > 0; c = at(pos), --limit) pos = c.end;
    return pos;
  }

  // Whitespace that no other alternative took: \s+(?!\S)|\s+
  std::size_t spaces(std::size_t pos) const noexcept {
    std::size_t end = pos, last = pos;
    for (Char c = at(end); c.exists && c.cls == CharClass::space; c = at(end)) {
      last = end;
      end = c.end;
    }
    return end < text_.size() && last > pos ? last : end;
  }

  // End of 's|'t|'re|'ve|'m|'ll|'d at pos, or pos.
  std::size_t contraction(std::size_t pos, bool ignore_case) const noexcept {
    if (byte(pos) != '\'') return pos;
    const char a = letter(pos + 1, ignore_case), b = letter(pos + 2, ignore_case);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
    // U+017F folds to s, so a case-insensitive 's takes it.
    if (ignore_case && byte(pos + 1) == '\xC5' && byte(pos + 2) == '\xBF') return pos + 3;
    return pos;
  }

 private:
  char byte(std::size_t pos) const noexcept { return pos < text_.size() ? text_[pos] : '\0'; }
  char letter(std::size_t pos, bool ignore_case) const noexcept {
    const char c = byte(pos);
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  std::string_view text_;
};

std::size_t gpt2_word(std::string_view text, std::size_t pos) noexcept {
  const Scanner scan(text);
  if (const std::size_t end = scan.contraction(pos, false); end != pos) return end;
  const Char first = scan.at(pos);
  const Char c = first.code_point == ' ' && first.end < text.size() ? scan.at(first.end) : first;
  if (c.cls != CharClass::space) return scan.run(c.end, c.cls);
  return scan.spaces(pos);
}

// End of \s*[\r\n]+ at pos (the run of spaces up to its last line break), or pos.
std::size_t line_breaks(const Scanner& scan, std::size_t pos) noexcept {
  std::size_t end = pos;
  for (Char c = scan.at(pos); c.exists && c.cls == CharClass::space; c = scan.at(c.end))
    if (c.code_point == '\r' || c.code_point == '\n') end = c.end;
  return end;
}

std::size_t llama3_word(std::string_view text, std::size_t pos, std::size_t digits) noexcept {
  const Scanner scan(text);
  if (const std::size_t end = scan.contraction(pos, true); end != pos) return end;
  const Char first = scan.at(pos);
  if (first.cls == CharClass::letter) return scan.run(first.end, CharClass::letter);
  if (first.cls == CharClass::number) return scan.run(pos, CharClass::number, digits);
  const bool is_break = first.code_point == '\r' || first.code_point == '\n';
  if (!is_break && scan.is(first.end, CharClass::letter)) return scan.run(first.end, CharClass::letter);
  const std::size_t symbol = first.code_point == ' ' ? first.end : pos;
  if (scan.is(symbol, CharClass::other)) {
    std::size_t end = scan.run(symbol, CharClass::other);
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  if (const std::size_t end = line_breaks(scan, pos); end != pos) return end;
  return scan.spaces(pos);
}

std::size_t smollm_word(std::string_view text, std::size_t pos) noexcept {
  const Scanner scan(text);
  const Char first = scan.at(pos);
  if (first.cls == CharClass::number) return first.end;
  // A word reaches a number only across one space or a run of spaces, whose look-ahead must see an end
  // of text there. Only such a word needs to know where the number is.
  const Char next = first.code_point == ' ' ? scan.at(first.end) : Char{0, 0, CharClass::other, false};
  if (next.exists && next.cls == CharClass::number) return first.end;
  if (first.cls == CharClass::space) {
    const std::size_t end = scan.run(pos, CharClass::space);
    if (scan.is(end, CharClass::number)) return end;
  }
  return gpt2_word(text, pos);
}

struct Name {
  std::string_view name;
  PreTokenizer kind;
};
constexpr auto names = std::to_array<Name>({
    {"gpt-2", PreTokenizer::gpt2},
    {"gpt2", PreTokenizer::gpt2},
    {"mpt", PreTokenizer::gpt2},
    {"olmo", PreTokenizer::gpt2},
    {"phi-2", PreTokenizer::gpt2},
    {"roberta-bpe", PreTokenizer::gpt2},
    {"smollm", PreTokenizer::smollm},
    {"starcoder", PreTokenizer::smollm},
    {"refact", PreTokenizer::smollm},
    {"command-r", PreTokenizer::smollm},
    {"codeshell", PreTokenizer::smollm},
    {"llama-bpe", PreTokenizer::llama3},
    {"llama3", PreTokenizer::llama3},
    {"llama-v3", PreTokenizer::llama3},
    {"falcon3", PreTokenizer::llama3},
    {"smaug-bpe", PreTokenizer::llama3},
    {"dbrx", PreTokenizer::llama3},
    {"glm4", PreTokenizer::llama3},
    {"chatglm-bpe", PreTokenizer::llama3},
    {"qwen2", PreTokenizer::qwen2},
    {"deepseek-r1-qwen", PreTokenizer::qwen2},
    {"stablelm2", PreTokenizer::qwen2},
});

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) noexcept {
  for (const Name& n : names)
    if (n.name == name) return n.kind;
  return std::nullopt;
}

std::size_t next_word(PreTokenizer kind, std::string_view text, std::size_t pos) noexcept {
  if (pos >= text.size()) return text.size();
  switch (kind) {
    case PreTokenizer::gpt2: return gpt2_word(text, pos);
    case PreTokenizer::smollm: return smollm_word(text, pos);
    case PreTokenizer::llama3: return llama3_word(text, pos, 3);
    case PreTokenizer::qwen2: return llama3_word(text, pos, 1);
  }
  return text.size();
}

}  // namespace nibble
