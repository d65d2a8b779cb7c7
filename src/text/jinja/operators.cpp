// SPDX-License-Identifier: MIT
// Arithmetic and comparison with Python's meaning: floor division, exact comparison of int and float,
// sequences in lexicographic order. Integers are 64 bits; a result beyond them is an error, never wrong.
#include "text/jinja/operators.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

using Int = std::int64_t;

const char* symbol(BinaryOp op) noexcept {
  switch (op) {
    case BinaryOp::add: return "+";
    case BinaryOp::subtract: return "-";
    case BinaryOp::multiply: return "*";
    case BinaryOp::divide: return "/";
    case BinaryOp::floor_divide: return "//";
    case BinaryOp::modulo: return "%";
    case BinaryOp::power: return "**";
  }
  return "?";
}

[[noreturn]] void fail_operands(const char* op, const Object& left, const Object& right) {
  fail(std::string("unsupported operand type(s) for ") + op + ": '" + type_name(left) + "' and '" +
       type_name(right) + "'");
}

[[noreturn]] void fail_overflow() { fail_unsupported("an integer beyond 64 bits"); }

Int floor_div(Int a, Int b) {
  if (a == std::numeric_limits<Int>::min() && b == -1) fail_overflow();
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Int floor_mod(Int a, Int b) {
  if (b == -1) return 0;
  const Int r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double floor_mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

double floor_div(double a, double b) {
  const double r = std::fmod(a, b);
  double q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, a / b);
  const double f = std::floor(q);
  return q - f > 0.5 ? f + 1 : f;
}

Object int_power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  Int result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Object int_arithmetic(BinaryOp op, Int a, Int b) {
  Int r = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::add: overflow = __builtin_add_overflow(a, b, &r); break;
    case BinaryOp::subtract: overflow = __builtin_sub_overflow(a, b, &r); break;
    case BinaryOp::multiply: overflow = __builtin_mul_overflow(a, b, &r); break;
    case BinaryOp::power: return int_power(a, b);
    default:
      if (b == 0) fail(op == BinaryOp::divide ? "division by zero" : "integer division or modulo by zero");
      if (op == BinaryOp::divide) return static_cast<double>(a) / static_cast<double>(b);
      return op == BinaryOp::modulo ? floor_mod(a, b) : floor_div(a, b);
  }
  if (overflow) fail_overflow();
  return r;
}

Object real_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::add: return a + b;
    case BinaryOp::subtract: return a - b;
    case BinaryOp::multiply: return a * b;
    case BinaryOp::power: {
      if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
        fail_unsupported("a complex number");
      const double r = std::pow(a, b);
      if (std::isinf(r) && std::isfinite(a) && std::isfinite(b)) fail("numerical result out of range");
      return r;
    }
    default:
      if (b == 0) fail(op == BinaryOp::modulo ? "float modulo by zero" : "float division by zero");
      if (op == BinaryOp::divide) return a / b;
      return op == BinaryOp::modulo ? floor_mod(a, b) : floor_div(a, b);
  }
}

Object repeat(Budget& budget, const Object& object, Int count) {
  const auto times = static_cast<std::size_t>(std::max<Int>(count, 0));
  const auto checked_size = [&](std::size_t size) {
    std::size_t total = 0;
    if (__builtin_mul_overflow(size, times, &total)) fail_limit("repetition of too many items");
    return total;
  };
  if (const std::string* text = object.as_text()) {
    const std::size_t total = checked_size(text->size());
    budget.charge_text(total);
    std::string out;
    out.reserve(total);
    if (total > 0) {
      for (std::size_t i = 0; i < times; ++i) out += *text;
    }
    return out;
  }
  const Sequence& s = *object.as_sequence();
  const std::size_t total = checked_size(s.items.size());
  budget.charge(total);
  Objects items;
  items.reserve(total);
  if (total > 0) {
    for (std::size_t i = 0; i < times; ++i) items.insert(items.end(), s.items.begin(), s.items.end());
  }
  return make_sequence(budget, s.kind, std::move(items));
}

