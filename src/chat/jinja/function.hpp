#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/value.hpp"

namespace inferno::jinja {

class Interpreter;

/// Arguments of a call, evaluated.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

/// Something that can be called.
struct FunctionObject : Object {
  using Body = std::function<Value(Interpreter&, Arguments&)>;
  FunctionObject(std::string the_name, Body the_body, std::uint32_t the_depth = 0)
      : name(std::move(the_name)), body(std::move(the_body)), depth(the_depth) {}
  std::string name;
  Body body;
  std::uint32_t depth;  ///< nesting of what it holds
  /// What a macro shows of itself: name, arguments, …
  std::vector<std::pair<std::string, Value>> attributes;
};

Value make_function(std::string name, FunctionObject::Body body);

/// Puts arguments in the order of a signature, as Python binds them; what was not given is missing.
/// Throws TemplateError for arguments that are too many, too few or unknown.
class Bound {
 public:
  Bound(const Budget& budget, std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> parameters, std::size_t required = 0);

  const Value& operator[](std::size_t index) const { return values_[index]; }
  bool has(std::size_t index) const { return !values_[index].is_missing(); }
  /// Given and not none.
  bool is_set(std::size_t index) const { return has(index) && !values_[index].is_none(); }
  /// Throws if the argument is not of the type; `fallback` if it was not given.
  std::int64_t integer(std::size_t index, std::int64_t fallback) const;
  bool boolean(std::size_t index, bool fallback) const;
  const Text& text(std::size_t index) const;  ///< must be a string

 private:
  const Budget& budget_;
  std::string_view function_;
  std::vector<std::string_view> parameters_;
  Values values_;
};

}  // namespace inferno::jinja
