// SPDX-License-Identifier: MIT
// UTF-8 stepping against an independent decoder, class counts of Unicode 16, NFC against UAX #15 examples
// and its invariants.
#include <cstdint>
#include <string>
#include <vector>

#include "nibble/text/unicode.hpp"
#include "support/catch.hpp"

namespace {

using namespace nibble;
using namespace std::string_literals;
using unicode::CharClass;

std::string utf8(char32_t cp) {
  std::string s;
  unicode::append_utf8(s, cp);
  return s;
}

// By definition: the shortest form of a scalar value.
bool is_character(const std::string& s) {
  std::uint32_t cp = 0;
  const auto b = [&](std::size_t i) { return static_cast<std::uint8_t>(s[i]); };
  for (std::size_t i = 1; i < s.size(); ++i)
    if (b(i) < 0x80 || b(i) > 0xBF) return false;
  switch (s.size()) {
    case 1: return b(0) < 0x80;
    case 2: cp = (b(0) & 0x1Fu) << 6 | (b(1) & 0x3Fu); return (b(0) & 0xE0) == 0xC0 && cp >= 0x80;
    case 3:
      cp = (b(0) & 0x0Fu) << 12 | (b(1) & 0x3Fu) << 6 | (b(2) & 0x3Fu);
      return (b(0) & 0xF0) == 0xE0 && cp >= 0x800 && (cp < 0xD800 || cp > 0xDFFF);
    case 4:
      cp = (b(0) & 7u) << 18 | (b(1) & 0x3Fu) << 12 | (b(2) & 0x3Fu) << 6 | (b(3) & 0x3Fu);
      return (b(0) & 0xF8) == 0xF0 && cp >= 0x10000 && cp <= 0x10FFFF;
    default: return false;
  }
}

TEST_CASE("every scalar value survives UTF-8", "[unicode]") {
  std::size_t wrong = 0;
  for (char32_t cp = 0; cp < 0x110000; ++cp) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    const std::string s = utf8(cp);
    const auto d = unicode::decode_utf8(s, 0);
    wrong += !(d.valid && d.code_point == cp && d.size == s.size());
    for (std::size_t n = 1; n < s.size(); ++n) wrong += unicode::incomplete_suffix("x" + s.substr(0, n)) != n;
    wrong += unicode::incomplete_suffix(s) != 0;
  }
  CHECK(wrong == 0);
  CHECK(utf8(0xD800) == utf8(0xFFFD));
  CHECK(utf8(0x110000) == utf8(0xFFFD));
}

TEST_CASE("decoding agrees with the definition on all short byte strings", "[unicode]") {
  // All values that matter at each place of a sequence: the edges of every range.
  const std::string edges =
      "\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5\xFF"s;
  std::size_t wrong = 0;
  for (const char a : edges)
    for (const char b : edges)
      for (const char c : edges)
        for (const char d : edges) {
          const std::string s{a, b, c, d};
          std::size_t expected = 0;
          for (std::size_t n = 1; n <= 4 && expected == 0; ++n)
            if (is_character(s.substr(0, n))) expected = n;
          const auto got = unicode::decode_utf8(s, 0);
          wrong += got.valid != (expected != 0) || got.size != (expected != 0 ? expected : 1);
        }
  CHECK(wrong == 0);
  CHECK(unicode::decode_utf8("", 0).size == 0);
  CHECK(unicode::to_valid_utf8("a\xFFz\xE2\x96") == "a\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(unicode::is_valid_utf8("h\xC3\xA9"));
  CHECK_FALSE(unicode::is_valid_utf8("h\xC3"));
  CHECK(unicode::incomplete_suffix("\xED\xA0") == 0);  // would be a surrogate: nothing can complete it
  CHECK(unicode::incomplete_suffix("\x80\x80") == 0);
}

TEST_CASE("character classes are those of Unicode 16", "[unicode]") {
  std::size_t letters = 0, numbers = 0, spaces = 0;
  for (char32_t cp = 0; cp < 0x110000; ++cp) {
    letters += unicode::char_class(cp) == CharClass::letter;
    numbers += unicode::char_class(cp) == CharClass::number;
    spaces += unicode::char_class(cp) == CharClass::space;
  }
  CHECK(letters == 141028);  // DerivedGeneralCategory-16.0.0.txt: L, N; PropList-16.0.0.txt: White_Space
  CHECK(numbers == 1911);
  CHECK(spaces == 25);
  CHECK(unicode::char_class(0x85) == CharClass::space);
  CHECK(unicode::char_class(0x180E) == CharClass::other);
  CHECK(unicode::char_class(0x200B) == CharClass::other);
  CHECK(unicode::char_class(0x1C89) == CharClass::letter);  // new in 16.0
  CHECK(unicode::char_class(0x2167) == CharClass::number);
  CHECK(unicode::char_class(0x110000) == CharClass::other);
}

TEST_CASE("canonical composition", "[unicode]") {
  const auto nfc = [](std::initializer_list<char32_t> cps) {
    std::string s;
    for (const char32_t cp : cps) unicode::append_utf8(s, cp);
    return unicode::to_nfc(s);
  };
  CHECK(nfc({'e', 0x301}) == utf8(0xE9));
  CHECK(nfc({0x212B}) == utf8(0xC5));                         // singleton
  CHECK(nfc({0x958}) == utf8(0x915) + utf8(0x93C));           // excluded from composition
  CHECK(nfc({0x1E9B, 0x323}) == utf8(0x1E9B) + utf8(0x323));  // UAX #15, figure 6
  CHECK(nfc({0x1100, 0x1161, 0x11A8}) == utf8(0xAC01));       // Hangul L V T
  CHECK(nfc({0xAC00, 0x11A8}) == utf8(0xAC01));
  CHECK(nfc({0xAC00, 0x11A7}) == utf8(0xAC00) + utf8(0x11A7));    // not a trailing consonant
  CHECK(nfc({'a', 0x301, 0x323}) == utf8(0x1EA1) + utf8(0x301));  // reordered, then composed
  CHECK(nfc({'a', 0x5AE, 0x300, 'b'}) == utf8(0xE0) + utf8(0x5AE) + "b");
  CHECK(nfc({0x301, 'e'}) == utf8(0x301) + "e");                       // a mark with no base
  CHECK(nfc({'a', 0x305, 0x301}) == "a" + utf8(0x305) + utf8(0x301));  // blocked by a mark of the same class
  CHECK(unicode::to_nfc("e\xFF\xCC\x81") == "e\xFF\xCC\x81");          // an invalid byte is in between
  CHECK(unicode::to_nfc("a\x80"
                        "e\xCC\x81") == "a\x80\xC3\xA9");

  std::size_t wrong = 0;
  for (char32_t cp = 0; cp < 0x30000; ++cp) {
    if (cp >= 0xD800 && cp < 0xE000) continue;
    const std::string s = utf8(cp), once = unicode::to_nfc(s);
    wrong += unicode::to_nfc(once) != once;
    wrong += unicode::is_surely_nfc(s) && once != s;
    const std::string marked = unicode::to_nfc("a" + s + "\xCC\x81" + s);
    wrong += unicode::to_nfc(marked) != marked;
  }
  CHECK(wrong == 0);
}

TEST_CASE("normalizing a megabyte of combining marks takes no quadratic time", "[unicode]") {
  std::string marks = "a";
  for (int i = 0; i < 250'000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  const std::string once = unicode::to_nfc(marks);
  CHECK(once.size() > 400'000);
  CHECK(unicode::to_nfc(once) == once);
}

}  // namespace
