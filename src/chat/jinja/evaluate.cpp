// Expressions: operators, names, calls.

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/loop.hpp"
#include "chat/jinja/methods.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"
#include "chat/jinja/tests.hpp"
#include "platform/quote.hpp"

namespace inferno::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  budget_.step();
  switch (expression.kind) {
    case ExpressionKind::constant:
      return expression.constant;
    case ExpressionKind::name:
      return evaluate_name(expression);
    default: {
      const DepthGuard depth(budget_);
      return evaluate_composite(expression);
    }
  }
}

Value Interpreter::evaluate_composite(const Expression& expression) {
  const auto& children = expression.children;
  switch (expression.kind) {
    case ExpressionKind::list:
      return make_list(&budget_, evaluate_all(children));
    case ExpressionKind::tuple:
      return make_tuple(&budget_, evaluate_all(children));
    case ExpressionKind::dict:
      return evaluate_dict(expression);
    case ExpressionKind::attribute: {
      const auto object = evaluate(*children.front());
      budget_.set_line(expression.line);
      return attribute(object, expression.name);
    }
    case ExpressionKind::item:
      return evaluate_item(expression);
    case ExpressionKind::call:
      return evaluate_call(expression);
    case ExpressionKind::filter:
      return evaluate_filter(expression, nullptr);
    case ExpressionKind::test: {
      const auto subject = evaluate(*children.front());
      auto arguments = evaluate_arguments(expression.arguments);
      budget_.set_line(expression.line);
      return Value(call_test(expression.name, subject, arguments));
    }
    case ExpressionKind::negate:
    case ExpressionKind::plus: {
      const auto operand = evaluate(*children.front());
      budget_.set_line(expression.line);
      return expression.kind == ExpressionKind::negate ? negate(budget_, operand) : plus(budget_, operand);
    }
    case ExpressionKind::logical_not:
      return Value(!truth(evaluate(*children.front())));
    case ExpressionKind::logical_and:
    case ExpressionKind::logical_or: {
      auto left = evaluate(*children.front());
      return truth(left) == (expression.kind == ExpressionKind::logical_or) ? left
                                                                            : evaluate(*children.back());
    }
    case ExpressionKind::compare:
      return evaluate_compare(expression);
    case ExpressionKind::binary: {
      const auto left = evaluate(*children.front());
      const auto right = evaluate(*children.back());
      budget_.set_line(expression.line);
      return binary(budget_, expression.op, left, right);
    }
    case ExpressionKind::concat:
      return evaluate_concat(expression);
    case ExpressionKind::conditional:
      return evaluate_conditional(expression);
    default:
      // A slice stands only inside of an item, a namespace's field only left of '='.
      budget_.fail("a slice stands outside of brackets");
  }
}

Value Interpreter::evaluate_name(const Expression& expression) {
  for (auto* scope = scope_; scope != nullptr; scope = scope->parent) {
    budget_.step();
    if (const auto* value = scope->find(expression.name)) return *value;
  }
  if (const auto found = variables_.find(expression.name); found != variables_.end()) return found->second;
  if (const auto found = globals_.find(expression.name); found != globals_.end()) return found->second;
  return make_undefined(expression.name);
}

Values Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  Values values;
  values.reserve(expressions.size());
  for (const auto& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

Value Interpreter::evaluate_dict(const Expression& expression) {
  DictBuilder builder(&budget_);
  for (std::size_t i = 0; i < expression.children.size(); i += 2) {
    const auto key = evaluate(*expression.children[i]);
    auto value = evaluate(*expression.children[i + 1]);
    budget_.set_line(expression.line);
    builder.set(key, std::move(value));
  }
  return builder.finish();
}

namespace {

bool is_constant(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::constant:
      return true;
    case ExpressionKind::list:
    case ExpressionKind::tuple:
    case ExpressionKind::dict:
    case ExpressionKind::slice:
      return std::all_of(expression.children.begin(), expression.children.end(),
                         [](const auto& child) { return child == nullptr || is_constant(*child); });
    default:
      return false;
  }
}

}  // namespace

