// SPDX-License-Identifier: MIT
// Report: results under stable keys, rendered for a person (table), a program (json) or a document (md).
// A report is an ordered list of key and value, then any number of named tables; in JSON one object, with
// each table as a list of objects.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nibble/core/export.hpp"

namespace nibble {

enum class ReportFormat { table, json, md };

/// "table", "json" or "md"; nothing for any other name.
NIBBLE_API std::optional<ReportFormat> parse_report_format(std::string_view name) noexcept;

/// One value: nothing, a boolean, a number, a text or a list of values.
class NIBBLE_API ReportValue {
 public:
  using List = std::vector<ReportValue>;

  ReportValue() = default;
  ReportValue(bool v) : data_(v) {}
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  ReportValue(T v) : data_(static_cast<std::int64_t>(v)) {}
  ReportValue(double v) : data_(v) {}
  ReportValue(std::string v) : data_(std::move(v)) {}
  ReportValue(std::string_view v) : data_(std::string(v)) {}
  ReportValue(const char* v) : data_(std::string(v)) {}
  ReportValue(List v) : data_(std::move(v)) {}

  /// Shortest text that reads back as the same number; NaN and infinities become null.
  std::string to_json() const;
  /// For people: six significant digits, lists as "[a, b]", nothing as "-".
  std::string to_text() const;
  bool is_number() const noexcept { return data_.index() == 2 || data_.index() == 3; }

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List> data_;
};

/// Rows under named columns.
class NIBBLE_API ReportTable {
 public:
  ReportTable(std::string key, std::vector<std::string> columns) : key_(std::move(key)), columns_(std::move(columns)) {}
  /// One value per column; throws Error{invalid_argument} otherwise.
  ReportTable& add(std::vector<ReportValue> row);

  const std::string& key() const noexcept { return key_; }
  const std::vector<std::string>& columns() const noexcept { return columns_; }
  const std::vector<std::vector<ReportValue>>& rows() const noexcept { return rows_; }

 private:
  std::string key_;
  std::vector<std::string> columns_;
  std::vector<std::vector<ReportValue>> rows_;
};

class NIBBLE_API Report {
 public:
  Report& add(std::string key, ReportValue value);
  /// A new table; the reference stays valid.
  ReportTable& table(std::string key, std::vector<std::string> columns);

  /// The whole report, ending in a newline. Text that is not UTF-8 is repaired with U+FFFD.
  std::string render(ReportFormat format) const;

 private:
  std::string render_json() const;
  std::string render_table() const;
  std::string render_md() const;

  std::vector<std::pair<std::string, ReportValue>> values_;
  std::deque<ReportTable> tables_;
};

}  // namespace nibble
