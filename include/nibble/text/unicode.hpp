// SPDX-License-Identifier: MIT
// The little of Unicode that text models need: UTF-8 that may be broken, the character classes that
// pre-tokenizers split on, and canonical composition (NFC), all from tables of Unicode 16.0.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nibble/core/export.hpp"

namespace nibble::unicode {

/// The partition used by pre-tokenizer patterns: \p{L}, \p{N}, \s, and everything else. Disjoint.
enum class CharClass : std::uint8_t { other = 0, letter = 1, number = 2, space = 3 };

/// Class of a code point; `other` beyond U+10FFFF.
NIBBLE_API CharClass char_class(char32_t code_point) noexcept;

/// One step through UTF-8: the code point and how many bytes it took.
struct Decoded {
  char32_t code_point;  ///< U+FFFD when !valid
  std::uint8_t size;    ///< 1..4; 1 for an invalid byte; 0 only at the end of the text
  bool valid;
};

/// Decodes the character at `text[pos]`. A byte that starts no well-formed sequence (overlong,
/// surrogate, above U+10FFFF, cut short) is one invalid step of one byte, so nothing is ever lost.
NIBBLE_API Decoded decode_utf8(std::string_view text, std::size_t pos) noexcept;

/// Appends a code point as UTF-8; surrogates and values above U+10FFFF become U+FFFD.
NIBBLE_API void append_utf8(std::string& out, char32_t code_point);

/// Whether the whole text is well-formed UTF-8.
NIBBLE_API bool is_valid_utf8(std::string_view text) noexcept;

/// How many bytes (0..3) at the end begin a well-formed character that more bytes could complete.
NIBBLE_API std::size_t incomplete_suffix(std::string_view text) noexcept;

/// A well-formed copy: every invalid byte becomes U+FFFD. For JSON and terminals.
NIBBLE_API std::string to_valid_utf8(std::string_view text);

/// Whether to_nfc would return the text unchanged. May say no for a text that is in NFC.
NIBBLE_API bool is_surely_nfc(std::string_view text) noexcept;

/// Normalization Form C (UAX #15). Invalid bytes stay as they are and compose with nothing.
NIBBLE_API std::string to_nfc(std::string_view text);

}  // namespace nibble::unicode
