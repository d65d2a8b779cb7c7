// SPDX-License-Identifier: MIT
// Code points, character classes, case and splitting as Python's str has them; the tables were made from
// CPython's own.
#include "text/jinja/python_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "nibble/text/unicode.hpp"

namespace nibble::jinja {
namespace {

/// first, first + stride, ... last.
struct Range { std::int32_t first, last, stride; };
/// Members of the range map to themselves plus delta.
struct Mapping { std::int32_t first, last, stride, delta; };
/// A mapping to several code points, padded with 0.
struct SpecialCase {
  std::int32_t first;
  std::array<std::int32_t, 3> to;
};

#include "text/jinja/case_tables.inc"

// The entry whose range has `c`, or nullptr.
template <class Entry, std::size_t N>
const Entry* lookup(std::int32_t c, const Entry (&table)[N]) noexcept {
  const Entry* after = std::upper_bound(std::begin(table), std::end(table), c,
                                        [](std::int32_t v, const Entry& e) { return v < e.first; });
  if (after == std::begin(table)) return nullptr;
  const Entry& e = *(after - 1);
  return c <= e.last && (c - e.first) % e.stride == 0 ? &e : nullptr;
}

template <std::size_t N>
std::int32_t map_case(std::int32_t c, const Mapping (&table)[N]) noexcept {
  const Mapping* m = lookup(c, table);
  return m ? c + m->delta : c;
}

template <std::size_t N>
bool append_special(std::int32_t c, const SpecialCase (&table)[N], std::string& out) {
  const auto* found = std::lower_bound(std::begin(table), std::end(table), c,
                                       [](const SpecialCase& s, std::int32_t v) { return s.first < v; });
  if (found == std::end(table) || found->first != c) return false;
  for (const std::int32_t to : found->to) {
    if (to != 0) encode(to, out);
  }
  return true;
}

void append_title(std::int32_t c, std::string& out) {
  if (!append_special(c, special_title, out)) encode(map_case(c, title_map), out);
}

bool is_case_ignorable(std::int32_t c) noexcept { return lookup(c, ignorable_ranges) != nullptr; }

// A capital sigma ends a word when a cased letter comes before it and none after, case-ignorables aside.
bool is_final_sigma(const std::vector<std::int32_t>& text, std::size_t at) noexcept {
  std::size_t i = at;
  while (i > 0 && is_case_ignorable(text[i - 1])) --i;
  if (i == 0 || !is_cased(text[i - 1])) return false;
  i = at + 1;
  while (i < text.size() && is_case_ignorable(text[i])) ++i;
  return i == text.size() || !is_cased(text[i]);
}

void append_lower(const std::vector<std::int32_t>& text, std::size_t at, std::string& out) {
  const std::int32_t c = text[at];
  if (c == 0x130) { encode('i', out); encode(0x307, out); }
  else if (c == 0x3A3) encode(is_final_sigma(text, at) ? 0x3C2 : 0x3C3, out);
  else encode(map_case(c, lower_map), out);
}

}  // namespace

CodePoint decode(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const CodePoint stray{0xDC80 + (lead & 0x7F), 1};
  const std::size_t length = lead >= 0xF0 && lead < 0xF5   ? 4
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                                                           : 0;
  if (length == 0 || length > text.size() - at) return stray;
  std::int32_t c = lead & (0x7F >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return stray;
    c = (c << 6) | (byte(i) & 0x3F);
  }
  constexpr std::int32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (c < smallest[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return stray;
  return {c, length};
}

void encode(std::int32_t c, std::string& out) {
  const auto put = [&](std::int32_t byte) {
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c >= 0xDC80 && c <= 0xDCFF) {
    put(c - 0xDC00);  // the stray byte itself
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::size_t count_code_points(std::string_view text) noexcept {
  std::size_t n = 0;
  for (std::size_t at = 0; at < text.size(); at += decode(text, at).length) ++n;
  return n;
}

std::size_t byte_offset(std::string_view text, std::size_t index) noexcept {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += decode(text, at).length;
  return at;
}

std::vector<std::int32_t> code_points(std::string_view text) {
  std::vector<std::int32_t> points;
  points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    points.push_back(c.value);
    at += c.length;
  }
  return points;
}

std::string from_code_points(const std::vector<std::int32_t>& points) {
  std::string out;
  for (std::int32_t c : points) encode(c, out);
  return out;
}

bool is_space(std::int32_t c) noexcept {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_alpha(std::int32_t c) noexcept {
  return unicode::char_class(static_cast<char32_t>(c)) == unicode::CharClass::letter;
}
bool is_alnum(std::int32_t c) noexcept {
  const unicode::CharClass k = unicode::char_class(static_cast<char32_t>(c));
  return k == unicode::CharClass::letter || k == unicode::CharClass::number;
}
bool is_decimal(std::int32_t c) noexcept { return lookup(c, decimal_ranges) != nullptr; }
bool is_digit(std::int32_t c) noexcept { return is_decimal(c) || lookup(c, digit_ranges); }
bool is_lower(std::int32_t c) noexcept { return lookup(c, lower_ranges) != nullptr; }
bool is_upper(std::int32_t c) noexcept { return lookup(c, upper_ranges) != nullptr; }
bool is_cased(std::int32_t c) noexcept { return is_lower(c) || is_upper(c) || lookup(c, title_ranges); }
bool is_printable(std::int32_t c) noexcept {
  const bool surrogate = c >= 0xD800 && c < 0xE000;
  return !surrogate && !lookup(c, unprintable_ranges);
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    at += c.length;
    if (!append_special(c.value, special_upper, out)) encode(map_case(c.value, upper_map), out);
  }
  return out;
}

std::string to_lower(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < points.size(); ++i) append_lower(points, i, out);
  return out;
}

std::string capitalize(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == 0) append_title(points[i], out);
    else append_lower(points, i, out);
  }
  return out;
}

std::string title_words(std::string_view text) {
  const auto points = code_points(text);
  std::string out;
  bool after_letter = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (after_letter) append_lower(points, i, out);
    else append_title(points[i], out);
    after_letter = is_cased(points[i]);
  }
  return out;
}

