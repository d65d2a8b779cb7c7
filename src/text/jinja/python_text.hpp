// SPDX-License-Identifier: MIT
// Python's str, on UTF-8 bytes: code points, white space, case, splitting, numbers as text. A byte that
// is not valid UTF-8 counts as one code point of its own (Python's surrogateescape) and passes through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nibble::jinja {

struct CodePoint {
  std::int32_t value;  ///< 0xDC80 + (byte & 0x7F) for a stray byte
  std::size_t length;  ///< in bytes
};

/// The code point at byte `at` (< text.size()).
CodePoint decode(std::string_view text, std::size_t at) noexcept;
void encode(std::int32_t code_point, std::string& out);
std::size_t count_code_points(std::string_view text) noexcept;
/// Byte offset of code point `index`, or text.size() when there are fewer.
std::size_t byte_offset(std::string_view text, std::size_t index) noexcept;
std::vector<std::int32_t> code_points(std::string_view text);
std::string from_code_points(const std::vector<std::int32_t>& points);

bool is_space(std::int32_t c) noexcept;
bool is_alpha(std::int32_t c) noexcept;
bool is_decimal(std::int32_t c) noexcept;
bool is_digit(std::int32_t c) noexcept;
bool is_alnum(std::int32_t c) noexcept;
bool is_lower(std::int32_t c) noexcept;
bool is_upper(std::int32_t c) noexcept;
bool is_cased(std::int32_t c) noexcept;
bool is_printable(std::int32_t c) noexcept;

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
/// First code point in title case, the rest lower.
std::string capitalize(std::string_view text);
/// str.title(): a letter after a letter is lower, any other is title case.
std::string title_words(std::string_view text);
/// str.islower / isupper: some cased code point, and all of them `lower` (or upper).
bool all_cased(std::string_view text, bool lower) noexcept;

enum class Side { both, left, right };
/// strip(): white space, or the code points of `*chars`.
std::string_view strip(std::string_view text, const std::string* chars, Side side);
std::vector<std::string_view> split_whitespace(std::string_view text, std::int64_t max_split,
                                               bool from_right);
/// `separator` is not empty; max_split < 0 means no bound.
std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::int64_t max_split,
                                    bool from_right);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// repr(float): the shortest digits that read back the same.
std::string real_text(double value);
/// float(text), or nothing where Python raises ValueError.
std::optional<double> parse_real(std::string_view text);
/// int(text, base). Nothing where Python raises ValueError; Error{unsupported} beyond 64 bits.
std::optional<std::int64_t> parse_int(std::string_view text, int base);

}  // namespace nibble::jinja