Value Interpreter::evaluate_item(const Expression& expression) {
  const auto object = evaluate(*expression.children.front());
  const auto& index = *expression.children.back();
  if (index.kind != ExpressionKind::slice) {
    const auto key = evaluate(index);
    budget_.set_line(expression.line);
    return item(object, key);
  }
  const auto part = [this, &index](std::size_t place) {
    return index.children[place] ? evaluate(*index.children[place]) : Value();
  };
  const auto start = part(0);
  const auto stop = part(1);
  const auto step = part(2);
  budget_.set_line(expression.line);
  require_defined(budget_, object);
  if (auto result = slice(budget_, object, start, stop, step)) return std::move(*result);
  auto reason = fmt::format("'{} object' has no slices", type_name(object));
  // Jinja computes what is constant ahead, and there takes undefined for what fails.
  if (is_constant(*expression.children.front()) && is_constant(index)) return make_undefined_because(reason);
  budget_.fail(reason);
}

Value Interpreter::evaluate_call(const Expression& expression) {
  const auto& callee = *expression.children.front();
  if (callee.kind == ExpressionKind::attribute) {
    // A method is called where it is found: no function is made of it first.
    const auto object = evaluate(*callee.children.front());
    if (const auto* method = find_method(object, callee.name)) {
      auto arguments = evaluate_arguments(expression.arguments);
      budget_.set_line(expression.line);
      return (*method)(*this, object, arguments);
    }
    budget_.set_line(callee.line);
    const auto function = attribute(object, callee.name);
    auto arguments = evaluate_arguments(expression.arguments);
    budget_.set_line(expression.line);
    return call(function, arguments);
  }
  const auto function = evaluate(callee);
  auto arguments = evaluate_arguments(expression.arguments);
  budget_.set_line(expression.line);
  return call(function, arguments);
}

