// SPDX-License-Identifier: MIT
#include "nibble/eval/report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "nibble/core/contract.hpp"
#include "nibble/text/unicode.hpp"

namespace nibble {

namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

std::string quoted(std::string_view raw) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : unicode::to_valid_utf8(raw)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Digits of `v`; the shortest that read back alike, or `precision` significant ones.
std::string number(double v, int precision = 0) {
  std::array<char, 64> buffer{};
  char* const begin = buffer.data();
  char* const end = begin + buffer.size();
  const auto r = precision > 0 ? std::to_chars(begin, end, v, std::chars_format::general, precision)
                               : std::to_chars(begin, end, v);
  return std::string(begin, r.ptr);
}

/// Text on one line: control characters would break a table.
std::string single_line(std::string_view raw) {
  std::string out;
  for (const char c : unicode::to_valid_utf8(raw)) {
    if (c == '\n') out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) out += ' ';
    else out += c;
  }
  return out;
}

std::size_t columns_of(std::string_view text) {  // code points: good enough to align a listing
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::size_t have = columns_of(text);
  const std::string space(width > have ? width - have : 0, ' ');
  return right ? space + text : text + space;
}

/// Cells of a table as text, the header first, and which columns hold numbers only.
struct Cells {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  std::vector<bool> numeric;
};

Cells cells_of(const ReportTable& table) {
  Cells c;
  c.rows.push_back(table.columns());
  for (const auto& row : table.rows()) {
    c.rows.emplace_back();
    for (const ReportValue& v : row) c.rows.back().push_back(v.to_text());
  }
  c.widths.resize(table.columns().size());
  c.numeric.assign(table.columns().size(), !table.rows().empty());
  for (const auto& row : c.rows)
    for (std::size_t i = 0; i < row.size(); ++i) c.widths[i] = std::max(c.widths[i], columns_of(row[i]));
  for (const auto& row : table.rows())
    for (std::size_t i = 0; i < row.size(); ++i) c.numeric[i] = c.numeric[i] && row[i].is_number();
  return c;
}

std::string md_escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

void trim_line_end(std::string& out) { out.erase(out.find_last_not_of(' ') + 1); }

}  // namespace

std::optional<ReportFormat> parse_report_format(std::string_view name) noexcept {
  if (name == "table") return ReportFormat::table;
  if (name == "json") return ReportFormat::json;
  if (name == "md") return ReportFormat::md;
  return std::nullopt;
}

std::string ReportValue::to_json() const {
  return std::visit(Overload{[](std::monostate) { return std::string("null"); },
                             [](bool v) { return std::string(v ? "true" : "false"); },
                             [](std::int64_t v) { return std::to_string(v); },
                             [](double v) { return std::isfinite(v) ? number(v) : std::string("null"); },
                             [](const std::string& v) { return quoted(v); },
                             [](const List& v) {
                               std::string out = "[";
                               for (const ReportValue& x : v) out += (out.size() > 1 ? ", " : "") + x.to_json();
                               return out + "]";
                             }},
                    data_);
}

std::string ReportValue::to_text() const {
  return std::visit(Overload{[](std::monostate) { return std::string("-"); },
                             [](bool v) { return std::string(v ? "yes" : "no"); },
                             [](std::int64_t v) { return std::to_string(v); },
                             [](double v) { return number(v, 6); },
                             [](const std::string& v) { return single_line(v); },
                             [](const List& v) {
                               std::string out = "[";
                               for (const ReportValue& x : v) out += (out.size() > 1 ? ", " : "") + x.to_text();
                               return out + "]";
                             }},
                    data_);
}

ReportTable& ReportTable::add(std::vector<ReportValue> row) {
  NIBBLE_EXPECTS(row.size() == columns_.size(), "table " + key_ + ": a row of " + std::to_string(row.size()) +
                                                    " values for " + std::to_string(columns_.size()) + " columns");
  rows_.push_back(std::move(row));
  return *this;
}

Report& Report::add(std::string key, ReportValue value) {
  values_.emplace_back(std::move(key), std::move(value));
  return *this;
}

ReportTable& Report::table(std::string key, std::vector<std::string> columns) {
  return tables_.emplace_back(std::move(key), std::move(columns));
}

std::string Report::render(ReportFormat format) const {
  switch (format) {
    case ReportFormat::json: return render_json();
    case ReportFormat::md: return render_md();
    case ReportFormat::table: break;
  }
  return render_table();
}

std::string Report::render_json() const {
  std::string out = "{";
  const auto key = [&](std::string_view name) { out += (out.size() > 1 ? ",\n  " : "\n  ") + quoted(name) + ": "; };
  for (const auto& [name, value] : values_) {
    key(name);
    out += value.to_json();
  }
  for (const ReportTable& table : tables_) {
    key(table.key());
    out += '[';
    for (std::size_t r = 0; r < table.rows().size(); ++r) {
      out += r == 0 ? "\n    {" : ",\n    {";
      for (std::size_t c = 0; c < table.columns().size(); ++c)
        out += (c > 0 ? ", " : "") + quoted(table.columns()[c]) + ": " + table.rows()[r][c].to_json();
      out += '}';
    }
    out += table.rows().empty() ? "]" : "\n  ]";
  }
  return out + "\n}\n";
}

std::string Report::render_table() const {
  std::string out;
  std::size_t width = 0;
  for (const auto& [name, value] : values_) width = std::max(width, columns_of(name));
  for (const auto& [name, value] : values_) out += padded(name, width, false) + "  " + value.to_text() + "\n";
  for (const ReportTable& table : tables_) {
    out += (out.empty() ? "" : "\n") + table.key() + "\n";
    const Cells cells = cells_of(table);
    for (const auto& row : cells.rows) {
      for (std::size_t i = 0; i < row.size(); ++i) out += "  " + padded(row[i], cells.widths[i], cells.numeric[i]);
      trim_line_end(out);
      out += '\n';
    }
  }
  return out;
}

std::string Report::render_md() const {
  std::string out;
  if (!values_.empty()) out += "| key | value |\n|---|---|\n";
  for (const auto& [name, value] : values_)
    out += "| " + md_escaped(name) + " | " + md_escaped(value.to_text()) + " |\n";
  for (const ReportTable& table : tables_) {
    out += (out.empty() ? "" : "\n") + std::string("**") + table.key() + "**\n\n";
    const Cells cells = cells_of(table);
    for (std::size_t r = 0; r < cells.rows.size(); ++r) {
      for (const std::string& cell : cells.rows[r]) out += "| " + md_escaped(cell) + " ";
      out += "|\n";
      if (r > 0) continue;
      for (const bool numeric : cells.numeric) out += numeric ? "|---:" : "|---";
      out += "|\n";
    }
  }
  return out;
}

}  // namespace nibble
