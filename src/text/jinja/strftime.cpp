// SPDX-License-Identifier: MIT
// Directives of strftime_now, the clock of chat templates.
#include "text/jinja/strftime.hpp"

#include <array>
#include <string_view>

namespace nibble::jinja {
namespace {

constexpr std::array<std::string_view, 7> days = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                  "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> months = {"January",   "February", "March",    "April",
                                                     "May",       "June",     "July",     "August",
                                                     "September", "October",  "November", "December"};

template <std::size_t N>
std::string_view name_of(const std::array<std::string_view, N>& names, int index) {
  return index >= 0 && static_cast<std::size_t>(index) < N ? names[static_cast<std::size_t>(index)] : "?";
}

std::string padded(int value, std::size_t width, char fill, bool pad) {
  std::string text = std::to_string(value);
  if (pad && text.size() < width) text.insert(0, width - text.size(), fill);
  return text;
}

void directive(Writer& out, char kind, bool pad, const std::tm& t) {
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  switch (kind) {
    case 'a': out.add(name_of(days, t.tm_wday).substr(0, 3)); return;
    case 'A': out.add(name_of(days, t.tm_wday)); return;
    case 'b': case 'h': out.add(name_of(months, t.tm_mon).substr(0, 3)); return;
    case 'B': out.add(name_of(months, t.tm_mon)); return;
    case 'd': out.add(padded(t.tm_mday, 2, '0', pad)); return;
    case 'e': out.add(padded(t.tm_mday, 2, ' ', pad)); return;
    case 'H': out.add(padded(t.tm_hour, 2, '0', pad)); return;
    case 'k': out.add(padded(t.tm_hour, 2, ' ', pad)); return;
    case 'I': out.add(padded(hour12, 2, '0', pad)); return;
    case 'l': out.add(padded(hour12, 2, ' ', pad)); return;
    case 'j': out.add(padded(t.tm_yday + 1, 3, '0', pad)); return;
    case 'm': out.add(padded(t.tm_mon + 1, 2, '0', pad)); return;
    case 'M': out.add(padded(t.tm_min, 2, '0', pad)); return;
    case 'S': out.add(padded(t.tm_sec, 2, '0', pad)); return;
    case 'p': out.add(t.tm_hour < 12 ? "AM" : "PM"); return;
    case 'u': out.add(std::to_string(t.tm_wday == 0 ? 7 : t.tm_wday)); return;
    case 'w': out.add(std::to_string(t.tm_wday)); return;
    case 'y': out.add(padded((t.tm_year + 1900) % 100, 2, '0', pad)); return;
    case 'Y': out.add(std::to_string(t.tm_year + 1900)); return;
    case 'n': out.add("\n"); return;
    case 't': out.add("\t"); return;
    case '%': out.add("%"); return;
    case 'D': case 'x': format_time(out, "%m/%d/%y", t); return;
    case 'F': format_time(out, "%Y-%m-%d", t); return;
    case 'T': case 'X': format_time(out, "%H:%M:%S", t); return;
    case 'R': format_time(out, "%H:%M", t); return;
    case 'c': format_time(out, "%a %b %e %H:%M:%S %Y", t); return;
    default: fail_unsupported(std::string("the time directive '%") + kind + "'");
  }
}

}  // namespace

void format_time(Writer& out, const std::string& format, const std::tm& time) {
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') { out.add(1, format[i]); continue; }
    const bool pad = !(i + 1 < format.size() && format[i + 1] == '-');
    if (!pad) ++i;
    if (++i >= format.size()) fail_unsupported("a time format that ends in '%'");
    directive(out, format[i], pad, time);
  }
}

}  // namespace nibble::jinja
