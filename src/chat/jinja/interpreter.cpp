// Statements: what a template prints, and the names it gives values to.

#include "chat/jinja/interpreter.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "chat/jinja/globals.hpp"
#include "chat/jinja/loop.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"

namespace inferno::jinja {

/// Goes into a scope and back out of it.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* scope)
      : interpreter_(interpreter), scope_(scope), outer_(interpreter.scope_) {
    interpreter_.scope_ = scope;
  }
  ~ScopeGuard() {
    interpreter_.scope_ = outer_;
    if (scope_->captured) return;
    scope_->names.clear();
    interpreter_.free_scopes_.push_back(scope_);
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* scope_;
  Scope* outer_;
};

/// Collects what is printed instead of printing it.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), outer_(interpreter.output_), was_capturing_(interpreter.capturing_) {
    interpreter_.output_ = &text_;
    interpreter_.capturing_ = true;
  }
  ~Capture() {
    interpreter_.budget_.give_memory(text_.size());
    interpreter_.output_ = outer_;
    interpreter_.capturing_ = was_capturing_;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Value text() const { return make_string(&interpreter_.budget_, text_); }

 private:
  Interpreter& interpreter_;
  Text text_;
  Text* outer_;
  bool was_capturing_;
};

namespace {

/// A loop may have been given to itself by loop.changed(loop): closed, it holds nothing.
class LoopCloser {
 public:
  explicit LoopCloser(LoopObject& loop) : loop_(loop) {}
  ~LoopCloser() { loop_.close(); }
  LoopCloser(const LoopCloser&) = delete;
  LoopCloser& operator=(const LoopCloser&) = delete;

 private:
  LoopObject& loop_;
};

}  // namespace

Value* Interpreter::Scope::find(const std::string& name) {
  for (auto& [key, value] : names) {
    if (*key == name) return &value;
  }
  return nullptr;
}

void Interpreter::Scope::set(const std::string& name, Value value) {
  if (auto* place = find(name)) {
    *place = std::move(value);
  } else {
    names.emplace_back(&name, std::move(value));
  }
}

Interpreter::Interpreter(const Limits& limits, const Variables& variables, std::time_t now)
    : budget_(limits), variables_(variables), globals_(make_globals()), now_(now) {}

Interpreter::~Interpreter() {
  // Values give their memory back to the budget, so they go first; and namespaces and scopes may hold loops
  // and each other's values.
  for (auto& loop : loops_) loop->close();
  for (auto& scope : scopes_) scope->names.clear();
  for (auto& name_space : namespaces_) name_space->attributes.clear();
}

Text Interpreter::run(const Body& body) {
  Text output;
  output_ = &output;
  root_scope_ = new_scope(nullptr);
  scope_ = root_scope_;
  execute(body);
  return output;
}

Interpreter::Scope* Interpreter::new_scope(Scope* parent) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    budget_.take_memory(sizeof(Scope));
    scope = scopes_.emplace_back(std::make_unique<Scope>()).get();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

Value Interpreter::make_namespace() {
  budget_.take_memory(sizeof(NamespaceObject));
  auto& object = *namespaces_.emplace_back(std::make_unique<NamespaceObject>());
  // Namespaces can hold themselves, so they are not counted but kept to the end.
  return {Kind::name_space, std::shared_ptr<const Object>(std::shared_ptr<const Object>(), &object)};
}

