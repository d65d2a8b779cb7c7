// SPDX-License-Identifier: MIT
// UTF-8 stepping, character classes and NFC. Classes are looked up in sorted runs by binary search:
// ten steps over 5 KB, reached only by non-ASCII text, whose characters are two to four bytes long.
#include "nibble/text/unicode.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace nibble::unicode {
namespace {

struct Mapping {
  std::uint32_t composed, first, second;
};

#include "unicode_tables.inc"

template <std::size_t N>
std::uint8_t run_value(const std::uint32_t (&runs)[N], char32_t cp) noexcept {
  const auto key = (static_cast<std::uint32_t>(cp) << 8) | 0xFFu;
  return static_cast<std::uint8_t>(*(std::upper_bound(std::begin(runs), std::end(runs), key) - 1) & 0xFFu);
}

constexpr auto ascii_classes = [] {
  std::array<CharClass, 128> table{};
  for (std::size_t c = 0; c < 128; ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) table[c] = CharClass::letter;
    if (c >= '0' && c <= '9') table[c] = CharClass::number;
    if (c == ' ' || (c >= 9 && c <= 13)) table[c] = CharClass::space;
  }
  return table;
}();

// Sequence length and the allowed range of the second byte, by lead byte (Unicode table 3-7).
struct Lead {
  std::uint8_t size, low, high;
};
constexpr Lead lead_of(std::uint8_t b) noexcept {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b < 0xF0)
    return {3, static_cast<std::uint8_t>(b == 0xE0 ? 0xA0 : 0x80),
            static_cast<std::uint8_t>(b == 0xED ? 0x9F : 0xBF)};
  if (b < 0xF5)
    return {4, static_cast<std::uint8_t>(b == 0xF0 ? 0x90 : 0x80),
            static_cast<std::uint8_t>(b == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

// How many of the first bytes of `text` agree with a sequence led by its first byte.
std::size_t agreeing(std::string_view text, Lead lead) noexcept {
  std::size_t n = 1;
  while (n < lead.size && n < text.size()) {
    const auto b = static_cast<std::uint8_t>(text[n]);
    const bool fits = n == 1 ? (b >= lead.low && b <= lead.high) : (b & 0xC0) == 0x80;
    if (!fits) break;
    ++n;
  }
  return n;
}

// Hangul syllables are composed and decomposed by arithmetic (Unicode 3.12).
constexpr char32_t hangul_s = 0xAC00, hangul_l = 0x1100, hangul_v = 0x1161, hangul_t = 0x11A7;
constexpr char32_t hangul_vs = 21, hangul_ts = 28, hangul_ls = 19,
                   hangul_count = hangul_ls * hangul_vs * hangul_ts;

// Invalid bytes travel through normalization as numbers above Unicode: starters that never combine.
constexpr char32_t raw_byte = 0x110000;

void decompose(char32_t cp, std::vector<char32_t>& out) {
  if (cp >= hangul_s && cp < hangul_s + hangul_count) {
    const char32_t i = cp - hangul_s;
    out.push_back(hangul_l + i / (hangul_vs * hangul_ts));
    out.push_back(hangul_v + i % (hangul_vs * hangul_ts) / hangul_ts);
    if (i % hangul_ts != 0) out.push_back(hangul_t + i % hangul_ts);
    return;
  }
  // The first part may decompose again (at most four levels in Unicode), the second never does.
  std::array<char32_t, 8> tail{};
  std::size_t tails = 0;
  for (;;) {
    const auto* at = std::lower_bound(std::begin(decompositions), std::end(decompositions), cp,
                                      [](const Mapping& m, char32_t c) { return m.composed < c; });
    if (at == std::end(decompositions) || at->composed != cp || tails == tail.size()) break;
    if (at->second != 0) tail[tails++] = at->second;
    cp = at->first;
  }
  out.push_back(cp);
  while (tails > 0) out.push_back(tail[--tails]);
}

// The primary composite of a pair, or 0.
char32_t compose(char32_t a, char32_t b) noexcept {
  if (a >= hangul_l && a < hangul_l + hangul_ls && b >= hangul_v && b < hangul_v + hangul_vs)
    return hangul_s + ((a - hangul_l) * hangul_vs + (b - hangul_v)) * hangul_ts;
  if (a >= hangul_s && a < hangul_s + hangul_count && (a - hangul_s) % hangul_ts == 0 && b > hangul_t &&
      b < hangul_t + hangul_ts)
    return a + (b - hangul_t);
  const auto* at = std::lower_bound(std::begin(compositions), std::end(compositions), Mapping{0, a, b},
                                    [](const Mapping& x, const Mapping& y) {
                                      return x.first != y.first ? x.first < y.first : x.second < y.second;
                                    });
  return at != std::end(compositions) && at->first == a && at->second == b ? at->composed : 0;
}

std::uint8_t combining_class(char32_t cp) noexcept {
  return cp < 0x300 || cp >= raw_byte ? std::uint8_t{0} : run_value(combining_class_runs, cp);
}

// Puts each run of combining marks into canonical order. Stable, and n log n however long the run is.
void reorder_marks(std::vector<char32_t>& text) {
  std::vector<std::pair<std::uint8_t, char32_t>> marks;
  for (std::size_t i = 0; i < text.size();) {
    marks.clear();
    std::size_t end = i;
    for (std::uint8_t k; end < text.size() && (k = combining_class(text[end])) != 0; ++end)
      marks.emplace_back(k, text[end]);
    if (marks.size() > 1) {
      std::stable_sort(marks.begin(), marks.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (std::size_t k = 0; k < marks.size(); ++k) text[i + k] = marks[k].second;
    }
    i = std::max(end, i + 1);
  }
}

void compose_all(std::vector<char32_t>& text) {
  constexpr auto none = static_cast<std::size_t>(-1);
  std::size_t starter = none, out = 0;
  int last_class = -1;  // class of the last kept character after the starter; -1 right behind it
  for (const char32_t cp : text) {
    const int k = combining_class(cp);
    const bool blocked = starter == none || (last_class >= k && last_class != -1);
    const char32_t composed = blocked ? 0 : compose(text[starter], cp);
    if (composed != 0) {
      text[starter] = composed;
      continue;
    }
    if (k == 0) {
      starter = out;
      last_class = -1;
    } else {
      last_class = k;
    }
    text[out++] = cp;
  }
  text.resize(out);
}

}  // namespace

CharClass char_class(char32_t cp) noexcept {
  if (cp < 128) return ascii_classes[cp];
  if (cp > 0x10FFFF) return CharClass::other;
  return static_cast<CharClass>(run_value(class_runs, cp));
}

Decoded decode_utf8(std::string_view text, std::size_t pos) noexcept {
  if (pos >= text.size()) return {0, 0, false};
  const auto b = static_cast<std::uint8_t>(text[pos]);
  if (b < 0x80) return {b, 1, true};
  const Lead lead = lead_of(b);
  const std::string_view rest = text.substr(pos);
  if (lead.size == 0 || agreeing(rest, lead) < lead.size) return {0xFFFD, 1, false};
  char32_t cp = b & (0x7Fu >> lead.size);
  for (std::size_t i = 1; i < lead.size; ++i) cp = (cp << 6) | (static_cast<std::uint8_t>(rest[i]) & 0x3Fu);
  return {cp, lead.size, true};
}

void append_utf8(std::string& out, char32_t cp) {
  const auto put = [&](char32_t b) { out.push_back(static_cast<char>(b)); };
  if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) cp = 0xFFFD;
  if (cp < 0x80) {
    put(cp);
  } else if (cp < 0x800) {
    put(0xC0 | cp >> 6), put(0x80 | (cp & 0x3F));
  } else if (cp < 0x10000) {
    put(0xE0 | cp >> 12), put(0x80 | (cp >> 6 & 0x3F)), put(0x80 | (cp & 0x3F));
  } else {
    put(0xF0 | cp >> 18), put(0x80 | (cp >> 12 & 0x3F)), put(0x80 | (cp >> 6 & 0x3F)),
        put(0x80 | (cp & 0x3F));
  }
}

bool is_valid_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (!d.valid) return false;
    i += d.size;
  }
  return true;
}

