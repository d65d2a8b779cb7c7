// SPDX-License-Identifier: MIT
// Value: data handed to a chat template. The JSON types plus "undefined" (a variable that is not there,
// which templates can ask about), with integers apart from floats and maps in insertion order, because
// both show in the rendered text.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nibble/core/contract.hpp"

namespace nibble {

/// A plain value type: copies are deep, and const access is safe from any number of threads.
class Value {
 public:
  struct Undefined {};
  struct None {};
  struct Member;
  using List = std::vector<Value>;
  using Map = std::vector<Member>;

  Value();
  Value(std::nullptr_t);
  Value(bool v);
  template <std::integral T>
  Value(T v);
  Value(double v);
  Value(std::string v);
  Value(std::string_view v);
  Value(const char* v);

  static Value list();
  static Value list(List items);
  static Value map();
  static Value map(Map members);

  bool is_undefined() const noexcept { return holds<Undefined>(); }
  bool is_none() const noexcept { return holds<None>(); }
  const bool* as_bool() const noexcept { return std::get_if<bool>(&data_); }
  const std::int64_t* as_integer() const noexcept { return std::get_if<std::int64_t>(&data_); }
  const double* as_real() const noexcept { return std::get_if<double>(&data_); }
  const std::string* as_string() const noexcept { return std::get_if<std::string>(&data_); }
  const List* as_list() const noexcept { return std::get_if<List>(&data_); }
  const Map* as_map() const noexcept { return std::get_if<Map>(&data_); }

  /// Appends to a list; an undefined value becomes one.
  void push_back(Value item);
  /// Sets or replaces a member of a map; an undefined value becomes one.
  void set(std::string_view key, Value value);
  /// The member of a map, or nullptr.
  const Value* find(std::string_view key) const noexcept;

 private:
  template <class T>
  bool holds() const noexcept { return std::holds_alternative<T>(data_); }
  template <std::integral T>
  static std::int64_t to_int64(T v) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) >= sizeof(std::int64_t)) {
      NIBBLE_EXPECTS(v <= static_cast<T>(std::numeric_limits<std::int64_t>::max()), "integer beyond 63 bits");
    }
    return static_cast<std::int64_t>(v);
  }

  std::variant<Undefined, None, bool, std::int64_t, double, std::string, List, Map> data_;
};

struct Value::Member {
  std::string key;
  Value value;
};

// Everything that may destroy a Value stands below Member, which must be complete there.
inline Value::Value() = default;
inline Value::Value(std::nullptr_t) : data_(None{}) {}
inline Value::Value(bool v) : data_(v) {}
template <std::integral T>
Value::Value(T v) : data_(to_int64(v)) {}
inline Value::Value(double v) : data_(v) {}
inline Value::Value(std::string v) : data_(std::move(v)) {}
inline Value::Value(std::string_view v) : data_(std::string(v)) {}
inline Value::Value(const char* v) : data_(std::string(v)) {}

inline Value Value::list(List items) {
  Value v;
  v.data_ = std::move(items);
  return v;
}

inline Value Value::list() { return list(List{}); }
inline Value Value::map() { return map(Map{}); }

inline Value Value::map(Map members) {
  Value v;
  v.data_ = std::move(members);
  return v;
}

inline void Value::push_back(Value item) {
  if (is_undefined()) data_ = List{};
  List* items = std::get_if<List>(&data_);
  NIBBLE_EXPECTS(items != nullptr, "push_back on a value that is not a list");
  items->push_back(std::move(item));
}

inline void Value::set(std::string_view key, Value value) {
  if (is_undefined()) data_ = Map{};
  Map* members = std::get_if<Map>(&data_);
  NIBBLE_EXPECTS(members != nullptr, "set on a value that is not a map");
  for (Member& m : *members) {
    if (m.key == key) { m.value = std::move(value); return; }
  }
  members->push_back({std::string(key), std::move(value)});
}

inline const Value* Value::find(std::string_view key) const noexcept {
  if (const Map* members = as_map()) {
    for (const Member& m : *members) {
      if (m.key == key) return &m.value;
    }
  }
  return nullptr;
}

}  // namespace nibble
