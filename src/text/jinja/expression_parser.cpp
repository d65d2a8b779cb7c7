// SPDX-License-Identifier: MIT
// The expression grammar, and the bounds on its depth: the parser's recursion and the height of the tree,
// which long chains of operators raise without recursion.
#include "text/jinja/expression_parser.hpp"

#include <algorithm>

#include "text/jinja/builtins.hpp"

namespace nibble::jinja {
namespace {

constexpr int max_parser_nesting = 300;  // about three levels for a pair of parentheses
constexpr int max_tree_depth = 400;
constexpr std::size_t max_names = 1000;  // keyword arguments of a call; each is compared with the others

int deepest(const ExprPtr& e) noexcept { return e ? e->depth : 0; }
int deepest(const std::vector<ExprPtr>& list) noexcept {
  int depth = 0;
  for (const ExprPtr& e : list) depth = std::max(depth, deepest(e));
  return depth;
}
int deepest(const ArgumentList& a) noexcept {
  int depth = std::max({deepest(a.positional), deepest(a.spread), deepest(a.spread_map)});
  for (const auto& keyword : a.keyword) depth = std::max(depth, deepest(keyword.second));
  return depth;
}

struct DepthBelow {
  int operator()(const LiteralExpr&) const noexcept { return 0; }
  int operator()(const NameExpr&) const noexcept { return 0; }
  int operator()(const SequenceExpr& e) const noexcept { return deepest(e.items); }
  int operator()(const DictExpr& e) const noexcept {
    int depth = 0;
    for (const auto& [key, value] : e.items) depth = std::max({depth, deepest(key), deepest(value)});
    return depth;
  }
  int operator()(const AttributeExpr& e) const noexcept { return deepest(e.object); }
  int operator()(const SubscriptExpr& e) const noexcept {
    return std::max(deepest(e.object), deepest(e.index));
  }
  int operator()(const SliceExpr& e) const noexcept {
    return std::max({deepest(e.object), deepest(e.start), deepest(e.stop), deepest(e.step)});
  }
  int operator()(const CallExpr& e) const noexcept {
    return std::max(deepest(e.callee), deepest(e.arguments));
  }
  int operator()(const FilterExpr& e) const noexcept {
    return std::max(deepest(e.operand), deepest(e.arguments));
  }
  int operator()(const TestExpr& e) const noexcept {
    return std::max(deepest(e.operand), deepest(e.arguments));
  }
  int operator()(const UnaryExpr& e) const noexcept { return deepest(e.operand); }
  int operator()(const NotExpr& e) const noexcept { return deepest(e.operand); }
  int operator()(const BinaryExpr& e) const noexcept { return std::max(deepest(e.left), deepest(e.right)); }
  int operator()(const ConcatExpr& e) const noexcept { return deepest(e.parts); }
  int operator()(const CompareExpr& e) const noexcept {
    int depth = deepest(e.first);
    for (const auto& operand : e.rest) depth = std::max(depth, deepest(operand.second));
    return depth;
  }
  int operator()(const LogicExpr& e) const noexcept { return deepest(e.operands); }
  int operator()(const ConditionalExpr& e) const noexcept {
    return std::max({deepest(e.test), deepest(e.then), deepest(e.otherwise)});
  }
};

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end: return "the end of the template";
    case Token::Kind::block_end: return "'%}'";
    case Token::Kind::variable_end: return "'}}'";
    case Token::Kind::integer: return std::to_string(token.integer);
    case Token::Kind::real: return "a number";
    case Token::Kind::string: return "a string";
    case Token::Kind::data: return "text";
    default: return "'" + token.text + "'";
  }
}

[[noreturn]] void fail_names(int line) {
  throw Error(Errc::out_of_memory, "line " + std::to_string(line) + ": too many keyword arguments");
}

[[noreturn]] void fail_unknown(int line, const char* what, const std::string& name) {
  throw Error(Errc::unsupported,
              "line " + std::to_string(line) + ": the " + what + " '" + name + "' is not supported");
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.nesting_ > max_parser_nesting) {
    --parser_.nesting_;
    throw Error(Errc::out_of_memory, "line " + std::to_string(parser.current().line) + ": nested too deeply");
  }
}

template <class Node>
ExprPtr ExpressionParser::make(int line, Node node) {
  const int depth = DepthBelow{}(node) + 1;
  auto e = std::make_unique<Expr>(Expr{line, depth, std::move(node)});
  if (depth > max_tree_depth) {
    throw Error(Errc::out_of_memory,
                "line " + std::to_string(line) + ": an expression of too many operators");
  }
  return e;
}

