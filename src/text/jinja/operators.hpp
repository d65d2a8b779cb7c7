// SPDX-License-Identifier: MIT
// Python's operators on template objects: arithmetic, comparison, membership, subscripts and slices.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "text/jinja/object.hpp"

namespace nibble::jinja {

enum class BinaryOp { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOp { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

Object binary(Budget& budget, BinaryOp op, const Object& left, const Object& right);
Object negate(const Object& operand);
Object plus(const Object& operand);

bool equal(Budget& budget, const Object& left, const Object& right);
bool compare(Budget& budget, CompareOp op, const Object& left, const Object& right);
/// Whether `item` is in `container`; for a string, whether it is part of it.
bool contains(Budget& budget, const Object& container, const Object& item);

/// container[index] where Python would not raise; nothing otherwise. Does not look at attributes.
std::optional<Object> element(Budget& budget, const Object& container, const Object& index);
/// container[start:stop:step]; nullptr for a bound left out.
Object slice(Budget& budget, const Object& container, const Object* start, const Object* stop,
             const Object* step);

/// The string format % arguments.
std::string percent_format(Budget& budget, const std::string& format, const Object& arguments);

/// Resolves an optional start/stop pair against a length as slices do: both end up in [0, length].
struct Span { std::int64_t begin, end; };
Span resolve_span(std::optional<std::int64_t> start, std::optional<std::int64_t> stop,
                  std::int64_t length) noexcept;

}  // namespace nibble::jinja
