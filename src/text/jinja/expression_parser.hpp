// SPDX-License-Identifier: MIT
// Expressions by recursive descent, loosest binding first: if-else, or, and, not, comparisons, + and -,
// ~, * / // %, **, unary signs, then postfix (attribute, subscript, call) and filters and tests. Note
// that ~ binds tighter than +, and a filter tighter than any operator, as in jinja2.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "text/jinja/ast.hpp"
#include "text/jinja/lexer.hpp"

namespace nibble::jinja {

class ExpressionParser {
 protected:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ExprPtr parse_expression();
  /// An expression, or a tuple without parentheses.
  ExprPtr parse_tuple(bool with_conditional, bool in_parentheses = false);
  /// The chain of filters after `operand`, which is null at the head of filter and set blocks.
  ExprPtr parse_filters(ExprPtr operand, bool first_without_pipe);

  const Token& current() const noexcept { return tokens_[at_]; }
  const Token& following() const noexcept { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take() { Token t = tokens_[at_]; if (at_ + 1 < tokens_.size()) ++at_; return t; }
  bool skip_op(std::string_view symbol) { return current().is_op(symbol) && (take(), true); }
  bool skip_word(std::string_view word) { return current().is_name(word) && (take(), true); }
  void expect_op(std::string_view symbol);
  std::string expect_name();
  void expect_kind(Token::Kind kind, const char* what);
  [[noreturn]] void fail_here(const std::string& message) const { fail_syntax(current().line, message); }
  [[noreturn]] void fail_unexpected(const std::string& wanted) const;
  bool at_tuple_end() const noexcept;

  NameId intern(const std::string& name);

  /// Bounds the parser's own recursion.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

  Tree tree_;
  std::vector<MacroDefinition*> open_macros_;  // innermost last; learn which special names they use
  int conditions_ = 0;  // enclosing ifs: inside, an unknown filter or test is an error only when reached

 private:
  template <class Node>
  ExprPtr make(int line, Node node);

  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr operand);
  ExprPtr parse_filters_and_tests(ExprPtr operand);
  ExprPtr parse_subscript(ExprPtr operand);
  ExprPtr parse_call(ExprPtr operand);
  ExprPtr parse_test(ExprPtr operand);
  std::string parse_dotted_name();
  ArgumentList parse_arguments();

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::unordered_map<std::string, NameId> name_ids_;
  int nesting_ = 0;
};

}  // namespace nibble::jinja