void ExpressionParser::fail_unexpected(const std::string& wanted) const {
  fail_here("expected " + wanted + ", got " + describe(current()));
}

void ExpressionParser::expect_op(std::string_view symbol) {
  if (!skip_op(symbol)) fail_unexpected("'" + std::string(symbol) + "'");
}

std::string ExpressionParser::expect_name() {
  if (current().kind != Token::Kind::name) fail_unexpected("a name");
  return take().text;
}

void ExpressionParser::expect_kind(Token::Kind kind, const char* what) {
  if (current().kind != kind) fail_unexpected(what);
  take();
}

NameId ExpressionParser::intern(const std::string& name) {
  const auto [place, is_new] = name_ids_.emplace(name, static_cast<NameId>(tree_.names.size()));
  if (is_new) tree_.names.push_back(name);
  return place->second;
}

bool ExpressionParser::at_tuple_end() const noexcept {
  const Token& t = current();
  return t.kind == Token::Kind::variable_end || t.kind == Token::Kind::block_end || t.is_op(")");
}

ExprPtr ExpressionParser::parse_tuple(bool with_conditional, bool in_parentheses) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!at_tuple_end()) {
    items.push_back(with_conditional ? parse_expression() : parse_or());
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items.front());
  if (!is_tuple && !in_parentheses) fail_unexpected("an expression");
  return make(line, SequenceExpr{true, std::move(items)});
}

ExprPtr ExpressionParser::parse_expression() { return parse_conditional(); }

ExprPtr ExpressionParser::parse_conditional() {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr then = parse_or();
  while (skip_word("if")) {
    // The branch before the `if` was parsed as if unconditional: an unknown filter there is found early.
    ++conditions_;
    ExprPtr test = parse_or();
    ExprPtr otherwise = skip_word("else") ? parse_conditional() : nullptr;
    --conditions_;
    then = make(line, ConditionalExpr{std::move(test), std::move(then), std::move(otherwise)});
  }
  return then;
}

ExprPtr ExpressionParser::parse_or() {
  const int line = current().line;
  std::vector<ExprPtr> operands;
  do operands.push_back(parse_and()); while (skip_word("or"));
  if (operands.size() == 1) return std::move(operands.front());
  return make(line, LogicExpr{false, std::move(operands)});
}

ExprPtr ExpressionParser::parse_and() {
  const int line = current().line;
  std::vector<ExprPtr> operands;
  do operands.push_back(parse_not()); while (skip_word("and"));
  if (operands.size() == 1) return std::move(operands.front());
  return make(line, LogicExpr{true, std::move(operands)});
}

ExprPtr ExpressionParser::parse_not() {
  const Nesting nesting(*this);
  const int line = current().line;
  if (skip_word("not")) return make(line, NotExpr{parse_not()});
  return parse_compare();
}

