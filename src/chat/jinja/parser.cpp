#include "chat/jinja/parser.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "chat/jinja/expression_parser.hpp"
#include "platform/quote.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::jinja {
namespace {

constexpr std::uint32_t kMaxBlockNesting = 60;

using EndNames = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Body run() { return parse_body({}); }

 private:
  using Node = std::unique_ptr<Statement>;

  Node node(StatementKind kind) const {
    auto result = std::make_unique<Statement>();
    result->kind = kind;
    result->line = stream_.line();
    return result;
  }

  /// Statements up to a block that begins with one of `ends` (none: the template's end). The stream is then
  /// at that name.
  Body parse_body(EndNames ends) {
    const Nesting nesting(*this, kMaxBlockNesting);
    Body body;
    while (!stream_.is(TokenType::end)) {
      if (stream_.is(TokenType::data)) {
        auto data = node(StatementKind::data);
        data->text = make_trusted(nullptr, stream_.next().text);
        body.push_back(std::move(data));
      } else if (stream_.is(TokenType::variable_begin)) {
        auto output = node(StatementKind::output);
        stream_.next();
        output->expressions.push_back(parse_tuple());
        expect(TokenType::variable_end, "the end of the expression (}})");
        body.push_back(std::move(output));
        check_names();
      } else {
        stream_.next();
        if (stream_.is_any_name(ends)) return body;
        body.push_back(parse_statement(ends));
        check_names();
        expect(TokenType::block_end, "the end of the block (%})");
      }
    }
    if (ends.size() > 0)
      fail(fmt::format("the template ends inside a block; expected {{% {} %}}", fmt::join(ends, " or ")));
    return body;
  }

  /// The rest of a tag, then statements up to `ends`.
  Body parse_block_body(EndNames ends) {
    expect(TokenType::block_end, "the end of the block (%})");
    return parse_body(ends);
  }

  /// A body that has names of its own.
  Body parse_scoped_body(std::string_view end) {
    const bool was_conditional = std::exchange(conditional_, false);
    auto body = parse_block_body({end});
    conditional_ = was_conditional;
    stream_.next();
    return body;
  }

  StatementPtr parse_statement(EndNames ends) {
    if (!stream_.is(TokenType::name)) fail_expected("the name of a tag");
    const auto& name = stream_.current().text;
    if (name == "if") return parse_if();
    if (name == "for") return parse_for();
    if (name == "set") return parse_set();
    if (name == "with") return parse_with();
    if (name == "macro") return parse_macro();
    if (name == "call") return parse_call_block();
    if (name == "filter") return parse_filter_block();
    if (name == "print") return parse_print();
    if (name == "block") return parse_template_block();
    if (name == "generation") return parse_generation();
    if (name == "break" || name == "continue") return parse_jump();
    if (name == "include" || name == "import" || name == "from" || name == "extends") {
      fail(fmt::format(
          "{{% {} %}} asks for another template, but a model's file has only this one; put its text here",
          name));
    }
    if (ends.size() > 0) {
      fail(fmt::format(
          "unknown tag {}; expected {{% {} %}} or a tag of chat templates (if, for, set, macro, call, "
          "filter, with, raw, …)",
          quote(name), fmt::join(ends, " or ")));
    }
    fail(fmt::format(
        "unknown tag {}; chat templates know if, for, set, macro, call, filter, with, raw, block, "
        "break, continue and generation",
        quote(name)));
  }

  StatementPtr parse_if() {
    auto result = node(StatementKind::conditional);
    const bool was_conditional = std::exchange(conditional_, true);
    do {
      stream_.next();
      result->expressions.push_back(parse_tuple(false));
      result->branches.push_back(parse_block_body({"elif", "else", "endif"}));
    } while (stream_.is_name("elif"));
    if (stream_.skip_name("else")) result->branches.push_back(parse_block_body({"endif"}));
    conditional_ = was_conditional;
    stream_.next();
    return result;
  }

  StatementPtr parse_for() {
    auto result = node(StatementKind::loop);
    stream_.next();
    result->targets.push_back(parse_target(false, true));
    check_loop_target(*result->targets.front());
    if (!stream_.skip_name("in")) fail_expected("'in'");
    result->value = parse_tuple(false, true);
    const bool was_conditional = std::exchange(conditional_, false);
    if (stream_.skip_name("if")) result->test = parse_expression();
    result->recursive = stream_.skip_name("recursive");
    ++loops_;
    result->branches.push_back(parse_block_body({"endfor", "else"}));
    --loops_;
    if (stream_.skip_name("else")) result->branches.push_back(parse_block_body({"endfor"}));
    conditional_ = was_conditional;
    stream_.next();
    return result;
  }

  void check_loop_target(const Expression& target) const {
    if (target.kind == ExpressionKind::name && target.name == "loop") {
      fail("a loop's variable cannot be called 'loop', which is the loop itself; choose another name");
    }
    for (const auto& child : target.children) check_loop_target(*child);
  }

