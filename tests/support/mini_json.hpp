// SPDX-License-Identifier: MIT
// A reader of the JSON our own golden files hold, to template values: integers apart from floats, members
// in order. Trusts its input; the library's real JSON reader is tested elsewhere.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "nibble/text/unicode.hpp"
#include "nibble/text/value.hpp"

namespace nibble::test {

class MiniJson {
 public:
  static Value parse(std::string_view text) { return MiniJson(text).value(); }

 private:
  explicit MiniJson(std::string_view text) : text_(text) {}

  char peek() {
    while (at_ < text_.size() && std::string_view(" \n\r\t").find(text_[at_]) != std::string_view::npos)
      ++at_;
    if (at_ >= text_.size()) throw std::runtime_error("golden JSON ends early");
    return text_[at_];
  }
  bool take(char c) { return peek() == c && (++at_, true); }
  void expect(char c) {
    if (!take(c)) throw std::runtime_error(std::string("golden JSON lacks ") + c);
  }
  bool word(std::string_view w) {
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }

  Value value() {
    const char c = peek();
    if (c == '{') return map();
    if (c == '[') return list();
    if (c == '"') return string();
    if (word("null")) return nullptr;
    if (word("true")) return true;
    if (word("false")) return false;
    return number();
  }

  Value map() {
    Value::Map members;
    expect('{');
    while (!take('}')) {
      if (!members.empty()) expect(',');
      peek();
      std::string key = string();
      expect(':');
      members.push_back({std::move(key), value()});
    }
    return Value::map(std::move(members));
  }

  Value list() {
    Value::List items;
    expect('[');
    while (!take(']')) {
      if (!items.empty()) expect(',');
      items.push_back(value());
    }
    return Value::list(std::move(items));
  }

  Value number() {
    const std::size_t end = std::min(text_.find_first_not_of("+-.eE0123456789", at_), text_.size());
    const std::string digits(text_.substr(at_, end - at_));
    at_ = end;
    if (digits.find_first_of(".eE") != digits.npos) return std::strtod(digits.c_str(), nullptr);
    return static_cast<std::int64_t>(std::strtoll(digits.c_str(), nullptr, 10));
  }

  char32_t unit() {
    const char32_t v =
        static_cast<char32_t>(std::strtoul(std::string(text_.substr(at_, 4)).c_str(), nullptr, 16));
    at_ += 4;
    return v;
  }

  std::string string() {
    std::string out;
    expect('"');
    while (text_.at(at_) != '"') {
      const char c = text_[at_++];
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      const char e = text_.at(at_++);
      switch (e) {
        case 'n': out.push_back('\n'); break;
        case 't': out.push_back('\t'); break;
        case 'r': out.push_back('\r'); break;
        case 'b': out.push_back('\b'); break;
        case 'f': out.push_back('\f'); break;
        case 'u': {
          char32_t v = unit();
          if (v >= 0xD800 && v < 0xDC00) {
            at_ += 2;
            v = 0x10000 + ((v - 0xD800) << 10) + (unit() - 0xDC00);
          }
          unicode::append_utf8(out, v);
          break;
        }
        default: out.push_back(e);
      }
    }
    ++at_;
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace nibble::test