void Interpreter::emit(const Text& text) {
  budget_.step_bytes(text.size());
  if (!capturing_ && text.size() > budget_.limits().output - output_->size()) {
    budget_.fail(
        fmt::format("the prompt grows beyond {} bytes; shorten the messages or look for a loop that prints "
                    "too much",
                    budget_.limits().output));
  }
  budget_.take_memory(text.size());
  output_->append(text);
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& statement : body) {
    const auto flow = execute(*statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  budget_.set_line(statement.line);
  budget_.step();
  switch (statement.kind) {
    case StatementKind::data:
      emit(statement.text.text());
      return Flow::next;
    case StatementKind::output:
      for (const auto& expression : statement.expressions) {
        const auto value = evaluate(*expression);
        budget_.set_line(expression->line);
        emit(to_text(budget_, value));
      }
      return Flow::next;
    case StatementKind::conditional:
      return execute_conditional(statement);
    case StatementKind::loop:
      return execute_loop(statement, evaluate(*statement.value), 0);
    case StatementKind::assign:
      assign(*statement.targets.front(), evaluate(*statement.value));
      return Flow::next;
    case StatementKind::assign_block:
      return execute_assign_block(statement);
    case StatementKind::with:
      return execute_with(statement);
    case StatementKind::macro:
      scope_->set(statement.macro->name, make_macro(*statement.macro));
      return Flow::next;
    case StatementKind::call_block:
      execute_call_block(statement);
      return Flow::next;
    case StatementKind::filter_block:
      return execute_filter_block(statement);
    case StatementKind::scope:
      return execute_scoped(statement.branches.front());
    case StatementKind::block: {
      const DepthGuard depth(budget_);
      const ScopeGuard scope(*this, new_scope(root_scope_));
      return execute(statement.branches.front());
    }
    case StatementKind::loop_break:
      return Flow::leave_loop;
    case StatementKind::loop_continue:
      return Flow::next_item;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_conditional(const Statement& statement) {
  const DepthGuard depth(budget_);
  std::size_t branch = 0;
  while (branch < statement.expressions.size() && !truth(evaluate(*statement.expressions[branch]))) ++branch;
  return branch < statement.branches.size() ? execute(statement.branches[branch]) : Flow::next;
}

Interpreter::Flow Interpreter::execute_scoped(const Body& body) {
  const DepthGuard depth(budget_);
  const ScopeGuard scope(*this, new_scope(scope_));
  return execute(body);
}

Interpreter::Flow Interpreter::execute_loop(const Statement& statement, const Value& items,
                                            std::uint32_t depth) {
  const DepthGuard guard(budget_);
  auto* const outer = scope_;
  LoopObject::Condition condition;
  if (statement.test) {
    condition = [this, &statement, outer, is_asked = false](const Value& item) mutable {
      if (std::exchange(is_asked, true)) budget_.fail("the condition of a loop asks the loop itself");
      const ScopeGuard scope(*this, new_scope(outer));
      assign(*statement.targets.front(), item);
      const bool holds = truth(evaluate(*statement.test));
      is_asked = false;
      return holds;
    };
  }
  const auto loop =
      std::make_shared<LoopObject>(budget_, collect(budget_, items), std::move(condition), depth);
  if (statement.recursive) {
    loop->recurse = [this, &statement, outer, depth](const Value& inner) {
      const Capture capture(*this);
      auto* const caller = std::exchange(scope_, outer);
      execute_loop(statement, inner, depth + 1);
      scope_ = caller;
      return capture.text();
    };
  }
  bool any = false;
  {
    const LoopCloser closer(*loop);
    any = execute_body_of_loop(statement, *loop, Value(Kind::loop, loop));
  }
  // Somebody else still knows it: then it is kept, empty, to the end.
  if (loop.use_count() > 1) {
    budget_.take_memory(sizeof(LoopObject));
    loops_.push_back(loop);
  }
  return any || statement.branches.size() == 1 ? Flow::next : execute_scoped(statement.branches[1]);
}

bool Interpreter::execute_body_of_loop(const Statement& statement, LoopObject& loop,
                                       const Value& loop_value) {
  bool any = false;
  static const std::string loop_name = "loop";
  while (const auto* const item = loop.advance()) {
    budget_.step();
    const ScopeGuard scope(*this, new_scope(scope_));
    scope_->set(loop_name, loop_value);
    assign(*statement.targets.front(), *item);
    const auto flow = execute(statement.branches.front());
    // As in Jinja an iteration that is left by break or continue does not count for the loop's else.
    any = any || flow == Flow::next;
    if (flow == Flow::leave_loop) break;
  }
  return any;
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement) {
  const DepthGuard depth(budget_);
  auto values = evaluate_all(statement.expressions);
  const ScopeGuard scope(*this, new_scope(scope_));
  for (std::size_t i = 0; i < values.size(); ++i) assign(*statement.targets[i], values[i]);
  return execute(statement.branches.front());
}

void Interpreter::execute_call_block(const Statement& statement) {
  const auto& expression = *statement.value;
  const auto callee = evaluate(*expression.children.front());
  auto arguments = evaluate_arguments(expression.arguments);
  arguments.named.emplace_back("caller", make_macro(*statement.macro));
  budget_.set_line(statement.line);
  emit(to_text(budget_, call(callee, arguments)));
}

Interpreter::Flow Interpreter::capture_body(const Statement& statement, Value& text) {
  const Capture capture(*this);
  const auto flow = execute_scoped(statement.branches.front());
  text = capture.text();
  return flow;
}

Interpreter::Flow Interpreter::execute_filter_block(const Statement& statement) {
  Value text;
  const auto flow = capture_body(statement, text);
  if (flow == Flow::next) emit(to_text(budget_, evaluate_filter(*statement.filter, &text)));
  return flow;
}

Interpreter::Flow Interpreter::execute_assign_block(const Statement& statement) {
  Value text;
  const auto flow = capture_body(statement, text);
  if (flow != Flow::next) return flow;
  if (statement.filter) text = evaluate_filter(*statement.filter, &text);
  assign(*statement.targets.front(), text);
  return flow;
}

Value Interpreter::call_macro(const MacroDefinition& macro, Scope* scope, Arguments& arguments) {
  const DepthGuard depth(budget_);
  const ScopeGuard guard(*this, new_scope(scope));
  bind_parameters(macro, arguments);
  const Capture capture(*this);
  execute(macro.body);
  return capture.text();
}

void Interpreter::assign(const Expression& target, const Value& value) {
  budget_.set_line(target.line);
  if (target.kind == ExpressionKind::name) {
    scope_->set(target.name, value);
    return;
  }
  if (target.kind == ExpressionKind::namespace_field) {
    const auto object = evaluate_name(target);
    if (!object.is(Kind::name_space)) {
      budget_.fail(fmt::format("{}.{} cannot be set: {} is a {}; expected a namespace(...)", target.name,
                               target.field, target.name, type_name(object)));
    }
    auto& name_space = object.name_space();
    if (auto* place = name_space.find(target.field)) {
      *place = value;
    } else {
      budget_.take_memory(sizeof(Value) + target.field.size());
      name_space.attributes.emplace_back(target.field, value);
    }
    return;
  }
  const auto items = collect(budget_, value);
  if (items.size() != target.children.size()) {
    budget_.fail(fmt::format("{} values cannot be given to {} names", items.size(), target.children.size()));
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.children[i], items[i]);
}

}  // namespace inferno::jinja