  StatementPtr parse_set() {
    auto result = node(StatementKind::assign);
    stream_.next();
    result->targets.push_back(parse_target(true));
    if (stream_.skip_op("=")) {
      result->value = parse_tuple();
      return result;
    }
    result->kind = StatementKind::assign_block;
    result->filter = parse_filter_chain(false);
    result->branches.push_back(parse_scoped_body("endset"));
    return result;
  }

  StatementPtr parse_with() {
    auto result = node(StatementKind::with);
    stream_.next();
    while (!stream_.is(TokenType::block_end)) {
      if (!result->targets.empty()) expect_op(",");
      auto target = parse_single_target();
      result->targets.push_back(std::move(target));
      expect_op("=");
      result->expressions.push_back(parse_expression());
    }
    result->branches.push_back(parse_scoped_body("endwith"));
    return result;
  }

  ExpressionPtr parse_single_target() {
    auto target = std::make_unique<Expression>();
    target->kind = ExpressionKind::name;
    target->line = stream_.line();
    target->name = parse_parameter();
    return target;
  }

  void parse_signature(MacroDefinition& macro) {
    expect_op("(");
    while (!stream_.is_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      macro.parameters.push_back(parse_parameter());
      if (stream_.skip_op("=")) {
        macro.defaults.push_back(parse_expression());
      } else if (!macro.defaults.empty()) {
        fail("a parameter without a default follows one with a default");
      }
    }
    expect_op(")");
  }

  /// Reads a macro's body; names that it uses decide which extra arguments it takes.
  void parse_macro_body(MacroDefinition& macro, std::string_view end) {
    const auto loops = std::exchange(loops_, 0);
    macro_names_.emplace_back();
    macro.body = parse_scoped_body(end);
    const auto& names = macro_names_.back();
    const auto uses = [&](const char* name) {
      return names.contains(name) &&
             std::find(macro.parameters.begin(), macro.parameters.end(), name) == macro.parameters.end();
    };
    macro.uses_caller = uses("caller");
    macro.uses_varargs = uses("varargs");
    macro.uses_kwargs = uses("kwargs");
    macro_names_.pop_back();
    loops_ = loops;
  }

  StatementPtr parse_macro() {
    auto result = node(StatementKind::macro);
    stream_.next();
    auto macro = std::make_unique<MacroDefinition>();
    macro->name = parse_parameter();
    parse_signature(*macro);
    parse_macro_body(*macro, "endmacro");
    result->macro = std::move(macro);
    return result;
  }

  StatementPtr parse_call_block() {
    auto result = node(StatementKind::call_block);
    stream_.next();
    auto macro = std::make_unique<MacroDefinition>();
    if (stream_.is_op("(")) parse_signature(*macro);
    result->value = parse_expression();
    if (result->value->kind != ExpressionKind::call)
      fail("a call block needs the call of a macro: {% call name() %}");
    parse_macro_body(*macro, "endcall");
    result->macro = std::move(macro);
    return result;
  }

  StatementPtr parse_filter_block() {
    auto result = node(StatementKind::filter_block);
    stream_.next();
    result->filter = parse_filter_chain(true);
    result->branches.push_back(parse_scoped_body("endfilter"));
    return result;
  }

  StatementPtr parse_print() {
    auto result = node(StatementKind::output);
    stream_.next();
    while (!stream_.is(TokenType::block_end)) {
      if (!result->expressions.empty()) expect_op(",");
      result->expressions.push_back(parse_expression());
    }
    return result;
  }

  StatementPtr parse_template_block() {
    auto result = node(StatementKind::block);
    stream_.next();
    const auto name = expect_identifier();
    stream_.skip_name("scoped");
    stream_.skip_name("required");
    const auto loops = std::exchange(loops_, 0);
    result->branches.push_back(parse_scoped_body("endblock"));
    loops_ = loops;
    stream_.skip_name(name);
    return result;
  }

  StatementPtr parse_generation() {
    auto result = node(StatementKind::scope);
    stream_.next();
    const auto loops = std::exchange(loops_, 0);
    result->branches.push_back(parse_scoped_body("endgeneration"));
    loops_ = loops;
    return result;
  }

  StatementPtr parse_jump() {
    const bool is_break = stream_.current().text == "break";
    if (loops_ == 0)
      fail(fmt::format("{{% {} %}} stands outside of a loop", is_break ? "break" : "continue"));
    auto result = node(is_break ? StatementKind::loop_break : StatementKind::loop_continue);
    stream_.next();
    return result;
  }

  std::uint32_t loops_ = 0;
};

}  // namespace

Body parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    template_error(
        1, fmt::format("the template has {} bytes; expected at most {}", source.size(), kMaxTemplateBytes));
  }
  if (const auto valid = utf8_valid_prefix(source); valid != source.size()) {
    const auto line = static_cast<std::uint32_t>(
        1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(valid), '\n'));
    template_error(line, fmt::format("byte {} is not valid UTF-8", valid));
  }
  return Parser(tokenize_template(source)).run();
}

}  // namespace inferno::jinja