bool is_repeatable(const Object& object) noexcept {
  const Sequence* s = object.as_sequence();
  return object.as_text() || (s && (s->kind == Sequence::Kind::list || s->kind == Sequence::Kind::tuple));
}

Object add_containers(Budget& budget, const Object& left, const Object& right) {
  if (left.as_text() && right.as_text()) {
    const std::size_t total = left.as_text()->size() + right.as_text()->size();
    budget.charge_text(total);
    std::string out;
    out.reserve(total);
    out += *left.as_text();
    out += *right.as_text();
    return out;
  }
  const Sequence* a = left.as_sequence();
  const Sequence* b = right.as_sequence();
  if (!a || !b || a->kind != b->kind || !is_repeatable(left)) fail_operands("+", left, right);
  budget.charge(a->items.size() + b->items.size());
  Objects items = a->items;
  items.insert(items.end(), b->items.begin(), b->items.end());
  return make_sequence(budget, a->kind, std::move(items));
}

// Int against float is exact: a 64-bit mantissa holds every int64, and every double is one.
std::partial_ordering order_numbers(const Object& left, const Object& right) noexcept {
  const auto a = left.integer_like(), b = right.integer_like();
  if (a && b) return *a <=> *b;
  static_assert(std::numeric_limits<long double>::digits >= 64 ||
                std::numeric_limits<long double>::digits == 53);
  const auto wide = [](const Object& o) {
    const auto i = o.integer_like();
    return i ? static_cast<long double>(*i) : static_cast<long double>(*o.as_real());
  };
  return wide(left) <=> wide(right);
}

bool equal_sequences(Budget& budget, const Sequence& a, const Sequence& b) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  if (a.kind == Sequence::Kind::values) return &a == &b;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(budget, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Object* other = dict_find(budget, b, key);
    if (!other || !equal(budget, value, *other)) return false;
  }
  return true;
}

std::partial_ordering order(Budget& budget, const char* op, const Object& left, const Object& right) {
  require_defined(left);
  require_defined(right);
  if (left.number_like() && right.number_like()) return order_numbers(left, right);
  // UTF-8 sorts by code point as bytes do.
  if (left.as_text() && right.as_text()) {
    budget.charge(std::min(left.as_text()->size(), right.as_text()->size()) / 32);
    return *left.as_text() <=> *right.as_text();
  }
  const Sequence* a = left.as_sequence();
  const Sequence* b = right.as_sequence();
  if (a && b && a->kind == b->kind && is_repeatable(left)) {
    for (std::size_t i = 0; i < a->items.size() && i < b->items.size(); ++i) {
      if (!equal(budget, a->items[i], b->items[i])) return order(budget, op, a->items[i], b->items[i]);
    }
    return a->items.size() <=> b->items.size();
  }
  fail(std::string("'") + op + "' not supported between instances of '" + type_name(left) + "' and '" +
       type_name(right) + "'");
}

std::optional<Int> slice_bound(const Object* bound) {
  if (!bound || bound->is_none()) return std::nullopt;
  const auto value = bound->integer_like();
  if (!value) fail("slice indices must be integers or None");
  return value;
}

}  // namespace

Object binary(Budget& budget, BinaryOp op, const Object& left, const Object& right) {
  require_defined(left);
  if (op == BinaryOp::modulo && left.as_text()) {
    if (left.is_markup()) fail_unsupported("'%' on text marked safe");
    return percent_format(budget, *left.as_text(), right);
  }
  require_defined(right);
  if (left.is_markup() || right.is_markup()) {
    fail_unsupported(std::string("'") + symbol(op) + "' on text marked safe");
  }
  const auto a = left.integer_like(), b = right.integer_like();
  if (a && b) return int_arithmetic(op, *a, *b);
  const auto x = left.number_like(), y = right.number_like();
  if (x && y) return real_arithmetic(op, *x, *y);
  if (op == BinaryOp::add) return add_containers(budget, left, right);
  if (op == BinaryOp::multiply) {
    if (b && is_repeatable(left)) return repeat(budget, left, *b);
    if (a && is_repeatable(right)) return repeat(budget, right, *a);
  }
  fail_operands(symbol(op), left, right);
}

