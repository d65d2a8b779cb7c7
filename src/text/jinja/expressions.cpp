// SPDX-License-Identifier: MIT
// Evaluation of expressions, attribute and item access.
#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/print.hpp"

namespace nibble::jinja {
namespace {

// "'dict object'", as jinja2 names the holder of a missing attribute.
std::string holder(const Object& object) {
  return object.is_none() ? "'None'" : "'" + type_name(object) + " object'";
}

}  // namespace

Object Interpreter::eval(const Expr& expr) {
  budget_.charge(1);
  const DepthGuard guard(budget_);
  line_ = expr.line;
  return std::visit([this](const auto& node) { return eval(node); }, expr.node);
}

Object Interpreter::eval(const NameExpr& e) {
  const Object* value = find_variable(e.id);
  return value ? *value : Object::undefined("'" + e.name + "' is undefined");
}

Object Interpreter::eval(const SequenceExpr& e) {
  Objects items;
  for (const ExprPtr& item : e.items) items.push_back(eval(*item));
  return make_sequence(budget_, e.tuple ? Sequence::Kind::tuple : Sequence::Kind::list, std::move(items));
}

Object Interpreter::eval(const DictExpr& e) {
  std::vector<std::pair<Object, Object>> entries;
  for (const auto& [key, value] : e.items) {
    Object k = eval(*key);
    dict_set(budget_, entries, std::move(k), eval(*value));
  }
  return make_dict(budget_, std::move(entries));
}

Object Interpreter::eval(const AttributeExpr& e) { return attribute(eval(*e.object), e.name); }

Object Interpreter::eval(const SubscriptExpr& e) {
  const Object object = eval(*e.object);
  return item(object, eval(*e.index));
}

Object Interpreter::eval(const SliceExpr& e) {
  const Object object = eval(*e.object);
  std::optional<Object> bounds[3];
  const ExprPtr* parts[3] = {&e.start, &e.stop, &e.step};
  for (std::size_t i = 0; i < 3; ++i) {
    if (*parts[i]) bounds[i] = eval(**parts[i]);
  }
  const auto pointer = [](const std::optional<Object>& o) { return o ? &*o : nullptr; };
  return slice(budget_, object, pointer(bounds[0]), pointer(bounds[1]), pointer(bounds[2]));
}

Object Interpreter::eval(const TestExpr& e) {
  if (!e.function) fail_unsupported("the test '" + e.name + "'");
  const Object value = eval(*e.operand);
  const Args args = eval_arguments(e.arguments);
  return e.function(*this, value, args);
}

Object Interpreter::eval(const UnaryExpr& e) {
  const Object value = eval(*e.operand);
  return e.negative ? negate(value) : plus(value);
}

Object Interpreter::eval(const BinaryExpr& e) {
  const Object left = eval(*e.left);
  return binary(budget_, e.op, left, eval(*e.right));
}

Object Interpreter::eval(const ConcatExpr& e) {
  Writer out(budget_);
  for (const ExprPtr& part : e.parts) print(out, eval(*part));
  return out.take();
}

Object Interpreter::eval(const CompareExpr& e) {
  Object left = eval(*e.first);
  for (const auto& [op, operand] : e.rest) {
    Object right = eval(*operand);
    if (!compare(budget_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Object Interpreter::eval(const LogicExpr& e) {
  Object value;
  for (const ExprPtr& operand : e.operands) {
    value = eval(*operand);
    if (truthy(value) != e.is_and) break;
  }
  return value;
}

Object Interpreter::eval(const ConditionalExpr& e) {
  if (truthy(eval(*e.test))) return eval(*e.then);
  if (e.otherwise) return eval(*e.otherwise);
  return Object::undefined("the inline if-expression was false and has no else");
}

Args Interpreter::eval_arguments(const ArgumentList& list) {
  Args args;
  for (const ExprPtr& e : list.positional) args.positional.push_back(eval(*e));
  for (const auto& [name, e] : list.keyword) args.keyword.emplace_back(name, eval(*e));
  if (list.spread) {
    for (Object& o : items_of(budget_, eval(*list.spread))) args.positional.push_back(std::move(o));
  }
  if (list.spread_map) {
    const Object map = eval(*list.spread_map);
    if (!map.as_dict()) fail("argument after ** must be a mapping, not " + type_name(map));
    for (const auto& [key, value] : map.as_dict()->entries) {
      const std::string* name = key.as_text();
      if (!name) fail("keywords must be strings");
      budget_.charge(1 + args.keyword.size());
      for (const auto& given : args.keyword) {
        if (given.first == *name) fail("got multiple values for keyword argument '" + *name + "'");
      }
      args.keyword.emplace_back(*name, value);
    }
  }
  return args;
}

Object Interpreter::eval_call(const CallExpr& e, const Object* caller) {
  const Object callee = eval(*e.callee);
  Args args = eval_arguments(e.arguments);
  if (caller) args.keyword.emplace_back("caller", *caller);
  return call(callee, args);
}

Object Interpreter::eval_filter(const FilterExpr& e, const Object* block) {
  if (!e.function) fail_unsupported("the filter '" + e.name + "'");
  Object value;
  if (e.operand && block) value = eval_filter(std::get<FilterExpr>(e.operand->node), block);
  else value = e.operand ? eval(*e.operand) : *block;
  const Args args = eval_arguments(e.arguments);
  return e.function(*this, value, args);
}

Object Interpreter::call(const Object& callee, const Args& args) {
  require_defined(callee);
  const Callable* callable = callee.as_callable();
  if (!callable) fail("'" + type_name(callee) + "' object is not callable");
  const DepthGuard guard(budget_);
  return callable->body(*this, args);
}

namespace {

std::optional<Object> plain_attribute(Budget& budget, const Object& object, std::string_view name) {
  if (object.as_loop()) return loop_attribute(budget, object, name);
  if (const Namespace* space = object.as_namespace()) {
    budget.charge(1 + space->members.size() / 8);
    for (const auto& [key, value] : space->members) {
      if (key == name && !name.starts_with('_')) return value;
    }
    return std::nullopt;
  }
  return find_method(budget, object, name);
}

}  // namespace

Object Interpreter::attribute(const Object& object, std::string_view name) {
  require_defined(object);
  if (std::optional<Object> value = plain_attribute(budget_, object, name)) return *value;
  if (const Dict* dict = object.as_dict()) {
    if (const Object* value = dict_find_text(budget_, *dict, name)) return *value;
  }
  return Object::undefined(holder(object) + " has no attribute '" + std::string(name) + "'");
}

Object Interpreter::item(const Object& object, const Object& index) {
  require_defined(object);
  if (std::optional<Object> value = element(budget_, object, index)) return *value;
  if (const std::string* name = index.as_text()) {
    if (std::optional<Object> value = plain_attribute(budget_, object, *name)) return *value;
    return Object::undefined(holder(object) + " has no attribute '" + *name + "'");
  }
  return Object::undefined(holder(object) + " has no such element");
}

}  // namespace nibble::jinja