Value Interpreter::evaluate_compare(const Expression& expression) {
  auto left = evaluate(*expression.children.front());
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    auto right = evaluate(*expression.children[i + 1]);
    budget_.set_line(expression.line);
    if (!compare(budget_, expression.comparisons[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_concat(const Expression& expression) {
  TextBuilder out(budget_);
  for (const auto& child : expression.children) append_text(out, budget_, evaluate(*child));
  return make_string(&budget_, out.take());
}

Value Interpreter::evaluate_conditional(const Expression& expression) {
  const auto& children = expression.children;
  if (truth(evaluate(*children[0]))) return evaluate(*children[1]);
  if (children[2]) return evaluate(*children[2]);
  return make_undefined_because(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined",
                  expression.line));
}

Value Interpreter::evaluate_filter(const Expression& expression, const Value* subject) {
  const auto& inner = expression.children.front();
  Value value;
  if (!inner) {
    value = *subject;
  } else if (subject != nullptr) {
    value = evaluate_filter(*inner, subject);
  } else {
    value = evaluate(*inner);
  }
  auto arguments = evaluate_arguments(expression.arguments);
  budget_.set_line(expression.line);
  return call_filter(expression.name, value, arguments);
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments result;
  result.positional = evaluate_all(arguments.positional);
  for (const auto& [name, expression] : arguments.named)
    result.named.emplace_back(name, evaluate(*expression));
  if (arguments.spread) {
    for (auto& value : collect(budget_, evaluate(*arguments.spread)))
      result.positional.push_back(std::move(value));
  }
  if (arguments.named_spread) {
    const auto names = evaluate(*arguments.named_spread);
    if (!names.is(Kind::dict)) {
      budget_.fail(fmt::format("** is followed by a {}; expected a dict", type_name(names)));
    }
    for (const auto& [key, value] : names.dict().entries) {
      if (!key.is_string()) budget_.fail("** is followed by a dict with a key that is no string");
      result.named.emplace_back(key.text().bytes(), value);
    }
  }
  return result;
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  const DepthGuard depth(budget_);
  budget_.step();
  if (callee.is(Kind::function)) return callee.function().body(*this, arguments);
  if (callee.is(Kind::loop)) {
    const Bound bound(budget_, "loop", arguments, {"iterable"}, 1);
    auto& loop = callee.loop();
    if (!loop.recurse) {
      budget_.fail("loop() is called, but the loop is not marked 'recursive': {% for … in … recursive %}");
    }
    // A copy: the loop may end while it runs.
    const auto recurse = loop.recurse;
    return recurse(bound[0]);
  }
  require_defined(budget_, callee);
  budget_.fail(fmt::format("a {} cannot be called", type_name(callee)));
}

Value Interpreter::call_filter(const std::string& name, const Value& subject, Arguments& arguments) {
  const auto filter = find_filter(name);
  if (filter == nullptr) budget_.fail(unknown_filter(name));
  return filter(*this, subject, arguments);
}

bool Interpreter::call_test(const std::string& name, const Value& subject, Arguments& arguments) {
  const auto test = find_test(name);
  if (test == nullptr) budget_.fail(unknown_test(name));
  return test(*this, subject, arguments);
}

Value Interpreter::make_macro(const MacroDefinition& macro) {
  for (auto* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent)
    scope->captured = true;
  auto* const scope = scope_;
  budget_.take_memory(sizeof(FunctionObject));
  auto function = std::make_shared<FunctionObject>(
      macro.name, [&macro, scope](Interpreter& interpreter, Arguments& arguments) {
        return interpreter.call_macro(macro, scope, arguments);
      });
  Values parameters;
  for (const auto& parameter : macro.parameters) parameters.push_back(make_trusted(nullptr, parameter));
  auto& shown = function->attributes;
  shown.emplace_back("name", macro.name.empty() ? Value() : make_trusted(nullptr, macro.name));
  shown.emplace_back("arguments", jinja::make_tuple(nullptr, std::move(parameters)));
  shown.emplace_back("catch_kwargs", Value(macro.uses_kwargs));
  shown.emplace_back("catch_varargs", Value(macro.uses_varargs));
  shown.emplace_back("caller", Value(macro.uses_caller));
  return {Kind::function, std::move(function)};
}

void Interpreter::bind_parameters(const MacroDefinition& macro, Arguments& arguments) {
  const auto count = macro.parameters.size();
  const auto take_named = [&arguments](const std::string& name) {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&name](const auto& argument) { return argument.first == name; });
    if (found == arguments.named.end()) return Value::missing();
    auto value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto& name = macro.parameters[i];
    auto value = i < arguments.positional.size() ? arguments.positional[i] : take_named(name);
    const auto first_default = count - macro.defaults.size();
    if (value.is_missing() && i >= first_default) {
      value = evaluate(*macro.defaults[i - first_default]);
    } else if (value.is_missing()) {
      value = make_undefined_because(fmt::format("parameter '{}' was not provided", name));
    }
    scope_->set(name, std::move(value));
  }
  static const std::string caller = "caller";
  static const std::string varargs = "varargs";
  static const std::string kwargs = "kwargs";
  if (macro.uses_caller) {
    auto value = take_named(caller);
    scope_->set(caller, value.is_missing() ? make_undefined_because("No caller defined") : std::move(value));
  }
  if (macro.uses_kwargs) {
    DictBuilder builder(&budget_);
    for (auto& [name, value] : arguments.named) builder.set(make_trusted(&budget_, name), std::move(value));
    scope_->set(kwargs, builder.finish());
  } else if (!arguments.named.empty()) {
    const auto& name = arguments.named.front().first;
    budget_.fail(
        name == caller
            ? fmt::format("macro {} is used with a call block but never calls caller()", quote(macro.name))
            : fmt::format("macro {} takes no argument named {}", quote(macro.name), quote(name)));
  }
  const auto extra = arguments.positional.begin() +
                     static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
  if (macro.uses_varargs) {
    scope_->set(varargs, make_tuple(&budget_, Values(extra, arguments.positional.end())));
  } else if (extra != arguments.positional.end()) {
    budget_.fail(fmt::format("macro {} takes at most {} arguments, {} were given", quote(macro.name), count,
                             arguments.positional.size()));
  }
}

}  // namespace inferno::jinja