ExprPtr ExpressionParser::parse_compare() {
  static constexpr std::pair<std::string_view, CompareOp> symbols[] = {
      {"==", CompareOp::equal},      {"!=", CompareOp::not_equal}, {"<", CompareOp::less},
      {"<=", CompareOp::less_equal}, {">", CompareOp::greater},    {">=", CompareOp::greater_equal}};
  const int line = current().line;
  ExprPtr first = parse_sum();
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
  for (;;) {
    const auto* symbol = std::find_if(std::begin(symbols), std::end(symbols),
                                      [this](const auto& s) { return current().is_op(s.first); });
    if (symbol != std::end(symbols)) {
      take();
      rest.emplace_back(symbol->second, parse_sum());
    } else if (skip_word("in")) {
      rest.emplace_back(CompareOp::in, parse_sum());
    } else if (current().is_name("not") && following().is_name("in")) {
      take();
      take();
      rest.emplace_back(CompareOp::not_in, parse_sum());
    } else {
      break;
    }
  }
  if (rest.empty()) return first;
  return make(line, CompareExpr{std::move(first), std::move(rest)});
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_op("+") || current().is_op("-")) {
    const Token op = take();
    ExprPtr right = parse_concat();
    left = make(op.line, BinaryExpr{op.text == "+" ? BinaryOp::add : BinaryOp::subtract, std::move(left),
                                    std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  const int line = current().line;
  std::vector<ExprPtr> parts;
  do parts.push_back(parse_product()); while (skip_op("~"));
  if (parts.size() == 1) return std::move(parts.front());
  return make(line, ConcatExpr{std::move(parts)});
}

ExprPtr ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOp> symbols[] = {{"*", BinaryOp::multiply},
                                                                      {"/", BinaryOp::divide},
                                                                      {"//", BinaryOp::floor_divide},
                                                                      {"%", BinaryOp::modulo}};
  ExprPtr left = parse_power();
  for (;;) {
    const auto* symbol = std::find_if(std::begin(symbols), std::end(symbols),
                                      [this](const auto& s) { return current().is_op(s.first); });
    if (symbol == std::end(symbols)) return left;
    const int line = take().line;
    ExprPtr right = parse_power();
    left = make(line, BinaryExpr{symbol->second, std::move(left), std::move(right)});
  }
}

// Left to right and looser than a sign, unlike Python's: 2**3**2 is 64, -2**2 is 4.
ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (current().is_op("**")) {
    const int line = take().line;
    ExprPtr right = parse_unary(true);
    left = make(line, BinaryExpr{BinaryOp::power, std::move(left), std::move(right)});
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  const int line = current().line;
  ExprPtr e;
  if (current().is_op("-") || current().is_op("+")) {
    const bool negative = take().text == "-";
    e = make(line, UnaryExpr{negative, parse_unary(false)});
  } else {
    e = parse_primary();
  }
  e = parse_postfix(std::move(e));
  return with_filters ? parse_filters_and_tests(std::move(e)) : std::move(e);
}

ExprPtr ExpressionParser::parse_primary() {
  const int line = current().line;
  switch (current().kind) {
    case Token::Kind::name: return parse_name();
    case Token::Kind::integer: return make(line, LiteralExpr{Object(take().integer)});
    case Token::Kind::real: return make(line, LiteralExpr{Object(take().real)});
    case Token::Kind::string: {
      std::string text;
      while (current().kind == Token::Kind::string) text += take().text;
      return make(line, LiteralExpr{Object(std::move(text))});
    }
    default: break;
  }
  if (skip_op("(")) {
    ExprPtr e = parse_tuple(true, true);
    expect_op(")");
    return e;
  }
  if (current().is_op("[")) return parse_list();
  if (current().is_op("{")) return parse_dict();
  fail_unexpected("an expression");
}

ExprPtr ExpressionParser::parse_name() {
  const Token token = take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, LiteralExpr{Object(true)});
  if (name == "false" || name == "False") return make(token.line, LiteralExpr{Object(false)});
  if (name == "none" || name == "None") return make(token.line, LiteralExpr{Object()});
  for (MacroDefinition* macro : open_macros_) {
    macro->uses_varargs = macro->uses_varargs || name == "varargs";
    macro->uses_kwargs = macro->uses_kwargs || name == "kwargs";
    macro->uses_caller = macro->uses_caller || name == "caller";
  }
  return make(token.line, NameExpr{intern(name), name});
}

ExprPtr ExpressionParser::parse_list() {
  const int line = take().line;
  std::vector<ExprPtr> items;
  while (!current().is_op("]")) {
    if (!items.empty()) {
      expect_op(",");
      if (current().is_op("]")) break;
    }
    items.push_back(parse_expression());
  }
  take();
  return make(line, SequenceExpr{false, std::move(items)});
}

