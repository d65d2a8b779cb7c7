// SPDX-License-Identifier: MIT
// Statements: what stands in {% %}. Tags that need other templates or an autoescaping environment
// (include, import, extends, block, autoescape) are refused by name.
#include "text/jinja/parser.hpp"

#include <algorithm>
#include <initializer_list>

#include "text/jinja/expression_parser.hpp"

namespace nibble::jinja {
namespace {

constexpr std::size_t max_parameters = 1000;  // each is compared with the others

using Words = std::initializer_list<std::string_view>;

class Parser : private ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {
    tree_.loop = intern("loop");
    tree_.varargs = intern("varargs");
    tree_.kwargs = intern("kwargs");
    tree_.caller = intern("caller");
  }

  Tree run() {
    tree_.body = parse_body({});
    return std::move(tree_);
  }

 private:
  // Statements up to a tag named in `ends` (left as the current token), or the end of the template.
  Body parse_body(Words ends) {
    Body body;
    for (;;) {
      const int line = current().line;
      switch (current().kind) {
        case Token::Kind::end:
          if (ends.size() > 0)
            fail_here("the template ends inside a block: expected '" + std::string(*(ends.end() - 1)) + "'");
          return body;
        case Token::Kind::data:
          body.push_back({line, TextStatement{take().text}});
          break;
        case Token::Kind::variable_begin:
          take();
          body.push_back({line, OutputStatement{parse_tuple(true)}});
          expect_kind(Token::Kind::variable_end, "'}}'");
          break;
        default:
          expect_kind(Token::Kind::block_begin, "a tag");
          if (current().kind != Token::Kind::name) fail_unexpected("a tag name");
          if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return body;
          parse_statement(body);
          expect_kind(Token::Kind::block_end, "'%}'");
      }
    }
  }

  // The body of a tag whose head was just read; a colon may end the head.
  Body parse_block(Words ends) {
    skip_op(":");
    expect_kind(Token::Kind::block_end, "'%}'");
    return parse_body(ends);
  }
  Body parse_closed_block(std::string_view end) {
    Body body = parse_block({end});
    take();
    return body;
  }

  void parse_statement(Body& body) {
    const Nesting nesting(*this);
    const Token tag = take();
    const auto add = [&](auto node) { body.push_back({tag.line, std::move(node)}); };
    if (tag.text == "if") add(parse_if());
    else if (tag.text == "for") add(parse_for());
    else if (tag.text == "set") parse_set(tag.line, body);
    else if (tag.text == "macro") add(parse_macro());
    else if (tag.text == "call") add(parse_call_block());
    else if (tag.text == "filter") add(parse_filter_block());
    else if (tag.text == "with") add(parse_with());
    else if (tag.text == "generation") add(parse_generation());
    else if (tag.text == "print") parse_print(tag.line, body);
    else if (tag.text == "break") { require_loop(tag); add(BreakStatement{}); }
    else if (tag.text == "continue") { require_loop(tag); add(ContinueStatement{}); }
    else fail_tag(tag);
  }

  [[noreturn]] static void fail_tag(const Token& tag) {
    if (tag.text.starts_with("end") || tag.text == "else" || tag.text == "elif") {
      fail_syntax(tag.line, "the tag '" + tag.text + "' closes nothing that is open here");
    }
    throw Error(Errc::unsupported,
                "line " + std::to_string(tag.line) + ": the tag '" + tag.text + "' is not supported");
  }

  void require_loop(const Token& tag) const {
    if (loops_ == 0) fail_syntax(tag.line, "'" + tag.text + "' outside a loop");
  }

  IfStatement parse_if() {
    IfStatement node;
    ++conditions_;
    for (;;) {
      ExprPtr test = parse_tuple(false);
      Body body = parse_block({"elif", "else", "endif"});
      node.branches.emplace_back(std::move(test), std::move(body));
      const Token next = take();
      if (next.text == "elif") continue;
      if (next.text == "else") node.otherwise = parse_closed_block("endif");
      break;
    }
    --conditions_;
    return node;
  }

  ForStatement parse_for() {
    ForStatement node;
    ++targets_in_loops_;
    node.target = parse_target(false);
    if (!skip_word("in")) fail_unexpected("'in'");
    node.iterable = parse_tuple(false);
    if (skip_word("if")) node.condition = parse_expression();
    if (current().is_name("recursive")) {
      throw Error(Errc::unsupported,
                  "line " + std::to_string(current().line) + ": a recursive loop is not supported");
    }
    ++loops_;
    node.body = parse_block({"endfor", "else"});
    --loops_;
    if (take().text == "else") node.otherwise = parse_closed_block("endfor");
    --targets_in_loops_;
    return node;
  }

