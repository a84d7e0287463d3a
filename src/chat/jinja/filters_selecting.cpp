// map, select, reject and their kin: filters that call filters and tests by name.

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/sequence.hpp"
#include "platform/quote.hpp"

namespace inferno::jinja {
namespace {

Value map(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  Values results;
  if (!truth(subject)) return make_generator(budget, {});
  const bool by_attribute = arguments.positional.empty() &&
                            std::any_of(arguments.named.begin(), arguments.named.end(),
                                        [](const auto& argument) { return argument.first == "attribute"; });
  Iteration items(budget, subject);
  if (by_attribute) {
    const Bound bound(budget, "map", arguments, {"attribute", "default"});
    const auto fallback = bound.has(1) ? bound[1] : Value();
    while (const auto item = items.next())
      results.push_back(attribute_path(interpreter, *item, bound[0], fallback));
    return make_generator(budget, std::move(results));
  }
  if (arguments.positional.empty()) budget.fail("map needs the name of a filter, or attribute=…");
  const auto name = arguments.positional.front();
  if (!name.is_string()) budget.fail("map needs the name of a filter as a string");
  const Arguments rest{Values(arguments.positional.begin() + 1, arguments.positional.end()), arguments.named};
  while (const auto item = items.next()) {
    auto own = rest;
    results.push_back(interpreter.call_filter(name.text().bytes(), *item, own));
  }
  return make_generator(budget, std::move(results));
}

template <bool ByAttribute, bool Keep>
Value choose(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  if (!truth(subject)) return make_generator(budget, {});
  const std::size_t used = ByAttribute ? 1 : 0;
  if (arguments.positional.size() < used)
    budget.fail("selectattr and rejectattr need the name of an attribute");
  const bool has_test = arguments.positional.size() > used;
  if (has_test && !arguments.positional[used].is_string()) budget.fail("a test is named by a string");
  Arguments rest;
  if (has_test) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(used) + 1,
                           arguments.positional.end());
    rest.named = arguments.named;
  }
  Values chosen;
  Iteration items(budget, subject);
  while (auto item = items.next()) {
    const auto value = ByAttribute ? attribute_path(interpreter, *item, arguments.positional[0]) : *item;
    auto own = rest;
    const bool passed = has_test
                            ? interpreter.call_test(arguments.positional[used].text().bytes(), value, own)
                            : truth(value);
    if (passed == Keep) chosen.push_back(std::move(*item));
  }
  return make_generator(budget, std::move(chosen));
}

constexpr NamedFilter kFilters[] = {
    {"map", map},
    {"select", choose<false, true>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<true, false>},
};

}  // namespace

Filter find_selecting_filter(std::string_view name) {
  return find_in(kFilters, name);
}

Value attribute_path(Interpreter& interpreter, const Value& item, const Value& path, const Value& fallback) {
  auto value = item;
  const auto step = [&](const Value& key) {
    value = interpreter.item(value, key);
    if (value.is_undefined() && !fallback.is_none()) value = fallback;
  };
  if (!path.is_string()) {
    step(path);
    return value;
  }
  const auto& names = path.text().bytes();
  for (std::size_t start = 0; start <= names.size();) {
    const auto end = std::min(names.find('.', start), names.size());
    const auto name = std::string_view(names).substr(start, end - start);
    const bool is_index = !name.empty() && name.size() < 10 &&
                          std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    step(is_index ? Value(static_cast<std::int64_t>(std::stoll(std::string(name))))
                  : make_trusted(&interpreter.budget(), name));
    start = end + 1;
  }
  return value;
}

}  // namespace inferno::jinja
