#include "chat/jinja/expression_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/tests.hpp"
#include "platform/quote.hpp"

namespace inferno::jinja {
namespace {

/// Deepest tree of an expression: what the reference implementation's own compiler takes.
constexpr std::uint32_t kMaxExpressionDepth = 200;
constexpr std::uint32_t kMaxExpressionNesting = 120;

std::optional<Comparison> comparison_of(const Token& token) {
  if (token.type != TokenType::op) return std::nullopt;
  if (token.text == "==") return Comparison::equal;
  if (token.text == "!=") return Comparison::not_equal;
  if (token.text == "<") return Comparison::less;
  if (token.text == "<=") return Comparison::less_equal;
  if (token.text == ">") return Comparison::greater;
  if (token.text == ">=") return Comparison::greater_equal;
  return std::nullopt;
}

std::uint32_t tree_depth(const Expression& expression) {
  std::uint32_t depth = 0;
  const auto look = [&depth](const ExpressionPtr& child) {
    if (child) depth = std::max(depth, child->depth);
  };
  for (const auto& child : expression.children) look(child);
  for (const auto& argument : expression.arguments.positional) look(argument);
  for (const auto& [name, argument] : expression.arguments.named) look(argument);
  look(expression.arguments.spread);
  look(expression.arguments.named_spread);
  return depth + 1;
}

}  // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser, std::uint32_t limit) : parser_(parser) {
  if (parser_.nesting_ >= limit) {
    parser_.fail(fmt::format(
        "blocks and parentheses are nested deeper than {} levels; expected a flatter template", limit));
  }
  ++parser_.nesting_;
}

void ExpressionParser::fail_expected(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, describe(stream_.current())));
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!stream_.skip_op(op)) fail_expected(quote(op));
}

void ExpressionParser::expect(TokenType type, std::string_view what) {
  if (!stream_.is(type)) fail_expected(what);
  stream_.next();
}

std::string ExpressionParser::expect_identifier() {
  if (!stream_.is(TokenType::name)) fail_expected("a name");
  return stream_.next().text;
}

void ExpressionParser::uses_name(const std::string& name) {
  for (auto& names : macro_names_) names.insert(name);
}

ExpressionParser::Node ExpressionParser::node(ExpressionKind kind, std::uint32_t line) {
  auto result = std::make_unique<Expression>();
  result->kind = kind;
  result->line = line;
  return result;
}

ExpressionPtr ExpressionParser::finish(Node node) {
  node->depth = tree_depth(*node);
  if (node->depth > kMaxExpressionDepth) {
    template_error(node->line,
                   fmt::format("the expression has more than {} operations inside each other; expected "
                               "a shorter one",
                               kMaxExpressionDepth));
  }
  return node;
}