std::size_t incomplete_suffix(std::string_view text) noexcept {
  for (std::size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const std::string_view tail = text.substr(text.size() - n);
    const auto b = static_cast<std::uint8_t>(tail[0]);
    if ((b & 0xC0) == 0x80) continue;  // a continuation byte: its lead is further left
    const Lead lead = lead_of(b);
    return lead.size > n && agreeing(tail, lead) == n ? n : 0;
  }
  return 0;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (d.valid) out.append(text, i, d.size);
    else append_utf8(out, 0xFFFD);
    i += d.size;
  }
  return out;
}

bool is_surely_nfc(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (d.code_point >= 0x300 && d.valid && run_value(nfc_unsafe_runs, d.code_point) != 0) return false;
    i += d.size;
  }
  return true;
}

std::string to_nfc(std::string_view text) {
  if (is_surely_nfc(text)) return std::string(text);
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (d.valid) decompose(d.code_point, points);
    else points.push_back(raw_byte + static_cast<std::uint8_t>(text[i]));
    i += d.size;
  }
  reorder_marks(points);
  compose_all(points);
  std::string out;
  out.reserve(text.size());
  for (const char32_t cp : points) {
    if (cp >= raw_byte) out.push_back(static_cast<char>(cp - raw_byte));
    else append_utf8(out, cp);
  }
  return out;
}

}  // namespace nibble::unicode
