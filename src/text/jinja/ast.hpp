// SPDX-License-Identifier: MIT
// The syntax tree of a template. Variables are numbered while parsing; filters and tests are resolved to
// functions, so that an unknown one is found before anything is rendered.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/object.hpp"
#include "text/jinja/operators.hpp"

namespace nibble::jinja {

using FilterFunction = Object (*)(Interpreter&, const Object& value, const Args&);
using TestFunction = bool (*)(Interpreter&, const Object& value, const Args&);

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;
using NameId = std::uint32_t;

struct ArgumentList {
  std::vector<ExprPtr> positional = {};
  std::vector<std::pair<std::string, ExprPtr>> keyword = {};
  ExprPtr spread = {};      // *args
  ExprPtr spread_map = {};  // **kwargs
};

struct LiteralExpr { Object value; };
struct NameExpr { NameId id; std::string name; };
struct SequenceExpr { bool tuple; std::vector<ExprPtr> items; };
struct DictExpr { std::vector<std::pair<ExprPtr, ExprPtr>> items; };
struct AttributeExpr { ExprPtr object; std::string name; };
struct SubscriptExpr { ExprPtr object, index; };
struct SliceExpr { ExprPtr object, start, stop, step; };
struct CallExpr { ExprPtr callee; ArgumentList arguments; };
/// `operand` is null in filter and set blocks, where the block's text takes its place.
struct FilterExpr { ExprPtr operand; std::string name; FilterFunction function; ArgumentList arguments; };
struct TestExpr { ExprPtr operand; std::string name; TestFunction function; ArgumentList arguments; };
struct UnaryExpr { bool negative; ExprPtr operand; };
struct NotExpr { ExprPtr operand; };
struct BinaryExpr { BinaryOp op; ExprPtr left, right; };
struct ConcatExpr { std::vector<ExprPtr> parts; };
struct CompareExpr { ExprPtr first; std::vector<std::pair<CompareOp, ExprPtr>> rest; };
struct LogicExpr { bool is_and; std::vector<ExprPtr> operands; };
struct ConditionalExpr { ExprPtr test, then, otherwise; };

struct Expr {
  int line;
  int depth;  // of the tree below, bounded by the parser so that destroying it is safe
  std::variant<LiteralExpr, NameExpr, SequenceExpr, DictExpr, AttributeExpr, SubscriptExpr, SliceExpr,
               CallExpr, FilterExpr, TestExpr, UnaryExpr, NotExpr, BinaryExpr, ConcatExpr, CompareExpr,
               LogicExpr, ConditionalExpr>
      node;
};

/// What an assignment writes to: a name, a namespace's attribute, or several of them.
struct Target {
  NameId id = 0;
  std::string attribute = {};
  std::vector<Target> parts = {};
  bool is_tuple = false;
};

struct Statement;
using Body = std::vector<Statement>;

/// A macro, or the body of a call block. Parameters without default come first.
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<NameId, std::string>> parameters = {};
  std::vector<ExprPtr> defaults = {};  // of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct TextStatement { std::string text; };
struct OutputStatement { ExprPtr value; };
struct IfStatement {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct ForStatement { Target target; ExprPtr iterable, condition; Body body, otherwise; };
struct SetStatement { Target target; ExprPtr value; };
struct SetBlockStatement { Target target; ExprPtr filter; Body body; };
struct MacroStatement { NameId id; std::unique_ptr<MacroDefinition> macro; };
struct CallBlockStatement { std::unique_ptr<MacroDefinition> caller; ExprPtr call; };
struct FilterBlockStatement { ExprPtr filter; Body body; };
struct WithStatement { std::vector<std::pair<Target, ExprPtr>> variables; Body body; };
struct ScopeStatement { Body body; };
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  int line;
  std::variant<TextStatement, OutputStatement, IfStatement, ForStatement, SetStatement, SetBlockStatement,
               MacroStatement, CallBlockStatement, FilterBlockStatement, WithStatement, ScopeStatement,
               BreakStatement, ContinueStatement>
      node;
};

struct Tree {
  Body body;
  std::vector<std::string> names;  // by NameId
  NameId loop = 0, varargs = 0, kwargs = 0, caller = 0;
};

}  // namespace nibble::jinja
