#include "chat/jinja/methods.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/string_methods.hpp"

namespace inferno::jinja {
namespace {

constexpr std::string_view kForbiddenOfList[] = {"append", "clear", "pop",    "reverse",
                                                 "insert", "sort",  "extend", "remove"};
constexpr std::string_view kForbiddenOfDict[] = {"clear", "pop", "popitem", "setdefault", "update"};

Value view_of(Interpreter& interpreter, Values items, std::string_view type) {
  return {Kind::view, std::make_shared<ListObject>(&interpreter.budget(), std::move(items), type)};
}

Value keys(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "keys", arguments, {});
  Values items;
  for (const auto& [key, value] : self.dict().entries) items.push_back(key);
  return view_of(interpreter, std::move(items), "dict_keys");
}

Value values(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "values", arguments, {});
  Values items;
  for (const auto& [key, value] : self.dict().entries) items.push_back(value);
  return view_of(interpreter, std::move(items), "dict_values");
}

Value items(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "items", arguments, {});
  Values pairs;
  for (const auto& [key, value] : self.dict().entries)
    pairs.push_back(make_tuple(&interpreter.budget(), {key, value}));
  return view_of(interpreter, std::move(pairs), "dict_items");
}

Value get(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "get", arguments, {"key", "default"}, 1);
  if (!hash_of(bound[0]))
    budget.fail(fmt::format("get(): a {} cannot be a key of a dict", type_name(bound[0])));
  const auto* value = self.dict().find(bound[0]);
  if (value != nullptr) return *value;
  return bound.has(1) ? bound[1] : Value();
}

Value copy(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "copy", arguments, {});
  return self;  // nothing can be changed, so a copy is the same
}

Value count(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "count", arguments, {"value"}, 1);
  const auto& list = self.list().items;
  return Value(static_cast<std::int64_t>(std::count_if(
      list.begin(), list.end(), [&](const Value& item) { return equals(&budget, item, bound[0]); })));
}

Value index(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "index", arguments, {"value", "start", "stop"}, 1);
  const auto& list = self.list().items;
  const auto length = static_cast<std::int64_t>(list.size());
  const auto clamp = [length](std::int64_t place) {
    return std::clamp<std::int64_t>(place < 0 ? place + length : place, 0, length);
  };
  const auto stop = clamp(bound.integer(2, length));
  for (auto place = clamp(bound.integer(1, 0)); place < stop; ++place) {
    if (equals(&budget, list[static_cast<std::size_t>(place)], bound[0])) return Value(place);
  }
  budget.fail("index(): the value is not in the list");
}

Value is_whole(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "is_integer", arguments, {});
  return Value(std::isfinite(self.real()) && std::floor(self.real()) == self.real());
}

Value bit_length(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "bit_length", arguments, {});
  auto rest = static_cast<std::uint64_t>(self.integer());
  if (self.integer() < 0) rest = 0 - rest;
  std::int64_t bits = 0;
  for (; rest != 0; rest >>= 1U) ++bits;
  return Value(bits);
}

constexpr NamedMethod kMethodsOfDict[] = {
    {"get", get}, {"items", items}, {"keys", keys}, {"values", values}, {"copy", copy},
};
constexpr NamedMethod kMethodsOfList[] = {{"index", index}, {"count", count}, {"copy", copy}};
constexpr NamedMethod kMethodsOfTuple[] = {{"index", index}, {"count", count}};
constexpr NamedMethod kMethodsOfReal[] = {{"is_integer", is_whole}};
constexpr NamedMethod kMethodsOfInteger[] = {{"bit_length", bit_length}};

template <std::size_t Size>
bool is_among(const std::string_view (&names)[Size], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

const Method* find_method(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::dict:
      return find_in(kMethodsOfDict, name);
    case Kind::list:
      return find_in(kMethodsOfList, name);
    case Kind::tuple:
      return find_in(kMethodsOfTuple, name);
    case Kind::real:
      return find_in(kMethodsOfReal, name);
    case Kind::integer:
    case Kind::boolean:
      return find_in(kMethodsOfInteger, name);
    default:
      return nullptr;
  }
}

bool is_forbidden_method(const Value& value, std::string_view name) {
  return (value.is(Kind::list) && is_among(kForbiddenOfList, name)) ||
         (value.is(Kind::dict) && is_among(kForbiddenOfDict, name));
}

}  // namespace inferno::jinja