ExprPtr ExpressionParser::parse_dict() {
  const int line = take().line;
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
  while (!current().is_op("}")) {
    if (!items.empty()) {
      expect_op(",");
      if (current().is_op("}")) break;
    }
    ExprPtr key = parse_expression();
    expect_op(":");
    items.emplace_back(std::move(key), parse_expression());
  }
  take();
  return make(line, DictExpr{std::move(items)});
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr operand) {
  for (;;) {
    if (current().is_op(".") || current().is_op("[")) operand = parse_subscript(std::move(operand));
    else if (current().is_op("(")) operand = parse_call(std::move(operand));
    else return operand;
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr operand) {
  for (;;) {
    if (current().is_op("|")) operand = parse_filters(std::move(operand), false);
    else if (current().is_name("is")) operand = parse_test(std::move(operand));
    else if (current().is_op("(")) operand = parse_call(std::move(operand));
    else return operand;
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr operand) {
  const Token open = take();
  if (open.text == ".") {
    const Token member = take();
    if (member.kind == Token::Kind::name)
      return make(open.line, AttributeExpr{std::move(operand), member.text});
    if (member.kind != Token::Kind::integer)
      fail_syntax(member.line, "expected a name or a number after '.'");
    return make(open.line,
                SubscriptExpr{std::move(operand), make(open.line, LiteralExpr{Object(member.integer)})});
  }
  ExprPtr first;
  if (!current().is_op(":")) {
    if (current().is_op("]")) {
      take();
      return make(open.line, SubscriptExpr{std::move(operand), make(open.line, SequenceExpr{true, {}})});
    }
    first = parse_expression();
  }
  if (current().is_op(":")) {
    take();
    const auto bound = [this]() -> ExprPtr {
      const bool absent = current().is_op(":") || current().is_op("]") || current().is_op(",");
      return absent ? nullptr : parse_expression();
    };
    ExprPtr stop = bound();
    ExprPtr step = skip_op(":") ? bound() : nullptr;
    if (!current().is_op("]")) fail_unexpected("']' after a slice");
    take();
    return make(open.line, SliceExpr{std::move(operand), std::move(first), std::move(stop), std::move(step)});
  }
  if (current().is_op(",")) {
    std::vector<ExprPtr> keys;
    keys.push_back(std::move(first));
    while (skip_op(",")) keys.push_back(parse_expression());
    first = make(open.line, SequenceExpr{true, std::move(keys)});
  }
  expect_op("]");
  return make(open.line, SubscriptExpr{std::move(operand), std::move(first)});
}

ExprPtr ExpressionParser::parse_call(ExprPtr operand) {
  const int line = current().line;
  return make(line, CallExpr{std::move(operand), parse_arguments()});
}

ArgumentList ExpressionParser::parse_arguments() {
  const int line = current().line;
  expect_op("(");
  ArgumentList list;
  const auto ensure = [line](bool allowed) {
    if (!allowed) fail_syntax(line, "arguments of a call in an order that is not allowed");
  };
  for (bool first = true; !current().is_op(")"); first = false) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    if (skip_op("*")) {
      ensure(!list.spread && !list.spread_map);
      list.spread = parse_expression();
    } else if (skip_op("**")) {
      ensure(!list.spread_map);
      list.spread_map = parse_expression();
    } else if (current().kind == Token::Kind::name && following().is_op("=")) {
      ensure(!list.spread_map);
      if (list.keyword.size() >= max_names) fail_names(line);
      const std::string name = take().text;
      take();
      for (const auto& keyword : list.keyword) {
        if (keyword.first == name) fail_here("keyword argument '" + name + "' is repeated");
      }
      list.keyword.emplace_back(name, parse_expression());
    } else {
      ensure(!list.spread && !list.spread_map && list.keyword.empty());
      list.positional.push_back(parse_expression());
    }
  }
  take();
  return list;
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) name += "." + expect_name();
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr operand, bool first_without_pipe) {
  while (first_without_pipe || current().is_op("|")) {
    if (!first_without_pipe) take();
    first_without_pipe = false;
    const int line = current().line;
    const std::string name = parse_dotted_name();
    const FilterFunction function = find_filter(name);
    if (!function && conditions_ == 0) fail_unknown(line, "filter", name);
    ArgumentList arguments;
    if (current().is_op("(")) arguments = parse_arguments();
    operand = make(line, FilterExpr{std::move(operand), name, function, std::move(arguments)});
  }
  return operand;
}

ExprPtr ExpressionParser::parse_test(ExprPtr operand) {
  const int line = take().line;
  const bool negated = skip_word("not");
  const std::string name = parse_dotted_name();
  const TestFunction function = find_test(name);
  if (!function && conditions_ == 0) fail_unknown(line, "test", name);
  ArgumentList arguments;
  const Token& next = current();
  if (next.is_op("(")) {
    arguments = parse_arguments();
  } else if ((next.kind == Token::Kind::name && next.text != "else" && next.text != "or" &&
              next.text != "and") ||
             next.kind == Token::Kind::string || next.kind == Token::Kind::integer ||
             next.kind == Token::Kind::real || next.is_op("[") || next.is_op("{")) {
    if (next.is_name("is")) fail_here("tests cannot be chained with 'is'");
    const Nesting nesting(*this);
    arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  ExprPtr test = make(line, TestExpr{std::move(operand), name, function, std::move(arguments)});
  return negated ? make(line, NotExpr{std::move(test)}) : std::move(test);
}

}  // namespace nibble::jinja