ExpressionPtr ExpressionParser::with_children(ExpressionKind kind, std::uint32_t line, ExpressionPtr first,
                                              ExpressionPtr second) {
  auto result = node(kind, line);
  result->children.push_back(std::move(first));
  if (second) result->children.push_back(std::move(second));
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_expression(bool with_conditional) {
  const Nesting nesting(*this, kMaxExpressionNesting);
  return with_conditional ? parse_conditional() : parse_or();
}

ExpressionPtr ExpressionParser::parse_conditional() {
  auto line = stream_.line();
  const auto was_conditional = conditional_;
  const auto unknown_before = unknown_.size();
  auto then = parse_or();
  while (stream_.skip_name("if")) {
    // What stands before the condition depends on it, too.
    unknown_.resize(unknown_before);
    const Nesting nesting(*this, kMaxExpressionNesting);
    auto result = node(ExpressionKind::conditional, line);
    conditional_ = true;
    result->children.push_back(parse_or());
    result->children.push_back(std::move(then));
    result->children.push_back(stream_.skip_name("else") ? parse_conditional() : nullptr);
    conditional_ = was_conditional;
    then = finish(std::move(result));
    line = stream_.line();
  }
  return then;
}

void ExpressionParser::check_names() const {
  if (!unknown_.empty()) template_error(unknown_.front().first, unknown_.front().second);
}

ExpressionPtr ExpressionParser::parse_or() {
  auto line = stream_.line();
  auto left = parse_and();
  while (stream_.skip_name("or")) {
    left = with_children(ExpressionKind::logical_or, line, std::move(left), parse_and());
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  auto line = stream_.line();
  auto left = parse_not();
  while (stream_.skip_name("and")) {
    left = with_children(ExpressionKind::logical_and, line, std::move(left), parse_not());
    line = stream_.line();
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const Nesting nesting(*this, kMaxExpressionNesting);
  const auto line = stream_.line();
  if (stream_.skip_name("not")) return with_children(ExpressionKind::logical_not, line, parse_not());
  return parse_compare();
}

ExpressionPtr ExpressionParser::parse_compare() {
  auto result = node(ExpressionKind::compare, stream_.line());
  result->children.push_back(parse_sum());
  while (true) {
    if (const auto comparison = comparison_of(stream_.current())) {
      stream_.next();
      result->comparisons.push_back(*comparison);
    } else if (stream_.skip_name("in")) {
      result->comparisons.push_back(Comparison::in);
    } else if (stream_.is_name("not") && TokenStream::is_name(stream_.look(), "in")) {
      stream_.next();
      stream_.next();
      result->comparisons.push_back(Comparison::not_in);
    } else {
      break;
    }
    result->children.push_back(parse_sum());
  }
  if (result->comparisons.empty()) return std::move(result->children.front());
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_sum() {
  auto left = parse_concat();
  while (stream_.is_op("+") || stream_.is_op("-")) {
    auto result = node(ExpressionKind::binary, stream_.line());
    result->op = stream_.next().text == "+" ? Operator::add : Operator::subtract;
    result->children.push_back(std::move(left));
    result->children.push_back(parse_concat());
    left = finish(std::move(result));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  auto result = node(ExpressionKind::concat, stream_.line());
  result->children.push_back(parse_product());
  while (stream_.skip_op("~")) result->children.push_back(parse_product());
  if (result->children.size() == 1) return std::move(result->children.front());
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_product() {
  auto left = parse_power();
  while (true) {
    auto result = node(ExpressionKind::binary, stream_.line());
    if (stream_.skip_op("*")) {
      result->op = Operator::multiply;
    } else if (stream_.skip_op("/")) {
      result->op = Operator::divide;
    } else if (stream_.skip_op("//")) {
      result->op = Operator::floor_divide;
    } else if (stream_.skip_op("%")) {
      result->op = Operator::modulo;
    } else {
      return left;
    }
    result->children.push_back(std::move(left));
    result->children.push_back(parse_power());
    left = finish(std::move(result));
  }
}

ExpressionPtr ExpressionParser::parse_power() {
  auto left = parse_unary();
  while (stream_.is_op("**")) {
    auto result = node(ExpressionKind::binary, stream_.next().line);
    result->op = Operator::power;
    result->children.push_back(std::move(left));
    result->children.push_back(parse_unary());
    left = finish(std::move(result));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filter) {
  const Nesting nesting(*this, kMaxExpressionNesting);
  const auto line = stream_.line();
  ExpressionPtr value;
  if (stream_.skip_op("-")) {
    value = with_children(ExpressionKind::negate, line, parse_unary(false));
  } else if (stream_.skip_op("+")) {
    value = with_children(ExpressionKind::plus, line, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filter ? parse_filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  auto result = node(ExpressionKind::constant, token.line);
  if (token.type == TokenType::name) {
    const auto name = stream_.next().text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      result->constant = Value(name == "true" || name == "True");
    } else if (name != "none" && name != "None") {
      result->kind = ExpressionKind::name;
      result->name = name;
      uses_name(name);
    }
    return finish(std::move(result));
  }
  if (token.type == TokenType::string) {
    std::string text;
    while (stream_.is(TokenType::string)) text += stream_.next().text;
    result->constant = make_trusted(nullptr, text);
    return finish(std::move(result));
  }
  if (token.type == TokenType::integer || token.type == TokenType::real) return parse_number();
  if (stream_.is_op("(")) return parse_parentheses();
  if (stream_.is_op("[")) return parse_list();
  if (stream_.is_op("{")) return parse_dict();
  fail_expected("a value");
}

ExpressionPtr ExpressionParser::parse_number() {
  const auto token = stream_.next();
  auto result = node(ExpressionKind::constant, token.line);
  const auto& text = token.text;
  if (token.type == TokenType::real) {
    result->constant = Value(std::strtod(text.c_str(), nullptr));
    return finish(std::move(result));
  }
  const bool prefixed = text.size() > 2 && text[0] == '0' && text[1] > '9';
  const int base = !prefixed                          ? 10
                   : text[1] == 'x' || text[1] == 'X' ? 16
                   : text[1] == 'o' || text[1] == 'O' ? 8
                                                      : 2;
  const char* first = text.data() + (prefixed ? 2 : 0);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(first, text.data() + text.size(), value, base);
  if (error != std::errc()) {
    template_error(token.line,
                   fmt::format("the number {} does not fit into 64 bits; expected a smaller one", text));
  }
  result->constant = Value(value);
  return finish(std::move(result));
}

bool ExpressionParser::at_tuple_end() const {
  return stream_.is(TokenType::variable_end) || stream_.is(TokenType::block_end) || stream_.is_op(")");
}

ExpressionPtr ExpressionParser::parse_tuple(bool with_conditional, bool ends_at_recursive) {
  auto result = node(ExpressionKind::tuple, stream_.line());
  bool is_tuple = false;
  while (true) {
    if (!result->children.empty()) expect_op(",");
    if (at_tuple_end() || (ends_at_recursive && stream_.is_name("recursive"))) break;
    result->children.push_back(parse_expression(with_conditional));
    if (!stream_.is_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return finish(std::move(result));
  if (result->children.empty()) fail_expected("an expression");
  return std::move(result->children.front());
}

ExpressionPtr ExpressionParser::parse_parentheses() {
  const auto line = stream_.next().line;
  if (stream_.skip_op(")")) return finish(node(ExpressionKind::tuple, line));
  auto result = node(ExpressionKind::tuple, line);
  bool is_tuple = false;
  while (!stream_.is_op(")")) {
    result->children.push_back(parse_expression());
    if (!stream_.skip_op(",")) break;
    is_tuple = true;
  }
  expect_op(")");
  if (!is_tuple) return std::move(result->children.front());
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_list() {
  auto result = node(ExpressionKind::list, stream_.next().line);
  while (!stream_.is_op("]")) {
    if (!result->children.empty()) expect_op(",");
    if (stream_.is_op("]")) break;
    result->children.push_back(parse_expression());
  }
  expect_op("]");
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_dict() {
  auto result = node(ExpressionKind::dict, stream_.next().line);
  while (!stream_.is_op("}")) {
    if (!result->children.empty()) expect_op(",");
    if (stream_.is_op("}")) break;
    result->children.push_back(parse_expression());
    expect_op(":");
    result->children.push_back(parse_expression());
  }
  expect_op("}");
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr value) {
  while (true) {
    if (stream_.is_op(".")) {
      value = parse_attribute(std::move(value));
    } else if (stream_.is_op("[")) {
      value = parse_subscript(std::move(value));
    } else if (stream_.is_op("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_filters_and_tests(ExpressionPtr value) {
  while (true) {
    if (stream_.is_op("|")) {
      stream_.next();
      value = parse_filter(std::move(value));
    } else if (stream_.is_name("is")) {
      value = parse_test(std::move(value));
    } else if (stream_.is_op("(")) {
      value = parse_call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr value) {
  const auto line = stream_.next().line;
  if (stream_.is(TokenType::integer)) {
    auto index = parse_number();
    return with_children(ExpressionKind::item, line, std::move(value), std::move(index));
  }
  auto result = node(ExpressionKind::attribute, line);
  if (!stream_.is(TokenType::name)) fail_expected("a name or number after '.'");
  result->name = stream_.next().text;
  result->children.push_back(std::move(value));
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr value) {
  const auto line = stream_.next().line;
  auto indices = node(ExpressionKind::tuple, line);
  while (!stream_.is_op("]")) {
    if (!indices->children.empty()) expect_op(",");
    indices->children.push_back(parse_slice());
  }
  expect_op("]");
  auto index =
      indices->children.size() == 1 ? std::move(indices->children.front()) : finish(std::move(indices));
  return with_children(ExpressionKind::item, line, std::move(value), std::move(index));
}

ExpressionPtr ExpressionParser::parse_slice() {
  auto result = node(ExpressionKind::slice, stream_.line());
  ExpressionPtr start;
  if (!stream_.is_op(":")) {
    start = parse_expression();
    if (!stream_.is_op(":")) return start;
  }
  result->children.push_back(std::move(start));
  stream_.next();
  const auto at_end = [this] { return stream_.is_op(":") || stream_.is_op("]") || stream_.is_op(","); };
  result->children.push_back(at_end() ? nullptr : parse_expression());
  const bool has_step = stream_.skip_op(":");
  result->children.push_back(has_step && !at_end() ? parse_expression() : nullptr);
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr callee) {
  auto result = node(ExpressionKind::call, stream_.line());
  result->arguments = parse_arguments();
  result->children.push_back(std::move(callee));
  return finish(std::move(result));
}

CallArguments ExpressionParser::parse_arguments() {
  CallArguments arguments;
  expect_op("(");
  bool first = true;
  while (!stream_.is_op(")")) {
    if (!first) {
      expect_op(",");
      if (stream_.is_op(")")) break;
    }
    first = false;
    if (stream_.is_op("*")) {
      if (arguments.spread || arguments.named_spread) fail("arguments after * or ** must have names");
      stream_.next();
      arguments.spread = parse_expression();
    } else if (stream_.is_op("**")) {
      if (arguments.named_spread) fail("** can be given once");
      stream_.next();
      arguments.named_spread = parse_expression();
    } else if (stream_.is(TokenType::name) && stream_.look().type == TokenType::op &&
               stream_.look().text == "=") {
      if (arguments.named_spread) fail("named arguments must stand before **");
      auto name = stream_.next().text;
      stream_.next();
      arguments.named.emplace_back(std::move(name), parse_expression());
    } else {
      if (arguments.spread || arguments.named_spread || !arguments.named.empty()) {
        fail("arguments without names must stand before those with names");
      }
      arguments.positional.push_back(parse_expression());
    }
  }
  expect_op(")");
  return arguments;
}

std::string ExpressionParser::parse_dotted_name() {
  auto name = expect_identifier();
  while (stream_.skip_op(".")) name.append(".").append(expect_identifier());
  return name;
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr value) {
  auto result = node(ExpressionKind::filter, stream_.line());
  result->name = parse_dotted_name();
  if (!conditional_ && find_filter(result->name) == nullptr) {
    unknown_.emplace_back(result->line, unknown_filter(result->name));
  }
  if (stream_.is_op("(")) result->arguments = parse_arguments();
  result->children.push_back(std::move(value));
  return finish(std::move(result));
}

ExpressionPtr ExpressionParser::parse_filter_chain(bool begins_without_pipe) {
  ExpressionPtr value;
  while (begins_without_pipe || stream_.is_op("|")) {
    if (!begins_without_pipe) stream_.next();
    begins_without_pipe = false;
    value = parse_filter(std::move(value));
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr value) {
  const auto line = stream_.next().line;
  const bool negated = stream_.skip_name("not");
  auto result = node(ExpressionKind::test, line);
  result->name = parse_dotted_name();
  if (!conditional_ && find_test(result->name) == nullptr) {
    unknown_.emplace_back(line, unknown_test(result->name));
  }
  result->children.push_back(std::move(value));
  if (stream_.is_op("(")) {
    result->arguments = parse_arguments();
  } else if ((stream_.is(TokenType::name) && !stream_.is_any_name({"else", "or", "and"})) ||
             stream_.is(TokenType::string) || stream_.is(TokenType::integer) || stream_.is(TokenType::real) ||
             stream_.is_op("[") || stream_.is_op("{")) {
    if (stream_.is_name("is")) fail("tests cannot be chained with 'is'; join them with 'and'");
    result->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  auto test = finish(std::move(result));
  return negated ? with_children(ExpressionKind::logical_not, line, std::move(test)) : std::move(test);
}

std::string ExpressionParser::parse_parameter() {
  auto name = expect_identifier();
  if (name == "true" || name == "false" || name == "none" || name == "True" || name == "False" ||
      name == "None") {
    fail(fmt::format("{} cannot be assigned to", name));
  }
  return name;
}

ExpressionPtr ExpressionParser::parse_target(bool with_namespace, bool in_for) {
  const Nesting nesting(*this, kMaxExpressionNesting);
  const auto line = stream_.line();
  if (with_namespace && stream_.is(TokenType::name) && stream_.look().type == TokenType::op &&
      stream_.look().text == ".") {
    auto result = node(ExpressionKind::namespace_field, line);
    result->name = stream_.next().text;
    uses_name(result->name);
    stream_.next();
    result->field = expect_identifier();
    return finish(std::move(result));
  }
  auto result = node(ExpressionKind::tuple, line);
  bool is_tuple = false;
  while (true) {
    if (at_tuple_end() || (in_for && stream_.is_name("in"))) break;
    if (stream_.skip_op("(")) {
      result->children.push_back(parse_target(false));
      expect_op(")");
    } else {
      auto name = node(ExpressionKind::name, stream_.line());
      name->name = parse_parameter();
      result->children.push_back(finish(std::move(name)));
    }
    if (!stream_.skip_op(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return finish(std::move(result));
  if (result->children.empty()) fail_expected("a name to assign to");
  return std::move(result->children.front());
}

}  // namespace inferno::jinja
