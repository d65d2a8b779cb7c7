// SPDX-License-Identifier: MIT
// Interpreter: one rendering. It walks the tree with a stack of scopes; a loop, macro or block opens one,
// an `if` does not, so a `set` inside a loop is gone after the iteration while one inside an `if` stays.
#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/jinja/ast.hpp"

namespace nibble::jinja {

/// Parents follow the nesting of the template's text, so a chain of them is as short as that.
struct Scope {
  std::shared_ptr<Scope> parent = {};
  std::vector<std::pair<NameId, Object>> variables = {};
};

/// Lives for one rendering, on one thread.
class Interpreter {
 public:
  Interpreter(const Tree& tree, const ChatTemplateLimits& limits, const std::optional<std::tm>& now)
      : tree_(tree), budget_(limits), now_(now), output_(budget_) {}

  /// The rendered text. Errors start with the line being evaluated.
  std::string run(const Value& context);

  // What the builtins need.
  Budget& budget() noexcept { return budget_; }
  /// The time strftime_now writes: the caller's, else the clock's at the first use.
  const std::tm& now();
  Object call(const Object& callee, const Args& args);
  /// object.name: attributes before items, as jinja2's getattr.
  Object attribute(const Object& object, std::string_view name);
  /// object[index]: items before attributes, as jinja2's getitem.
  Object item(const Object& object, const Object& index);
  Object new_namespace(std::vector<std::pair<std::string, Object>> members);

 private:
  enum class Flow { next, break_loop, continue_loop };
  class ScopeGuard;
  class OutputGuard;

  Object eval(const Expr& expr);
  Object eval(const LiteralExpr& e) { return e.value; }
  Object eval(const NameExpr& e);
  Object eval(const SequenceExpr& e);
  Object eval(const DictExpr& e);
  Object eval(const AttributeExpr& e);
  Object eval(const SubscriptExpr& e);
  Object eval(const SliceExpr& e);
  Object eval(const CallExpr& e) { return eval_call(e, nullptr); }
  Object eval(const FilterExpr& e) { return eval_filter(e, nullptr); }
  Object eval(const TestExpr& e);
  Object eval(const UnaryExpr& e);
  Object eval(const NotExpr& e) { return !truthy(eval(*e.operand)); }
  Object eval(const BinaryExpr& e);
  Object eval(const ConcatExpr& e);
  Object eval(const CompareExpr& e);
  Object eval(const LogicExpr& e);
  Object eval(const ConditionalExpr& e);
  Object eval_call(const CallExpr& e, const Object* caller);
  /// `block` is the text of the block a chain of filters stands at, for its innermost operand.
  Object eval_filter(const FilterExpr& e, const Object* block);
  Args eval_arguments(const ArgumentList& list);

  Flow exec(const Body& body);
  Flow exec(const TextStatement& s);
  Flow exec(const OutputStatement& s);
  Flow exec(const IfStatement& s);
  Flow exec(const ForStatement& s);
  Flow exec(const SetStatement& s);
  Flow exec(const SetBlockStatement& s);
  Flow exec(const MacroStatement& s);
  Flow exec(const CallBlockStatement& s);
  Flow exec(const FilterBlockStatement& s);
  Flow exec(const WithStatement& s);
  Flow exec(const ScopeStatement& s);
  Flow exec(const BreakStatement&) { return Flow::break_loop; }
  Flow exec(const ContinueStatement&) { return Flow::continue_loop; }
  Flow capture(const Body& body, const ExprPtr& filter, Object& result);

  std::shared_ptr<Scope> inner_scope() const;
  void assign(const Target& target, const Object& value);
  void set_variable(NameId id, Object value);
  const Object* find_variable(NameId id);
  Object make_macro(const MacroDefinition& macro);
  Object call_macro(const MacroDefinition& macro, std::shared_ptr<Scope> defined_in, const Args& args);
  void bind_parameters(const MacroDefinition& macro, const Args& args);
  void load_globals(const Value& context);

  const Tree& tree_;
  Budget budget_;
  std::optional<std::tm> now_;
  Writer output_;
  Writer* out_ = &output_;
  int line_ = 1;
  // Values may refer to both of these without owning them; they go last.
  std::deque<Namespace> namespaces_;
  std::vector<std::shared_ptr<Scope>> macro_scopes_;
  std::shared_ptr<Scope> scope_;
};

}  // namespace nibble::jinja
