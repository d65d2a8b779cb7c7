// SPDX-License-Identifier: MIT
// Numbers as text the way Python writes and reads them: float's repr, float() and int() of strings.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "text/jinja/budget.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  return 99;
}

// Drops the underscores Python allows between two digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text, bool hex) {
  const auto is_digit_here = [&](std::size_t i) {
    return i < text.size() && digit_value(text[i]) < (hex ? 36 : 10);
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') out.push_back(text[i]);
    else if (i == 0 || !is_digit_here(i - 1) || !is_digit_here(i + 1)) return std::nullopt;
  }
  return out;
}

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto [end, ec] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') { out = "-"; text.remove_prefix(1); }
  const std::size_t e = text.find('e');
  int exponent = 0;
  const std::size_t digits_at = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + digits_at, text.data() + text.size(), exponent);
  std::string digits(1, text[0]);
  if (e > 2) digits.append(text.substr(2, e - 2));
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    const std::string size = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<std::size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<std::size_t>(exponent) + 1);
}

std::optional<double> parse_real(std::string_view text) {
  const std::string lowered = lower_ascii(strip(text, nullptr, Side::both));
  std::optional<std::string> clean = without_underscores(lowered, false);
  if (!clean || clean->empty()) return std::nullopt;
  std::string_view number = *clean;
  double sign = 1;
  if (number.front() == '+' || number.front() == '-') {
    if (number.front() == '-') sign = -1;
    number.remove_prefix(1);
  }
  if (number == "inf" || number == "infinity") return sign * std::numeric_limits<double>::infinity();
  if (number == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (number.empty() || !(digit_value(number.front()) < 10 || number.front() == '.')) return std::nullopt;
  double value = 0;
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end != number.data() + number.size() || ec == std::errc::invalid_argument) return std::nullopt;
  if (ec == std::errc::result_out_of_range) {
    // Too large or too small: the exponent's sign tells which.
    const std::size_t e = number.find('e');
    const bool tiny = (e != number.npos && number.substr(e + 1).starts_with('-')) ||
                      number.starts_with("0.") || number.starts_with('.');
    value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return sign * value;
}

std::optional<std::int64_t> parse_int(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) fail("int() base must be >= 2 and <= 36, or 0");
  const std::string lowered = lower_ascii(strip(text, nullptr, Side::both));
  std::string_view number = lowered;
  bool negative = false;
  if (!number.empty() && (number.front() == '+' || number.front() == '-')) {
    negative = number.front() == '-';
    number.remove_prefix(1);
  }
  const auto take_prefix = [&](char letter, int prefix_base) {
    if ((base == 0 || base == prefix_base) && number.size() > 2 && number[0] == '0' && number[1] == letter) {
      number.remove_prefix(2);
      if (number.front() == '_') number.remove_prefix(1);
      return true;
    }
    return false;
  };
  const bool decimal_guess = base == 0;
  if (take_prefix('x', 16)) base = 16;
  else if (take_prefix('o', 8)) base = 8;
  else if (take_prefix('b', 2)) base = 2;
  else if (base == 0) base = 10;
  const std::optional<std::string> digits = without_underscores(number, true);
  if (!digits || digits->empty()) return std::nullopt;
  std::int64_t value = 0;
  bool overflow = false;
  for (char c : *digits) {
    const int d = digit_value(c);
    if (d >= base) return std::nullopt;
    overflow = overflow || __builtin_mul_overflow(value, static_cast<std::int64_t>(base), &value) ||
               __builtin_sub_overflow(value, static_cast<std::int64_t>(d), &value);
  }
  if (decimal_guess && base == 10 && digits->front() == '0' && value != 0) return std::nullopt;
  if (!negative) overflow = overflow || __builtin_mul_overflow(value, std::int64_t{-1}, &value);
  if (overflow) fail_unsupported("an integer beyond 64 bits");
  return value;
}

}  // namespace nibble::jinja
