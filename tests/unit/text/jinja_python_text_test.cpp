// SPDX-License-Identifier: MIT
// Python's str on UTF-8: every code point's case and class by checksum (tests/golden/make_case_mappings.py
// prints them), floats as text both ways, splitting and stripping at the edges.
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "support/catch.hpp"
#include "text/jinja/python_text.hpp"

using namespace nibble::jinja;

namespace {

std::uint32_t crc32(std::string_view text) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = (t[i] >> 1) ^ ((t[i] & 1) != 0 ? 0xEDB88320u : 0u);
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : text) crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

template <class F>
std::string for_all(F&& f) {
  std::string out;
  for (std::int32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    f(c, out);
  }
  return out;
}

std::uint32_t mapped(std::string (*function)(std::string_view)) {
  return crc32(for_all([&](std::int32_t c, std::string& out) {
    std::string one;
    encode(c, one);
    out += function(one);
  }));
}

std::uint32_t classed(bool (*predicate)(std::int32_t) noexcept) {
  return crc32(for_all([&](std::int32_t c, std::string& out) { out.push_back(predicate(c) ? '1' : '0'); }));
}

using Strings = std::vector<std::string>;
Strings owned(const std::vector<std::string_view>& parts) { return {parts.begin(), parts.end()}; }

}  // namespace

TEST_CASE("case and classes of all code points are Python's", "[text][jinja]") {
  CHECK(mapped(to_upper) == 0xbc14f35eu);
  CHECK(mapped(to_lower) == 0x373c994cu);
  CHECK(mapped(title_words) == 0x584864abu);
  CHECK(mapped(capitalize) == 0x584864abu);
  CHECK(classed(is_decimal) == 0xe44fddc8u);
  CHECK(classed(is_digit) == 0xbfcdf63du);
  CHECK(classed(is_lower) == 0xae5b1cbbu);
  CHECK(classed(is_upper) == 0x916ec3fdu);
  CHECK(classed(is_printable) == 0xa7496d34u);
  CHECK(classed(is_space) == 0xe0455782u);
}

TEST_CASE("code points and bytes convert without loss", "[text][jinja]") {
  for (std::int32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    std::string one;
    encode(c, one);
    const CodePoint back = decode(one, 0);
    if (back.value != c || back.length != one.size()) FAIL("code point " << c);
    if (one.size() > 1 && decode(std::string_view(one).substr(0, one.size() - 1), 0).length != 1)
      FAIL("cut " << c);
  }
  const std::string broken = "a\x80\xC3(\xE2\x82\xF0\x9F\xA6\xED\xA0\x80\xC0\xAF";
  CHECK(from_code_points(code_points(broken)) == broken);
  CHECK(count_code_points(broken) == broken.size());
}

TEST_CASE("floats print as Python prints them", "[text][jinja]") {
  constexpr double inf = std::numeric_limits<double>::infinity();
  for (const auto& [value, text] :
       std::vector<std::pair<double, std::string>>{{0.0, "0.0"},
                                                   {-0.0, "-0.0"},
                                                   {1.0, "1.0"},
                                                   {-1.5, "-1.5"},
                                                   {0.1, "0.1"},
                                                   {1e15, "1000000000000000.0"},
                                                   {1e16, "1e+16"},
                                                   {123456789012345680.0, "1.2345678901234568e+17"},
                                                   {0.0001, "0.0001"},
                                                   {0.00001, "1e-05"},
                                                   {1.5e-7, "1.5e-07"},
                                                   {5e-324, "5e-324"},
                                                   {1.7976931348623157e308, "1.7976931348623157e+308"},
                                                   {1e100, "1e+100"},
                                                   {2.0 / 3, "0.6666666666666666"},
                                                   {inf, "inf"},
                                                   {-inf, "-inf"},
                                                   {std::nan(""), "nan"}}) {
    CHECK(real_text(value) == text);
    if (std::isfinite(value)) CHECK(parse_real(text) == value);
  }
}

TEST_CASE("numbers read as Python reads them", "[text][jinja]") {
  for (const char* bad : {"", " ", "x", "1x", "1_", "_1", "1__0", "0x10", "1e", "e1", ".", "+-1", "--1",
                          "1.2.3", "in", "infin", "1 2"}) {
    INFO(bad);
    CHECK(!parse_real(bad));
  }
  CHECK(parse_real(" +1_0.5e-1_0\n") == 10.5e-10);
  CHECK(parse_real("-iNf") == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(parse_real("NaN").value_or(0)));
  CHECK(parse_real("1e999") == std::numeric_limits<double>::infinity());
  CHECK(parse_real("1e-999") == 0.0);
  for (const char* bad : {"", "-", "1.5", "12a", "_1", "1_", "0x", "0b2", "z"}) {
    INFO(bad);
    CHECK(!parse_int(bad, 10));
  }
  CHECK(parse_int(" -1_000 ", 10) == -1000);
  CHECK(parse_int("0X_1f", 16) == 31);
  CHECK(parse_int("007", 10) == 7);
  CHECK(!parse_int("007", 0));
  CHECK(parse_int("00", 0) == 0);
  CHECK(parse_int("-9223372036854775808", 10) == std::numeric_limits<std::int64_t>::min());
  CHECK_THROWS(parse_int("9223372036854775808", 10));
}

TEST_CASE("stripping looks at code points, stray bytes included", "[text][jinja]") {
  CHECK(strip("\xE3\x80\x80 x \xC2\xA0", nullptr, Side::both) == "x");
  CHECK(strip("   ", nullptr, Side::both).empty());
  const std::string set = "\xE7\x95\x8C";
  CHECK(strip("\xE7\x95\x8C"
              "a\xE7\x95\x8C\xE7\x95\x8C",
              &set, Side::both) == "a");
  CHECK(strip("a\x80\x80", nullptr, Side::both) == "a\x80\x80");
  const std::string stray = "\x80";
  CHECK(strip("\x80"
              "a\x80\x80",
              &stray, Side::both) == "a");
}

TEST_CASE("splitting at the edges", "[text][jinja]") {
  CHECK(owned(split("a,b,", ",", -1, false)) == Strings{"a", "b", ""});
  CHECK(owned(split("aaa", "aa", -1, false)) == Strings{"", "a"});
  CHECK(owned(split("aaa", "aa", -1, true)) == Strings{"a", ""});
  CHECK(owned(split_whitespace(" a  b ", 1, false)) == Strings{"a", "b "});
  CHECK(owned(split_whitespace(" a  b ", 1, true)) == Strings{" a", "b"});
  CHECK(owned(split_whitespace(" a  b ", 0, false)) == Strings{"a  b "});
  CHECK(owned(split_whitespace(" a  b ", 0, true)) == Strings{" a  b"});
  CHECK(split_whitespace("  ", -1, false).empty());
  CHECK(owned(split_lines("a\r\nb\n\n", false)) == Strings{"a", "b", ""});
  CHECK(owned(split_lines("a\r\nb\n\n", true)) == Strings{"a\r\n", "b\n", "\n"});
}
