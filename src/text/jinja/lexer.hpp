// SPDX-License-Identifier: MIT
// Lexer: template source to tokens. White space around tags is settled here, so the parser sees only
// data that is to be printed: trim_blocks drops the newline after a block tag or comment, lstrip_blocks
// the indentation before one, '-' all white space on its side, '+' turns either off.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    data, variable_begin, variable_end, block_begin, block_end, name, string, integer, real, op, end
  };
  Kind kind;
  int line;                  // from 1
  std::string text = {};     // data, name, unescaped string, operator
  std::int64_t integer = 0;
  double real = 0;

  bool is_op(std::string_view symbol) const noexcept { return kind == Kind::op && text == symbol; }
  bool is_name(std::string_view word) const noexcept { return kind == Kind::name && text == word; }
};

/// All tokens, the last of kind `end`. Throws Error{malformed} with the line, or Error{unsupported} for an
/// integer literal beyond 64 bits.
std::vector<Token> tokenize(std::string_view source);

/// The error of a syntax rule, "line 3: ...".
[[noreturn]] void fail_syntax(int line, const std::string& message);

}  // namespace nibble::jinja