  void parse_set(int line, Body& body) {
    Target target = parse_target(true);
    if (skip_op("=")) {
      body.push_back({line, SetStatement{std::move(target), parse_tuple(true)}});
      return;
    }
    ExprPtr filter = parse_filters(nullptr, false);
    Body inner = parse_closed_block("endset");
    body.push_back({line, SetBlockStatement{std::move(target), std::move(filter), std::move(inner)}});
  }

  Target parse_name_target(const Token& token) {
    static constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
    if (token.kind != Token::Kind::name ||
        std::find(std::begin(constants), std::end(constants), token.text) != std::end(constants)) {
      fail_syntax(token.line, "this cannot be assigned to");
    }
    if (token.text == "loop" && targets_in_loops_ > 0)
      fail_syntax(token.line, "'loop' cannot be assigned to in a loop");
    return {intern(token.text)};
  }

  Target parse_single_target(bool with_attribute) {
    const Nesting nesting(*this);
    if (skip_op("(")) {
      Target inner = parse_target(false);
      expect_op(")");
      return inner;
    }
    Target target = parse_name_target(take());
    if (with_attribute && skip_op(".")) target.attribute = expect_name();
    return target;
  }

  Target parse_target(bool with_attribute) {
    Target first = parse_single_target(with_attribute);
    if (!current().is_op(",")) return first;
    Target tuple;
    tuple.is_tuple = true;
    tuple.parts.push_back(std::move(first));
    while (skip_op(",") && !at_tuple_end()) tuple.parts.push_back(parse_single_target(with_attribute));
    return tuple;
  }

  void parse_signature(MacroDefinition& macro) {
    expect_op("(");
    while (!current().is_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      const Token token = take();
      if (token.kind != Token::Kind::name) fail_syntax(token.line, "expected a parameter name");
      if (macro.parameters.size() >= max_parameters) {
        throw Error(Errc::out_of_memory, "line " + std::to_string(token.line) + ": too many parameters");
      }
      for (const auto& parameter : macro.parameters) {
        if (parameter.second == token.text)
          fail_syntax(token.line, "parameter '" + token.text + "' is repeated");
      }
      if (skip_op("=")) macro.defaults.push_back(parse_expression());
      else if (!macro.defaults.empty()) fail_here("a parameter without default follows one with a default");
      macro.parameters.emplace_back(intern(token.text), token.text);
    }
    take();
  }

  // A macro's body is a function of its own: it cannot break a loop around it.
  void parse_macro_body(MacroDefinition& macro, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    open_macros_.push_back(&macro);
    macro.body = parse_closed_block(end);
    open_macros_.pop_back();
    loops_ = loops;
    for (const auto& parameter : macro.parameters) {
      if (parameter.second == "varargs") macro.uses_varargs = false;
      if (parameter.second == "kwargs") macro.uses_kwargs = false;
      if (parameter.second == "caller") macro.uses_caller = false;
    }
  }

  MacroStatement parse_macro() {
    auto macro = std::make_unique<MacroDefinition>();
    macro->name = expect_name();
    const NameId id = intern(macro->name);
    parse_signature(*macro);
    parse_macro_body(*macro, "endmacro");
    return {id, std::move(macro)};
  }

  CallBlockStatement parse_call_block() {
    auto caller = std::make_unique<MacroDefinition>();
    caller->name = "caller";
    if (current().is_op("(")) parse_signature(*caller);
    ExprPtr call = parse_expression();
    if (!std::holds_alternative<CallExpr>(call->node)) fail_syntax(call->line, "expected a call");
    parse_macro_body(*caller, "endcall");
    return {std::move(caller), std::move(call)};
  }

  FilterBlockStatement parse_filter_block() {
    ExprPtr filter = parse_filters(nullptr, true);
    return {std::move(filter), parse_closed_block("endfilter")};
  }

  WithStatement parse_with() {
    WithStatement node;
    while (current().kind != Token::Kind::block_end) {
      if (!node.variables.empty()) expect_op(",");
      Target target = parse_target(false);
      expect_op("=");
      node.variables.emplace_back(std::move(target), parse_expression());
    }
    node.body = parse_closed_block("endwith");
    return node;
  }

  // Marks the assistant's text for training; prints its body.
  ScopeStatement parse_generation() {
    const int loops = std::exchange(loops_, 0);
    ScopeStatement node{parse_closed_block("endgeneration")};
    loops_ = loops;
    return node;
  }

  void parse_print(int line, Body& body) {
    for (bool first = true; current().kind != Token::Kind::block_end; first = false) {
      if (!first) expect_op(",");
      body.push_back({line, OutputStatement{parse_expression()}});
    }
  }

  int loops_ = 0;             // loops a break here would leave
  int targets_in_loops_ = 0;  // loops of any kind around: 'loop' is theirs
};

}  // namespace

Tree parse(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace nibble::jinja