Object negate(const Object& operand) {
  require_defined(operand);
  if (const double* d = operand.as_real()) return -*d;
  const auto i = operand.integer_like();
  if (!i) fail("bad operand type for unary -: '" + type_name(operand) + "'");
  return int_arithmetic(BinaryOp::subtract, 0, *i);
}

Object plus(const Object& operand) {
  require_defined(operand);
  if (operand.as_real()) return operand;
  const auto i = operand.integer_like();
  if (!i) fail("bad operand type for unary +: '" + type_name(operand) + "'");
  return *i;
}

bool equal(Budget& budget, const Object& left, const Object& right) {
  budget.charge(1);
  if (left.is_undefined() || right.is_undefined()) return left.is_undefined() && right.is_undefined();
  if (left.is_none() || right.is_none()) return left.is_none() && right.is_none();
  if (left.number_like() && right.number_like()) return order_numbers(left, right) == 0;
  if (left.as_text() && right.as_text()) {
    if (left.as_text()->size() != right.as_text()->size()) return false;
    budget.charge(left.as_text()->size() / 32);
    return *left.as_text() == *right.as_text();
  }
  if (left.as_sequence() && right.as_sequence()) {
    return equal_sequences(budget, *left.as_sequence(), *right.as_sequence());
  }
  if (left.as_dict() && right.as_dict()) return equal_dicts(budget, *left.as_dict(), *right.as_dict());
  if (left.as_iterator()) return left.as_iterator() == right.as_iterator();
  if (left.as_namespace()) return left.as_namespace() == right.as_namespace();
  if (left.as_loop() && right.as_loop()) return *left.as_loop() == *right.as_loop();
  if (left.as_callable()) return left.as_callable() == right.as_callable();
  return false;
}

bool compare(Budget& budget, CompareOp op, const Object& left, const Object& right) {
  budget.charge(1);
  switch (op) {
    case CompareOp::equal: return equal(budget, left, right);
    case CompareOp::not_equal: return !equal(budget, left, right);
    case CompareOp::less: return order(budget, "<", left, right) < 0;
    case CompareOp::less_equal: return order(budget, "<=", left, right) <= 0;
    case CompareOp::greater: return order(budget, ">", left, right) > 0;
    case CompareOp::greater_equal: return order(budget, ">=", left, right) >= 0;
    case CompareOp::in: return contains(budget, right, left);
    case CompareOp::not_in: return !contains(budget, right, left);
  }
  return false;
}

bool contains(Budget& budget, const Object& container, const Object& item) {
  if (const std::string* text = container.as_text()) {
    const std::string* part = item.as_text();
    if (!part) fail("'in <string>' requires string as left operand, not " + type_name(item));
    budget.charge(1 + text->size() / 32);
    return text->find(*part) != text->npos;
  }
  if (const Dict* dict = container.as_dict()) {
    require_hashable(item);
    return dict_find(budget, *dict, item) != nullptr;
  }
  if (const Sequence* s = container.as_sequence()) {
    return std::any_of(s->items.begin(), s->items.end(),
                       [&](const Object& o) { return equal(budget, o, item); });
  }
  if (Iterator* i = container.as_iterator()) {
    while (i->next < i->items.size()) {
      if (equal(budget, i->items[i->next++], item)) return true;
    }
    return false;
  }
  if (container.is_undefined()) return false;
  fail("argument of type '" + type_name(container) + "' is not iterable");
}