bool all_cased(std::string_view text, bool lower) noexcept {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    at += c.length;
    if (!is_cased(c.value)) continue;
    if (!(lower ? is_lower(c.value) : is_upper(c.value))) return false;
    any = true;
  }
  return any;
}

std::string_view strip(std::string_view text, const std::string* chars, Side side) {
  std::vector<std::int32_t> set;
  if (chars) {
    set = code_points(*chars);
    std::sort(set.begin(), set.end());
  }
  const auto strips = [&](std::int32_t c) {
    return chars ? std::binary_search(set.begin(), set.end(), c) : is_space(c);
  };
  std::size_t begin = 0, end = text.size();
  if (side != Side::right) {
    while (begin < end) {
      const CodePoint c = decode(text, begin);
      if (!strips(c.value)) break;
      begin += c.length;
    }
  }
  if (side != Side::left) {
    while (end > begin) {
      // The last code point starts at most four bytes back; stray bytes stand alone.
      std::size_t at = end - 1;
      while (at > begin && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      if (at + decode(text, at).length != end) at = end - 1;
      if (!strips(decode(text, at).value)) break;
      end = at;
    }
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split_whitespace(std::string_view text, std::int64_t max_split,
                                               bool from_right) {
  struct Word { std::size_t begin, end; };
  std::vector<Word> words;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    if (is_space(c.value)) inside = false;
    else if (inside) words.back().end = at + c.length;
    else { words.push_back({at, at + c.length}); inside = true; }
    at += c.length;
  }
  // Beyond max_split splits the rest stays whole, without the white space at its outer end.
  const std::size_t bound = max_split < 0 ? words.size() : static_cast<std::size_t>(max_split);
  std::vector<std::string_view> parts;
  if (words.size() <= bound || words.empty()) {
    for (const Word& w : words) parts.push_back(text.substr(w.begin, w.end - w.begin));
  } else if (from_right) {
    const std::size_t rest = words.size() - bound;
    const std::string_view head = text.substr(0, words[rest - 1].end);
    parts.push_back(head);
    for (std::size_t i = rest; i < words.size(); ++i)
      parts.push_back(text.substr(words[i].begin, words[i].end - words[i].begin));
  } else {
    for (std::size_t i = 0; i < bound; ++i)
      parts.push_back(text.substr(words[i].begin, words[i].end - words[i].begin));
    parts.push_back(text.substr(words[bound].begin));
  }
  return parts;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator, std::int64_t max_split,
                                    bool from_right) {
  std::vector<std::string_view> parts;
  const auto more = [&] { return max_split < 0 || parts.size() < static_cast<std::size_t>(max_split); };
  if (from_right) {
    for (std::size_t at; more() && (at = text.rfind(separator)) != text.npos;) {
      parts.push_back(text.substr(at + separator.size()));
      text = text.substr(0, at);
    }
    parts.push_back(text);
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  for (std::size_t at; more() && (at = text.find(separator)) != text.npos;) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode(text, at);
    const bool ends = (c.value >= 0x0A && c.value <= 0x0D) || (c.value >= 0x1C && c.value <= 0x1E) ||
                      c.value == 0x85 || c.value == 0x2028 || c.value == 0x2029;
    const std::size_t stop = at;
    at += c.length;
    if (!ends) continue;
    if (c.value == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : stop) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

}  // namespace nibble::jinja
