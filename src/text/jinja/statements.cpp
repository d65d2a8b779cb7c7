// SPDX-License-Identifier: MIT
// Execution of statements, scopes and macros.
#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/interpreter.hpp"
#include "text/jinja/print.hpp"

namespace nibble::jinja {
/// Makes a scope the current one for its lifetime.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> scope)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
  ~ScopeGuard() { interpreter_.scope_ = std::move(outer_); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<Scope> outer_;
};

/// Sends what is printed to a writer of its own for its lifetime.
class Interpreter::OutputGuard {
 public:
  OutputGuard(Interpreter& interpreter, Writer& writer)
      : interpreter_(interpreter), outer_(std::exchange(interpreter.out_, &writer)) {}
  ~OutputGuard() { interpreter_.out_ = outer_; }
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

 private:
  Interpreter& interpreter_;
  Writer* outer_;
};

std::string Interpreter::run(const Value& context) {
  try {
    scope_ = std::make_shared<Scope>();
    load_globals(context);
    scope_ = inner_scope();
    exec(tree_.body);
    return output_.take();
  } catch (const Error& e) {
    throw e.in("line " + std::to_string(line_));
  }
}

const std::tm& Interpreter::now() {
  if (!now_) {
    const std::time_t seconds = std::time(nullptr);
    std::tm local{};
    localtime_r(&seconds, &local);
    now_ = local;
  }
  return *now_;
}

// Only the names the template mentions are copied in.
void Interpreter::load_globals(const Value& context) {
  for (NameId id = 0; id < tree_.names.size(); ++id) {
    const std::string& name = tree_.names[id];
    if (const Value* value = context.find(name); value && !value->is_undefined()) {
      scope_->variables.emplace_back(id, from_value(budget_, *value));
    } else if (std::optional<Object> global = find_global(budget_, name)) {
      scope_->variables.emplace_back(id, std::move(*global));
    }
  }
}

std::shared_ptr<Scope> Interpreter::inner_scope() const {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

const Object* Interpreter::find_variable(NameId id) {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    budget_.charge(1 + scope->variables.size() / 16);
    for (const auto& [name, value] : scope->variables) {
      if (name == id) return &value;
    }
  }
  return nullptr;
}

void Interpreter::set_variable(NameId id, Object value) {
  budget_.charge(1 + scope_->variables.size() / 16);
  for (auto& [name, old] : scope_->variables) {
    if (name == id) { old = std::move(value); return; }
  }
  scope_->variables.emplace_back(id, std::move(value));
}

void Interpreter::assign(const Target& target, const Object& value) {
  if (target.is_tuple) {
    const Objects items = items_of(budget_, value);
    if (items.size() != target.parts.size()) {
      fail("cannot unpack " + std::to_string(items.size()) + " values into " +
           std::to_string(target.parts.size()));
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    return;
  }
  if (target.attribute.empty()) { set_variable(target.id, value); return; }
  const Object* object = find_variable(target.id);
  Namespace* space = object ? object->as_namespace() : nullptr;
  if (!space) fail("cannot assign attribute on non-namespace object");
  budget_.charge(1 + space->members.size() / 8);
  for (auto& [name, old] : space->members) {
    if (name == target.attribute) { old = value; return; }
  }
  space->members.emplace_back(target.attribute, value);
}

Object Interpreter::new_namespace(std::vector<std::pair<std::string, Object>> members) {
  budget_.charge(4 + members.size());
  namespaces_.push_back({std::move(members)});
  return Object(std::in_place_type<Namespace*>, &namespaces_.back());
}

Interpreter::Flow Interpreter::exec(const Body& body) {
  const DepthGuard guard(budget_);
  for (const Statement& statement : body) {
    budget_.charge(1);
    line_ = statement.line;
    const Flow flow = std::visit([this](const auto& node) { return exec(node); }, statement.node);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::exec(const TextStatement& s) {
  out_->add(s.text);
  return Flow::next;
}

Interpreter::Flow Interpreter::exec(const OutputStatement& s) {
  print(*out_, eval(*s.value));
  return Flow::next;
}

Interpreter::Flow Interpreter::exec(const IfStatement& s) {
  for (const auto& [test, body] : s.branches) {
    if (truthy(eval(*test))) return exec(body);
  }
  return exec(s.otherwise);
}

Interpreter::Flow Interpreter::exec(const ForStatement& s) {
  const auto loop = std::make_shared<Loop>();
  loop->source = items_of(budget_, eval(*s.iterable));
  loop->depth = depth_around(loop->source);
  if (s.condition) {
    loop->condition = [this, &s, outer = scope_](const Object& value) {
      const ScopeGuard outer_scope(*this, outer);
      const ScopeGuard guard(*this, inner_scope());
      assign(s.target, value);
      return truthy(eval(*s.condition));
    };
  }
  // The loop may outlive this statement (in a namespace); its condition must not, nor a reference to itself.
  const std::unique_ptr<Loop, void (*)(Loop*)> end(loop.get(), [](Loop* l) {
    l->over = true;
    l->condition = nullptr;
    l->last_changed.reset();
  });
  const Object loop_object(std::in_place_type<std::shared_ptr<Loop>>, loop);
  bool completed = false;
  while (loop->advance()) {
    budget_.charge(1);
    const ScopeGuard guard(*this, inner_scope());
    set_variable(tree_.loop, loop_object);
    assign(s.target, *loop->current);
    const Flow flow = exec(s.body);
    if (flow == Flow::break_loop) break;
    // As in jinja2, an iteration cut short by `continue` or `break` does not keep `else` from running.
    completed = completed || flow == Flow::next;
  }
  if (completed) return Flow::next;
  const ScopeGuard guard(*this, inner_scope());
  return exec(s.otherwise);
}

Interpreter::Flow Interpreter::exec(const SetStatement& s) {
  assign(s.target, eval(*s.value));
  return Flow::next;
}

// Runs `body` in a scope of its own and gives its text, through `filter` if there is one.
Interpreter::Flow Interpreter::capture(const Body& body, const ExprPtr& filter, Object& result) {
  const ScopeGuard scope(*this, inner_scope());
  Writer text(budget_);
  {
    const OutputGuard output(*this, text);
    const Flow flow = exec(body);
    if (flow != Flow::next) return flow;
  }
  result = Object(text.take());
  if (filter) result = eval_filter(std::get<FilterExpr>(filter->node), &result);
  return Flow::next;
}

Interpreter::Flow Interpreter::exec(const SetBlockStatement& s) {
  Object value;
  const Flow flow = capture(s.body, s.filter, value);
  if (flow == Flow::next) assign(s.target, value);
  return flow;
}

Interpreter::Flow Interpreter::exec(const FilterBlockStatement& s) {
  Object value;
  const Flow flow = capture(s.body, s.filter, value);
  if (flow == Flow::next) print(*out_, value);
  return flow;
}

Interpreter::Flow Interpreter::exec(const WithStatement& s) {
  std::vector<Object> values;
  for (const auto& variable : s.variables) values.push_back(eval(*variable.second));
  const ScopeGuard guard(*this, inner_scope());
  for (std::size_t i = 0; i < values.size(); ++i) assign(s.variables[i].first, values[i]);
  return exec(s.body);
}

Interpreter::Flow Interpreter::exec(const ScopeStatement& s) {
  const ScopeGuard guard(*this, inner_scope());
  return exec(s.body);
}

Interpreter::Flow Interpreter::exec(const MacroStatement& s) {
  set_variable(s.id, make_macro(*s.macro));
  return Flow::next;
}

Interpreter::Flow Interpreter::exec(const CallBlockStatement& s) {
  const Object caller = make_macro(*s.caller);
  print(*out_, eval_call(std::get<CallExpr>(s.call->node), &caller));
  return Flow::next;
}

// A macro sees the scope it stands in, by reference: variables set later, before the call, count too.
Object Interpreter::make_macro(const MacroDefinition& macro) {
  if (macro_scopes_.empty() || macro_scopes_.back() != scope_) {
    budget_.charge(8);
    macro_scopes_.push_back(scope_);
  }
  const std::size_t place = macro_scopes_.size() - 1;
  return make_callable(budget_, macro.name, Object(), [&macro, place](Interpreter& self, const Args& args) {
    return self.call_macro(macro, self.macro_scopes_[place], args);
  });
}

Object Interpreter::call_macro(const MacroDefinition& macro, std::shared_ptr<Scope> defined_in,
                               const Args& args) {
  const int line = line_;
  Writer text(budget_);
  {
    const ScopeGuard outer(*this, std::move(defined_in));
    const ScopeGuard scope(*this, inner_scope());
    const OutputGuard output(*this, text);
    bind_parameters(macro, args);
    exec(macro.body);
  }
  line_ = line;
  return text.take();
}

void Interpreter::bind_parameters(const MacroDefinition& macro, const Args& args) {
  const std::size_t count = macro.parameters.size();
  std::vector<bool> used(args.keyword.size(), false);
  const auto take_keyword = [&](std::string_view name) -> const Object* {
    for (std::size_t i = 0; i < args.keyword.size(); ++i) {
      if (!used[i] && args.keyword[i].first == name) { used[i] = true; return &args.keyword[i].second; }
    }
    return nullptr;
  };
  budget_.charge(1 + count * (1 + args.keyword.size() / 8));
  // All arguments are bound before a default is evaluated, so a default may use any of them.
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [id, name] = macro.parameters[i];
    const Object* value = i < args.positional.size() ? &args.positional[i] : take_keyword(name);
    if (value) set_variable(id, *value);
    else {
      missing.push_back(i);
      set_variable(id, Object::undefined("parameter '" + name + "' was not provided"));
    }
  }
  if (macro.uses_caller) {
    const Object* caller = take_keyword("caller");
    set_variable(tree_.caller, caller ? *caller : Object::undefined("No caller defined"));
  }
  std::vector<std::pair<Object, Object>> rest;
  for (std::size_t i = 0; i < args.keyword.size(); ++i) {
    if (used[i]) continue;
    if (!macro.uses_kwargs)
      fail("macro '" + macro.name + "' takes no keyword argument '" + args.keyword[i].first + "'");
    rest.emplace_back(Object(args.keyword[i].first), args.keyword[i].second);
  }
  if (macro.uses_kwargs) set_variable(tree_.kwargs, make_dict(budget_, std::move(rest)));
  if (args.positional.size() > count && !macro.uses_varargs) {
    fail("macro '" + macro.name + "' takes not more than " + std::to_string(count) + " argument(s)");
  }
  if (macro.uses_varargs) {
    const auto first =
        args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, args.positional.size()));
    set_variable(tree_.varargs, make_tuple(budget_, Objects(first, args.positional.end())));
  }
  const std::size_t without_default = count - macro.defaults.size();
  for (const std::size_t i : missing) {
    if (i >= without_default)
      set_variable(macro.parameters[i].first, eval(*macro.defaults[i - without_default]));
  }
}

}  // namespace nibble::jinja
