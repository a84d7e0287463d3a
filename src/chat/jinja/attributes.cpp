// object.name and object[key].

#include <fmt/format.h>
#include <optional>
#include <utility>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/loop.hpp"
#include "chat/jinja/methods.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/sequence.hpp"
#include "platform/quote.hpp"

namespace inferno::jinja {
namespace {

Value unsafe(const Value& object, std::string_view name) {
  return make_undefined_because(fmt::format(
      "access to attribute {} of a {} is not safe; templates may only read", quote(name), type_name(object)));
}

/// What the object's type has under this name, items aside.
std::optional<Value> own_attribute(const Value& object, std::string_view name) {
  if (const auto* method = find_method(object, name)) {
    const auto body = [object, method = *method](Interpreter& interpreter, Arguments& arguments) {
      return method(interpreter, object, arguments);
    };
    return Value(Kind::function,
                 std::make_shared<FunctionObject>(std::string(name), body, value_depth(object)));
  }
  if (is_forbidden_method(object, name)) return unsafe(object, name);
  switch (object.kind()) {
    case Kind::name_space:
      if (const auto* value = object.name_space().find(name)) return *value;
      break;
    case Kind::loop:
      return object.loop().attribute(name);
    case Kind::function:
      for (const auto& [key, value] : object.function().attributes) {
        if (key == name) return value;
      }
      break;
    case Kind::tuple:
      // What groupby gives.
      if (object.list().type == "_GroupTuple" && name == "grouper") return object.list().items[0];
      if (object.list().type == "_GroupTuple" && name == "list") return object.list().items[1];
      break;
    case Kind::range:
      if (name == "start") return Value(object.range().start);
      if (name == "stop") return Value(object.range().stop);
      if (name == "step") return Value(object.range().step);
      break;
    case Kind::boolean:
    case Kind::integer:
      if (name == "real" || name == "numerator") return Value(object.integer());
      if (name == "imag") return Value(std::int64_t{0});
      if (name == "denominator") return Value(std::int64_t{1});
      break;
    case Kind::real:
      if (name == "real") return object;
      if (name == "imag") return Value(0.0);
      break;
    default:
      break;
  }
  return std::nullopt;
}

bool begins_with(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

Value no_attribute(const Value& object, std::string_view name) {
  return make_undefined_because(
      fmt::format("'{} object' has no attribute {}", type_name(object), quote(name)));
}

}  // namespace

Value Interpreter::attribute(const Value& object, std::string_view name) {
  budget_.step();
  require_defined(budget_, object);
  // Every Python object has attributes with two underscores, and the sandbox shows none.
  if (begins_with(name, "__")) return unsafe(object, name);
  if (!begins_with(name, "_")) {
    if (auto own = own_attribute(object, name)) return std::move(*own);
  }
  if (object.is(Kind::dict)) {
    if (const auto* value = object.dict().find(name)) return *value;
  }
  return no_attribute(object, name);
}

Value Interpreter::item(const Value& object, const Value& key) {
  budget_.step();
  require_defined(budget_, object);
  if (object.is(Kind::dict)) {
    if (const auto* value = object.dict().find(key)) return *value;
  } else if (key.is_integral()) {
    if (auto value = element(budget_, object, key.integer())) return std::move(*value);
    return make_undefined_because(
        fmt::format("'{} object' has no element {}", type_name(object), key.integer()));
  }
  if (key.is_string()) {
    const auto& name = key.text().bytes();
    if (begins_with(name, "__")) return unsafe(object, name);
    if (!begins_with(name, "_")) {
      if (auto own = own_attribute(object, name)) return std::move(*own);
    }
    return no_attribute(object, name);
  }
  return make_undefined_because(fmt::format("'{} object' has no such element", type_name(object)));
}

}  // namespace inferno::jinja