std::optional<Object> element(Budget& budget, const Object& container, const Object& index) {
  if (const Dict* dict = container.as_dict()) {
    const Sequence* s = index.as_sequence();
    if (index.as_dict() || (s && s->kind == Sequence::Kind::list)) return std::nullopt;
    const std::string* key = index.as_text();
    const Object* found = key ? dict_find_text(budget, *dict, *key) : dict_find(budget, *dict, index);
    return found ? std::optional(*found) : std::nullopt;
  }
  auto at = index.integer_like();
  if (!at) return std::nullopt;
  if (const Sequence* s = container.as_sequence()) {
    if (s->kind > Sequence::Kind::range) return std::nullopt;
    const auto size = static_cast<Int>(s->items.size());
    if (*at < 0) *at += size;
    if (*at < 0 || *at >= size) return std::nullopt;
    return s->items[static_cast<std::size_t>(*at)];
  }
  if (const std::string* text = container.as_text()) {
    if (container.is_markup()) fail_unsupported("indexing text marked safe");
    budget.charge(1 + text->size() / 8);
    if (*at < 0) *at += static_cast<Int>(count_code_points(*text));
    if (*at < 0) return std::nullopt;
    const std::size_t offset = byte_offset(*text, static_cast<std::size_t>(*at));
    if (offset >= text->size()) return std::nullopt;
    return Object(text->substr(offset, decode(*text, offset).length));
  }
  return std::nullopt;
}

Span resolve_span(std::optional<Int> start, std::optional<Int> stop, Int length) noexcept {
  const auto clamp = [length](Int v) { return std::clamp<Int>(v < 0 ? v + length : v, 0, length); };
  return {start ? clamp(*start) : 0, stop ? clamp(*stop) : length};
}

Object slice(Budget& budget, const Object& container, const Object* start, const Object* stop,
             const Object* step) {
  require_defined(container);
  const std::string* text = container.as_text();
  const Sequence* s = container.as_sequence();
  if (s && s->kind > Sequence::Kind::range) s = nullptr;
  if (!text && !s) fail("'" + type_name(container) + "' object cannot be sliced");
  if (container.is_markup()) fail_unsupported("slicing text marked safe");
  const auto from = slice_bound(start), to = slice_bound(stop);
  const Int stride = slice_bound(step).value_or(1);
  if (stride == 0) fail("slice step cannot be zero");
  if (s && s->kind == Sequence::Kind::range) fail_unsupported("slicing a range");

  if (text) budget.charge_text(text->size());
  const std::vector<std::int32_t> points =
      text && stride != 1 ? code_points(*text) : std::vector<std::int32_t>{};
  const Int length = length_of(container);
  if (text && stride == 1) {
    const Span span = resolve_span(from, to, length);
    if (span.begin >= span.end) return "";
    const std::size_t begin = byte_offset(*text, static_cast<std::size_t>(span.begin));
    const std::string_view rest = std::string_view(*text).substr(begin);
    return rest.substr(0, byte_offset(rest, static_cast<std::size_t>(span.end - span.begin)));
  }

  Span span{};
  if (stride > 0) {
    span = resolve_span(from, to, length);
  } else {
    const auto clamp = [length](Int v) { return std::clamp<Int>(v < 0 ? v + length : v, -1, length - 1); };
    span = {from ? clamp(*from) : length - 1, to ? clamp(*to) : -1};
  }
  const Int distance = stride > 0 ? span.end - span.begin : span.begin - span.end;
  const Int magnitude =
      stride > 0 ? stride
                 : (stride == std::numeric_limits<Int>::min() ? std::numeric_limits<Int>::max() : -stride);
  const Int count = distance <= 0 ? 0 : (distance - 1) / magnitude + 1;
  std::vector<std::int32_t> picked;
  Objects items;
  for (Int i = 0; i < count; ++i) {
    const auto at =
        static_cast<std::size_t>(stride > 0 ? span.begin + i * magnitude : span.begin - i * magnitude);
    if (text) picked.push_back(points[at]);
    else items.push_back(s->items[at]);
  }
  if (text) return from_code_points(picked);
  return make_sequence(budget, s->kind, std::move(items));
}

}  // namespace nibble::jinja
