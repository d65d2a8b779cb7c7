// SPDX-License-Identifier: MIT
// The tests of `is` and of select, reject and their kin.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/print.hpp"
#include "text/jinja/python_text.hpp"

namespace nibble::jinja {
namespace {

struct NamedTest { std::string_view name; TestFunction function; };

// value % divisor == remainder
bool has_remainder(Interpreter& in, const Object& value, const Object& divisor, std::int64_t remainder) {
  return equal(in.budget(), binary(in.budget(), BinaryOp::modulo, value, divisor), Object(remainder));
}

template <CompareOp op>
bool test_compare(Interpreter& in, const Object& value, const Args& args) {
  const auto [other] = bind("a comparison", args, {"other"}, 1);
  return compare(in.budget(), op, value, *other);
}

template <bool odd>
bool test_parity(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing(odd ? "odd" : "even", args);
  return has_remainder(in, value, Object(std::int64_t{2}), odd ? 1 : 0);
}

bool test_divisibleby(Interpreter& in, const Object& value, const Args& args) {
  const auto [divisor] = bind("divisibleby", args, {"num"}, 1);
  return has_remainder(in, value, *divisor, 0);
}

using Predicate = bool (*)(const Object&);
template <Predicate predicate>
bool test_type(Interpreter&, const Object& value, const Args& args) {
  bind_nothing("this test", args);
  return predicate(value);
}

bool is_sequence(const Object& o) {
  const Sequence* s = o.as_sequence();
  return o.is_undefined() || o.as_text() || o.as_dict() || (s && s->kind <= Sequence::Kind::range);
}

template <bool lower>
bool test_case(Interpreter& in, const Object& value, const Args& args) {
  bind_nothing(lower ? "lower" : "upper", args);
  return all_cased(to_text(in.budget(), value), lower);
}

bool test_in(Interpreter& in, const Object& value, const Args& args) {
  const auto [container] = bind("in", args, {"seq"}, 1);
  return contains(in.budget(), *container, value);
}

template <bool filter>
bool test_exists(Interpreter&, const Object& value, const Args& args) {
  bind_nothing("this test", args);
  const std::string* name = value.as_text();
  return name && (filter ? is_known_filter(*name) : is_known_test(*name));
}

// Identity: for the singletons that have one a template can rely on, an error for anything else.
bool test_sameas(Interpreter& in, const Object& value, const Args& args) {
  const auto [other] = bind("sameas", args, {"other"}, 1);
  const auto singleton = [](const Object& o) { return o.is_none() || o.as_bool(); };
  if (singleton(value) || singleton(*other)) {
    return singleton(value) && singleton(*other) && type_name(value) == type_name(*other) &&
           equal(in.budget(), value, *other);
  }
  fail_unsupported("the test 'sameas' on a " + type_name(value));
}

constexpr NamedTest table[] = {
    {"odd", test_parity<true>},
    {"even", test_parity<false>},
    {"divisibleby", test_divisibleby},
    {"defined", test_type<[](const Object& o) { return !o.is_undefined(); }>},
    {"undefined", test_type<[](const Object& o) { return o.is_undefined(); }>},
    {"filter", test_exists<true>},
    {"test", test_exists<false>},
    {"none", test_type<[](const Object& o) { return o.is_none(); }>},
    {"boolean", test_type<[](const Object& o) { return o.as_bool() != nullptr; }>},
    {"false", test_type<[](const Object& o) { return o.as_bool() && !*o.as_bool(); }>},
    {"true", test_type<[](const Object& o) { return o.as_bool() && *o.as_bool(); }>},
    {"integer", test_type<[](const Object& o) { return o.as_int() != nullptr; }>},
    {"float", test_type<[](const Object& o) { return o.as_real() != nullptr; }>},
    {"number", test_type<[](const Object& o) { return o.number_like().has_value(); }>},
    {"string", test_type<[](const Object& o) { return o.as_text() != nullptr; }>},
    {"mapping", test_type<[](const Object& o) { return o.as_dict() != nullptr; }>},
    {"sequence", test_type<is_sequence>},
    {"iterable", test_type<[](const Object& o) { return is_iterable(o); }>},
    {"callable", test_type<[](const Object& o) { return o.as_callable() || o.is_undefined(); }>},
    {"escaped", test_type<[](const Object& o) { return o.is_markup(); }>},
    {"lower", test_case<true>},
    {"upper", test_case<false>},
    {"sameas", test_sameas},
    {"in", test_in},
    {"==", test_compare<CompareOp::equal>},
    {"eq", test_compare<CompareOp::equal>},
    {"equalto", test_compare<CompareOp::equal>},
    {"!=", test_compare<CompareOp::not_equal>},
    {"ne", test_compare<CompareOp::not_equal>},
    {">", test_compare<CompareOp::greater>},
    {"gt", test_compare<CompareOp::greater>},
    {"greaterthan", test_compare<CompareOp::greater>},
    {">=", test_compare<CompareOp::greater_equal>},
    {"ge", test_compare<CompareOp::greater_equal>},
    {"<", test_compare<CompareOp::less>},
    {"lt", test_compare<CompareOp::less>},
    {"lessthan", test_compare<CompareOp::less>},
    {"<=", test_compare<CompareOp::less_equal>},
    {"le", test_compare<CompareOp::less_equal>},
};

}  // namespace

TestFunction find_test(std::string_view name) noexcept {
  const auto* found =
      std::find_if(std::begin(table), std::end(table), [&](const NamedTest& t) { return t.name == name; });
  return found == std::end(table) ? nullptr : found->function;
}

bool is_known_test(std::string_view name) noexcept { return find_test(name) != nullptr; }

}  // namespace nibble::jinja
