#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/ast.hpp"
#include "chat/jinja/token_stream.hpp"

namespace inferno::jinja {

/// Reads expressions, with Jinja's precedence.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : stream_(std::move(tokens)) {}

 protected:
  [[noreturn]] void fail(const std::string& message) const { template_error(stream_.line(), message); }
  [[noreturn]] void fail_expected(std::string_view expected) const;
  void expect_op(std::string_view op);
  void expect(TokenType type, std::string_view what);
  std::string expect_identifier();

  ExpressionPtr parse_expression(bool with_conditional = true);
  /// a, b, c without parentheses, or a single expression. After a trailing comma `recursive` may follow.
  ExpressionPtr parse_tuple(bool with_conditional = true, bool ends_at_recursive = false);
  /// A chain of filters without the value that goes in; nullptr if there is none.
  ExpressionPtr parse_filter_chain(bool begins_without_pipe);
  /// A name, a tuple of names in parentheses or not, or with `with_namespace` ns.field.
  ExpressionPtr parse_target(bool with_namespace, bool in_for = false);
  /// A name of a macro's parameter.
  std::string parse_parameter();
  void uses_name(const std::string& name);

  TokenStream stream_;
  /// Whether what is read runs only on some condition: then unknown filters fail when they run, as in Jinja.
  bool conditional_ = false;
  /// Throws if an unknown filter or test was read where it would surely run.
  void check_names() const;
  /// Names read in the macros that are being read, innermost last.
  std::vector<std::set<std::string>> macro_names_;

  /// One level of nesting; throws if there are too many.
  class Nesting {
   public:
    Nesting(ExpressionParser& parser, std::uint32_t limit);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  using Node = std::unique_ptr<Expression>;
  static Node node(ExpressionKind kind, std::uint32_t line);
  static ExpressionPtr finish(Node node);
  static ExpressionPtr with_children(ExpressionKind kind, std::uint32_t line, ExpressionPtr first,
                                     ExpressionPtr second = nullptr);

  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_parentheses();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr value);
  ExpressionPtr parse_attribute(ExpressionPtr value);
  ExpressionPtr parse_subscript(ExpressionPtr value);
  ExpressionPtr parse_slice();
  ExpressionPtr parse_call(ExpressionPtr callee);
  CallArguments parse_arguments();
  ExpressionPtr parse_filter(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr value);
  std::string parse_dotted_name();
  ExpressionPtr parse_number();
  bool at_tuple_end() const;

  std::uint32_t nesting_ = 0;
  /// Unknown names, with their lines: known to be faults only when it is clear that no condition follows.
  std::vector<std::pair<std::uint32_t, std::string>> unknown_;
};

}  // namespace inferno::jinja
