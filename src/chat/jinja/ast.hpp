#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/operators.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

/// (a, b, c=d, *e, **f)
struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        ///< nullptr if there is none
  ExpressionPtr named_spread;  ///< nullptr if there is none
};

enum class ExpressionKind : std::uint8_t {
  constant,         // constant
  name,             // name
  list,             // children
  tuple,            // children
  dict,             // children: key, value, key, value, ...
  attribute,        // child . name
  namespace_field,  // name . field; only as a target
  item,             // child [ child ]
  slice,            // children: start, stop, step, each may be nullptr
  call,             // child ( arguments )
  filter,           // child | name ( arguments ); the child is nullptr in filter blocks
  test,             // child is name ( arguments )
  negate,           // - child
  plus,             // + child
  logical_not,      // not child
  logical_and,      // child and child
  logical_or,       // child or child
  compare,          // child, then comparisons with the further children
  binary,           // child op child
  concat,           // children joined by ~
  conditional,      // child if child else child, which may be nullptr: test, then, otherwise
};

struct Expression {
  ExpressionKind kind = ExpressionKind::constant;
  std::uint32_t line = 1;
  std::uint32_t depth = 1;  ///< of the tree below
  std::string name;
  std::string field;
  Value constant;
  std::vector<ExpressionPtr> children;
  CallArguments arguments;
  std::vector<Comparison> comparisons;
  Operator op = Operator::add;
};

enum class StatementKind : std::uint8_t {
  data,          // text
  output,        // expressions
  conditional,   // expressions[i] guards branches[i]; a branch more than expressions is the else
  loop,          // target, iterable, test, branches: body, else
  assign,        // target = value
  assign_block,  // target, filter, body
  with,          // targets, expressions, body
  macro,         // macro
  call_block,    // macro is the body, value the call
  filter_block,  // filter, body
  scope,         // body in a scope of its own: {% generation %}
  block,         // body in the scope of the template: {% block %}
  loop_break,
  loop_continue,
};

struct Statement;
using StatementPtr = std::unique_ptr<const Statement>;
using Body = std::vector<StatementPtr>;

struct MacroDefinition {
  std::string name;  ///< empty for the body of a call block
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults;  ///< of the last parameters
  Body body;
  // Whether the body uses these names: only then may such arguments be given.
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Statement {
  StatementKind kind = StatementKind::data;
  std::uint32_t line = 1;
  Value text;
  std::vector<ExpressionPtr> targets;
  std::vector<ExpressionPtr> expressions;
  std::vector<Body> branches;
  ExpressionPtr value;   ///< assigned, gone through, called
  ExpressionPtr test;    ///< of a loop; nullptr if there is none
  ExpressionPtr filter;  ///< of a block; nullptr if there is none
  std::unique_ptr<const MacroDefinition> macro;
  bool recursive = false;
};

}  // namespace inferno::jinja
