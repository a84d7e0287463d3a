#pragma once

#include <ctime>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/ast.hpp"
#include "chat/jinja/budget.hpp"
#include "chat/jinja/function.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// Variables that a template starts with.
using Variables = std::unordered_map<std::string, Value>;

/// Runs one template once, within a budget.
class Interpreter {
 public:
  /// `variables` must outlive it; `now` is what strftime_now tells.
  Interpreter(const Limits& limits, const Variables& variables, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// The text that a template makes. Throws TemplateError, TemplateRefusal.
  Text run(const Body& body);

  Budget& budget() { return budget_; }
  std::time_t now() const { return now_; }

  /// object.name and object[key], as the sandbox allows them; undefined if there is nothing.
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value call(const Value& callee, Arguments& arguments);
  /// Throws for names that are no filter or test.
  Value call_filter(const std::string& name, const Value& subject, Arguments& arguments);
  bool call_test(const std::string& name, const Value& subject, Arguments& arguments);
  /// An empty namespace, which lives as long as the rendering.
  Value make_namespace();

 private:
  /// Names that a template gives values to. Scopes are kept until the end if a macro can still see them.
  struct Scope {
    Scope* parent = nullptr;
    std::vector<std::pair<const std::string*, Value>> names;
    bool captured = false;

    Value* find(const std::string& name);
    void set(const std::string& name, Value value);
  };
  class ScopeGuard;
  class Capture;
  enum class Flow : std::uint8_t { next, leave_loop, next_item };

  void emit(const Text& text);
  Flow execute(const Body& body);
  Flow execute(const Statement& statement);
  Flow execute_conditional(const Statement& statement);
  Flow execute_loop(const Statement& statement, const Value& items, std::uint32_t depth);
  /// Whether an iteration came to its end.
  bool execute_body_of_loop(const Statement& statement, LoopObject& loop, const Value& loop_value);
  Flow execute_with(const Statement& statement);
  Flow execute_scoped(const Body& body);
  void execute_call_block(const Statement& statement);
  /// What a block's body prints.
  Flow capture_body(const Statement& statement, Value& text);
  Flow execute_filter_block(const Statement& statement);
  Flow execute_assign_block(const Statement& statement);
  void assign(const Expression& target, const Value& value);

  Value evaluate(const Expression& expression);
  Value evaluate_composite(const Expression& expression);
  Value evaluate_name(const Expression& expression);
  Value evaluate_dict(const Expression& expression);
  Value evaluate_item(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_compare(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  Value evaluate_conditional(const Expression& expression);
  Value evaluate_filter(const Expression& expression, const Value* subject);
  Arguments evaluate_arguments(const CallArguments& arguments);
  Values evaluate_all(const std::vector<ExpressionPtr>& expressions);

  Value make_macro(const MacroDefinition& macro);
  Value call_macro(const MacroDefinition& macro, Scope* scope, Arguments& arguments);
  void bind_parameters(const MacroDefinition& macro, Arguments& arguments);

  Scope* new_scope(Scope* parent);

  Budget budget_;
  const Variables& variables_;
  Variables globals_;
  std::time_t now_;
  std::deque<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  std::deque<std::unique_ptr<NamespaceObject>> namespaces_;
  std::deque<std::shared_ptr<LoopObject>> loops_;  ///< that macros or namespaces may still know
  Scope* scope_ = nullptr;
  Scope* root_scope_ = nullptr;
  Text* output_ = nullptr;
  bool capturing_ = false;
};

}  // namespace inferno::jinja
