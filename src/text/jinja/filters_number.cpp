// SPDX-License-Identifier: MIT
// Filters that give numbers: int, float, abs, round, and the two that ask about a value, default and length.
#include <charconv>
#include <cmath>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

std::int64_t truncated(double value) {
  if (std::isinf(value)) fail("cannot convert float infinity to integer");
  if (!(value > -9.2233720368547758e18 && value < 9.2233720368547758e18))
    fail_unsupported("an integer beyond 64 bits");
  return static_cast<std::int64_t>(value);
}

Object filter_int(Interpreter&, const Object& value, const Args& args) {
  const auto [fallback, base_arg] = bind("int", args, {"default", "base"});
  require_defined(value);
  const Object otherwise = fallback ? *fallback : Object(std::int64_t{0});
  if (const auto i = value.integer_like()) return *i;
  if (const double* d = value.as_real()) return std::isnan(*d) ? otherwise : Object(truncated(*d));
  const std::string* text = value.as_text();
  if (!text) return otherwise;
  const std::int64_t base = base_arg ? int_argument(*base_arg, "int") : 10;
  if (base == 0 || (base >= 2 && base <= 36)) {
    if (const auto i = parse_int(*text, static_cast<int>(base))) return *i;
  }
  const auto real = parse_real(*text);
  return real && std::isfinite(*real) ? Object(truncated(*real)) : otherwise;
}

Object filter_float(Interpreter&, const Object& value, const Args& args) {
  const auto [fallback] = bind("float", args, {"default"});
  require_defined(value);
  if (const auto d = value.number_like()) return *d;
  if (const std::string* text = value.as_text()) {
    if (const auto real = parse_real(*text)) return *real;
  }
  return fallback ? *fallback : Object(0.0);
}

Object filter_abs(Interpreter&, const Object& value, const Args& args) {
  bind_nothing("abs", args);
  require_defined(value);
  if (const double* d = value.as_real()) return std::fabs(*d);
  const auto i = value.integer_like();
  if (!i) fail("bad operand type for abs(): '" + type_name(value) + "'");
  return *i < 0 ? negate(Object(*i)) : Object(*i);
}

// To a multiple of 10^digits, halves to even.
std::int64_t round_int(std::int64_t value, std::int64_t digits) {
  if (digits > 18) return 0;
  std::int64_t unit = 1;
  for (; digits > 0; --digits) unit *= 10;
  const std::int64_t rest = value % unit;
  const std::int64_t down = value - rest;
  const std::int64_t magnitude = rest < 0 ? -rest : rest;
  const bool away = magnitude > unit - magnitude || (magnitude == unit - magnitude && (down / unit) % 2 != 0);
  std::int64_t result = down;
  if (away && __builtin_add_overflow(down, value < 0 ? -unit : unit, &result))
    fail_unsupported("an integer beyond 64 bits");
  return result;
}

// Correctly rounded from the exact binary value, halves to even: what printing with that many digits does.
double round_real(double value, std::int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[800];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed,
                                     static_cast<int>(digits));
  double result = value;
  std::from_chars(buffer, written.ptr, result);
  return result;
}

Object filter_round(Interpreter&, const Object& value, const Args& args) {
  const auto [precision_arg, method_arg] = bind("round", args, {"precision", "method"});
  const std::string method = method_arg ? text_argument(*method_arg, "round's method") : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    fail("method must be common, ceil or floor");
  require_defined(value);
  const auto number = value.number_like();
  if (!number) fail("type " + type_name(value) + " cannot be rounded");
  const std::int64_t precision = precision_arg ? int_argument(*precision_arg, "round") : 0;
  if (method == "common") {
    const auto i = value.integer_like();
    if (!i) return round_real(*number, precision);
    return precision >= 0 ? *i : round_int(*i, precision < -19 ? 19 : -precision);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *number * unit;
  if (!std::isfinite(scaled) || unit == 0) fail("cannot round this number");
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

Object filter_default(Interpreter&, const Object& value, const Args& args) {
  const auto [fallback, boolean] = bind("default", args, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (boolean && truthy(*boolean) && !truthy(value));
  if (!missing) return value;
  return fallback ? *fallback : Object("");
}

Object filter_length(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing("length", args);
  if (value.as_text()) in.budget().charge(value.as_text()->size() / 8);
  return length_of(value);
}

constexpr NamedFilter table[] = {
    {"int", filter_int},         {"float", filter_float}, {"abs", filter_abs},       {"round", filter_round},
    {"default", filter_default}, {"d", filter_default},   {"length", filter_length}, {"count", filter_length},
};

}  // namespace

std::span<const NamedFilter> number_filters() noexcept { return table; }

}  // namespace nibble::jinja
