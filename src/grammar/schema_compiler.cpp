#include "grammar/schema_compiler.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <unordered_set>

#include "grammar/grammar.hpp"
#include "grammar/json_values.hpp"
#include "grammar/schema_keywords.hpp"
#include "platform/quote.hpp"

namespace inferno::grammar {
namespace {

/// Values of one schema, at most: memory.
constexpr std::size_t kMaxValues = 200'000;

/// Whether some of the schemas is `false`, on purpose.
bool is_false(const SchemaList& schemas) {
  return std::any_of(schemas.begin(), schemas.end(),
                     [](const Json* schema) { return schema->is(JsonKind::boolean) && !schema->boolean; });
}

/// The largest of a keyword's counts and where it stands.
std::pair<std::uint32_t, const Json*> largest(const SchemaList& members, std::string_view keyword) {
  std::pair<std::uint32_t, const Json*> out{0, nullptr};
  for (const auto* member : members) {
    const auto count = count_of(*member, keyword);
    if (count && (out.second == nullptr || *count > out.first)) out = {*count, member->find(keyword)};
  }
  return out;
}

std::pair<std::uint32_t, const Json*> smallest(const SchemaList& members, std::string_view keyword) {
  std::pair<std::uint32_t, const Json*> out{kUnlimited, nullptr};
  for (const auto* member : members) {
    const auto count = count_of(*member, keyword);
    if (count && *count < out.first) out = {*count, member->find(keyword)};
  }
  return out;
}

void expect_order(const std::pair<std::uint32_t, const Json*>& least,
                  const std::pair<std::uint32_t, const Json*>& most) {
  if (least.second == nullptr || most.second == nullptr || least.first <= most.first) return;
  throw SchemaError(least.second->path(), fmt::format("at least {} and at most {}: nothing matches both",
                                                      least.second->text, most.second->text));
}

void expect_reachable(const std::pair<std::uint32_t, const Json*>& least, std::uint32_t limit) {
  if (least.second == nullptr || least.first <= limit) return;
  throw SchemaError(
      least.second->path(),
      fmt::format("at least {}: no answer can be that long; expected at most {}", least.second->text, limit));
}

/// The bounds of all members, and the keyword that set one last.
struct NumberBounds {
  NumberMachine::Bounds bounds;
  const Json* keyword = nullptr;
};

void add_low(NumberBounds& found, const Json& keyword, bool exclusive) {
  found.keyword = &keyword;
  const auto number = keyword.number();
  if (number.at_least_power(NumberMachine::kIntegerDigits)) {
    // Below every number that is written, or above.
    if (number.is_negative()) return;
    throw SchemaError(keyword.path(),
                      fmt::format("expected a bound below 10^{}", NumberMachine::kIntegerDigits));
  }
  const auto low = number.scaled(NumberMachine::kFractionDigits);
  if (!low) {
    throw SchemaError(keyword.path(), fmt::format("expected a number of at most {} digits behind the point",
                                                  NumberMachine::kFractionDigits));
  }
  found.bounds.low = std::max(found.bounds.low.value_or(*low), *low + (exclusive ? 1 : 0));
}

void add_high(NumberBounds& found, const Json& keyword, bool exclusive) {
  found.keyword = &keyword;
  const auto number = keyword.number();
  if (number.at_least_power(NumberMachine::kIntegerDigits)) {
    if (!number.is_negative()) return;
    throw SchemaError(keyword.path(),
                      fmt::format("expected a bound above -10^{}", NumberMachine::kIntegerDigits));
  }
  const auto high = number.scaled(NumberMachine::kFractionDigits);
  if (!high) {
    throw SchemaError(keyword.path(), fmt::format("expected a number of at most {} digits behind the point",
                                                  NumberMachine::kFractionDigits));
  }
  found.bounds.high = std::min(found.bounds.high.value_or(*high), *high - (exclusive ? 1 : 0));
}

void add_multiple(NumberBounds& found, const Json& keyword) {
  const auto number = keyword.number();
  const auto unit = number.scaled(NumberMachine::kFractionDigits);
  if (!unit || number.at_least_power(NumberMachine::kIntegerDigits)) {
    throw SchemaError(keyword.path(),
                      fmt::format("expected a number below 10^{} with at most {} digits behind the "
                                  "point",
                                  NumberMachine::kIntegerDigits, NumberMachine::kFractionDigits));
  }
  if (found.bounds.multiple_of && *found.bounds.multiple_of != *unit)
    throw SchemaError(keyword.path(), "two different multipleOf for one number are not supported");
  found.keyword = &keyword;
  found.bounds.multiple_of = *unit;
  found.bounds.fraction_digits = static_cast<int>(number.fraction_digits());
}

void add_range(NumberBounds& found, const Json& keyword, const IntegerRange& range) {
  found.keyword = &keyword;
  constexpr auto kUnit = [] {
    Int128 unit = 1;
    for (int i = 0; i < NumberMachine::kFractionDigits; ++i) unit *= 10;
    return unit;
  }();
  found.bounds.low = std::max(found.bounds.low.value_or(range.least * kUnit), range.least * kUnit);
  found.bounds.high = std::min(found.bounds.high.value_or(range.most * kUnit), range.most * kUnit);
}

NumberBounds bounds_of(const SchemaList& members) {
  NumberBounds found;
  for (const auto* member : members) {
    if (const auto* keyword = member->find("minimum"))
      add_low(found, *keyword, is_exclusive(*member, "exclusiveMinimum"));
    if (const auto* keyword = exclusive_bound(*member, "exclusiveMinimum")) add_low(found, *keyword, true);
    if (const auto* keyword = member->find("maximum"))
      add_high(found, *keyword, is_exclusive(*member, "exclusiveMaximum"));
    if (const auto* keyword = exclusive_bound(*member, "exclusiveMaximum")) add_high(found, *keyword, true);
    if (const auto range = integer_range(*member)) add_range(found, *member->find("format"), *range);
    if (const auto* keyword = member->find("multipleOf")) add_multiple(found, *keyword);
  }
  return found;
}

}  // namespace

ValueId SchemaCompiler::compile(const SchemaList& schemas) {
  const auto value = value_of(schemas);
  while (!pending_.empty()) {
    const auto next = std::move(pending_.back());
    pending_.pop_back();
    fill(next);
  }
  return value;
}

/// To be filled in later: schemas may be as deep as they like.
ValueId SchemaCompiler::value_of(const SchemaList& schemas) {
  budget_.spend(1 + schemas.size());
  if (schemas.empty()) return any_json(program_);
  const auto known = values_.find(schemas);
  if (known != values_.end()) return known->second;
  if (program_.values.size() >= kMaxValues)
    throw SchemaError(schemas.front()->path(),
                      fmt::format("more than {} different values; expected fewer", kMaxValues));
  const auto value = program_.add_value({});
  values_.emplace(schemas, value);
  paths_.emplace(value, schemas.front()->path());
  pending_.push_back({value, schemas});
  return value;
}

void SchemaCompiler::fill(const Pending& pending) {
  std::vector<MachineId> machines;
  for (const auto& members : flattener_.flatten(pending.schemas)) {
    budget_.spend(1 + members.size());
    if (members.empty()) {
      const auto& any = program_.values[any_json(program_)].machines;
      machines.insert(machines.end(), any.begin(), any.end());
    } else {
      add_machines(members, machines);
    }
  }
  if (machines.empty() && !is_false(pending.schemas)) {
    throw SchemaError(paths_.at(pending.value),
                      "no value matches this (together with what else must hold here)");
  }
  std::vector<MachineId> unique;
  std::unordered_set<MachineId> seen;
  for (const auto machine : machines) {
    if (seen.insert(machine).second) unique.push_back(machine);
  }
  program_.values[pending.value].machines = std::move(unique);
}

void SchemaCompiler::add_machines(const SchemaList& members, std::vector<MachineId>& machines) {
  if (add_constants(members, machines)) return;
  const auto types = written_types(members);
  std::vector<std::string> names;
  if ((types & kTypeNull) != 0) names.insert(names.end(), {"null"});
  if ((types & kTypeBoolean) != 0) names.insert(names.end(), {"true", "false"});
  add_literals(std::move(names), machines);
  if ((types & kTypeInteger) != 0) machines.push_back(number(members, (types & kTypeFraction) == 0));
  if ((types & kTypeString) != 0) machines.push_back(text(members));
  if ((types & kTypeArray) != 0) machines.push_back(array(members));
  if ((types & kTypeObject) != 0) machines.push_back(object(members));
}

/// enum and const; false if there is neither.
bool SchemaCompiler::add_constants(const SchemaList& members, std::vector<MachineId>& machines) {
  std::vector<const Json*> values;
  bool found = false;
  for (const auto* member : members) {
    const auto* value = member->find("const");
    const auto* list = member->find("enum");
    if (value == nullptr && list == nullptr) continue;
    found = true;
    if (value != nullptr) {
      values.push_back(value);
    } else {
      for (const auto& item : list->items) values.push_back(&item);
    }
    break;
  }
  if (!found) return false;
  std::vector<std::string> texts;
  for (const auto* value : values) {
    const bool fits = std::all_of(members.begin(), members.end(),
                                  [&](const Json* member) { return validator_.valid_here(*value, *member); });
    if (!fits) continue;
    switch (value->kind) {
      case JsonKind::null:
        texts.emplace_back("null");
        break;
      case JsonKind::boolean:
        texts.emplace_back(value->boolean ? "true" : "false");
        break;
      case JsonKind::number:
        texts.push_back(value->text);
        break;
      case JsonKind::string:
        texts.push_back(json_string(value->text));
        break;
      case JsonKind::array:
      case JsonKind::object:
        machines.push_back(constant(*value));
        break;
    }
  }
  add_literals(std::move(texts), machines);
  return true;
}

void SchemaCompiler::add_literals(std::vector<std::string> texts, std::vector<MachineId>& machines) {
  if (texts.empty()) return;
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  machines.push_back(program_.add(ChoiceMachine{std::move(texts)}));
}

/// An array or object that is this one, in the order and with the freedom of spacing that all have.
MachineId SchemaCompiler::constant(const Json& value) {
  budget_.spend(1 + value.items.size());
  if (value.is(JsonKind::array)) {
    ArrayMachine array;
    for (const auto& item : value.items) array.prefix.push_back(constant_value(item));
    array.least = array.most = static_cast<std::uint32_t>(value.items.size());
    return program_.add(std::move(array));
  }
  ObjectMachine object;
  for (const auto& item : value.items)
    object.properties.push_back({.value = constant_value(item), .required = true});
  index_properties(program_, object, value.keys);
  return program_.add(std::move(object));
}

ValueId SchemaCompiler::constant_value(const Json& value) {
  switch (value.kind) {
    case JsonKind::null:
      return literal(program_, "null");
    case JsonKind::boolean:
      return literal(program_, value.boolean ? "true" : "false");
    case JsonKind::number:
      return literal(program_, value.text);
    case JsonKind::string:
      return literal(program_, json_string(value.text));
    default:
      return program_.add_value({constant(value)});
  }
}

MachineId SchemaCompiler::number(const SchemaList& members, bool integer) {
  const auto found = bounds_of(members);
  const NumberMachine machine(integer, found.bounds);
  if (machine.empty()) {
    throw SchemaError(found.keyword->path(),
                      fmt::format("no {} matches this and the other bounds", integer ? "integer" : "number"));
  }
  return program_.add(machine);
}

MachineId SchemaCompiler::text(const SchemaList& members) {
  const auto least = largest(members, "minLength");
  const auto most = smallest(members, "maxLength");
  expect_order(least, most);
  expect_reachable(least, kMostNeededCharacters);
  const Json* pattern = nullptr;
  for (const auto* member : members) {
    for (const auto* name : {"pattern", "format"}) {
      const auto* keyword = text_restriction(*member, name);
      if (keyword == nullptr) continue;
      if (pattern != nullptr &&
          (pattern->text != keyword->text || pattern->parent->keys[pattern->index] != name)) {
        throw SchemaError(keyword->path(),
                          fmt::format("a second pattern or format for one string (the other is at {}) is not "
                                      "supported",
                                      pattern->path()));
      }
      pattern = keyword;
    }
  }
  TextMachine machine{.form = TextForm::json, .least = least.first, .most = most.first};
  if (pattern != nullptr) {
    auto dfa = std::make_shared<PatternDfa>(validator_.pattern(*pattern));
    budget_.spend(dfa->size());
    try {
      dfa->bound_lengths(least.first, most.first, budget_);
    } catch (const PatternError& error) {
      throw SchemaError(pattern->path(), error.what());
    }
    machine.form = TextForm::json_canonical;
    machine.pattern = std::move(dfa);
  }
  return program_.add(std::move(machine));
}

MachineId SchemaCompiler::array(const SchemaList& members) {
  const auto least = largest(members, "minItems");
  const auto most = smallest(members, "maxItems");
  expect_order(least, most);
  expect_reachable(least, kMostNeededItems);
  ArrayMachine machine{.prefix = {}, .items = kNone, .least = least.first, .most = most.first};
  std::size_t first_count = 0;
  bool others_given = false;
  for (const auto* member : members) {
    const auto* unique = member->find("uniqueItems");
    if (unique != nullptr && unique->boolean && machine.most > 1)
      throw SchemaError(unique->path(), "unique items are not supported");
    first_count = std::max(first_count, first_items(*member).size());
    others_given = others_given || other_items(*member) != nullptr;
  }
  for (std::size_t i = 0; i < first_count; ++i) {
    SchemaList item;
    for (const auto* member : members) {
      const auto first = first_items(*member);
      budget_.spend(1 + first.size());
      const auto* schema = i < first.size() ? first[i] : other_items(*member);
      if (schema != nullptr) item.push_back(schema);
    }
    machine.prefix.push_back(value_of(item));
  }
  // A list of first items is all there is, unless more is asked for.
  if (others_given || first_count == 0 || machine.least > first_count) {
    SchemaList item;
    for (const auto* member : members) {
      if (const auto* others = other_items(*member)) item.push_back(others);
    }
    machine.items = value_of(item);
  }
  return program_.add(std::move(machine));
}

/// What a property must be: by its name or, in members that do not name it, as any other.
ValueId SchemaCompiler::property_value(const SchemaList& members, const std::string& name) {
  SchemaList out;
  for (const auto* member : members) {
    const auto* properties = member->find("properties");
    const auto* schema = properties == nullptr ? nullptr : properties->find(name);
    if (schema == nullptr) schema = member->find("additionalProperties");
    if (schema != nullptr) out.push_back(schema);
  }
  return value_of(out);
}

void SchemaCompiler::add_properties(const SchemaList& members, ObjectMachine& machine,
                                    std::vector<std::string>& names) {
  std::set<std::string> required;
  std::vector<const std::string*> in_order;
  for (const auto* member : members) {
    const auto* list = member->find("required");
    if (list == nullptr) continue;
    for (const auto& name : list->items) {
      if (required.insert(name.text).second) in_order.push_back(&name.text);
    }
  }
  std::unordered_set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (!seen.insert(name).second) return;
    budget_.spend(10 + members.size());
    machine.properties.push_back(
        {.value = property_value(members, name), .required = required.contains(name)});
    names.push_back(name);
  };
  for (const auto* member : members) {
    const auto* properties = member->find("properties");
    if (properties == nullptr) continue;
    for (const auto& name : properties->keys) add(name);
  }
  for (const auto* name : in_order) add(*name);
}

MachineId SchemaCompiler::object(const SchemaList& members) {
  ObjectMachine machine;
  std::vector<std::string> names;
  add_properties(members, machine, names);
  // Others may come if the schema says so, or if it names none.
  SchemaList additional;
  bool names_any = false;
  for (const auto* member : members) {
    if (const auto* schema = member->find("additionalProperties")) additional.push_back(schema);
    const auto* properties = member->find("properties");
    names_any = names_any || (properties != nullptr && !properties->keys.empty());
  }
  if (!is_false(additional) && (!additional.empty() || !names_any)) machine.additional = value_of(additional);

  const auto required =
      static_cast<std::size_t>(std::count_if(machine.properties.begin(), machine.properties.end(),
                                             [](const auto& property) { return property.required; }));
  const auto least = largest(members, "minProperties");
  const auto most = smallest(members, "maxProperties");
  expect_order(least, most);
  if (least.second != nullptr && least.first > required) {
    throw SchemaError(least.second->path(),
                      fmt::format("supported only up to the number of required properties, {}", required));
  }
  if (most.second != nullptr && (machine.additional != kNone || most.first < names.size())) {
    throw SchemaError(most.second->path(),
                      "supported only where additionalProperties is false and all properties may be there");
  }
  index_properties(program_, machine, names);
  return program_.add(std::move(machine));
}

std::string SchemaCompiler::path_of(MachineId machine) const {
  for (const auto& [value, path] : paths_) {
    const auto& machines = program_.values[value].machines;
    if (std::find(machines.begin(), machines.end(), machine) != machines.end()) return path;
  }
  return {};
}

void SchemaCompiler::check_finite(ValueId value) const {
  std::set<ValueId> seen;
  std::string path;
  while (program_.value_heights[value] == kNone) {
    if (const auto known = paths_.find(value); known != paths_.end()) path = known->second;
    if (!seen.insert(value).second) {
      throw SchemaError(path,
                        fmt::format("every value contains another one without end, or more than {} objects "
                                    "and arrays in each other; expected a way to end, such as an optional "
                                    "property",
                                    kMaxNesting));
    }
    if (program_.values[value].machines.empty())
      throw SchemaError(path, "a value must be here, but nothing matches");
    const auto& machine = program_.machines[program_.values[value].machines.front()];
    ValueId below = kNone;
    const auto blame = [&](ValueId candidate) {
      if (candidate != kNone && below == kNone && program_.value_heights[candidate] == kNone)
        below = candidate;
    };
    if (machine.kind == MachineKind::object) {
      for (const auto& property : program_.objects[machine.index].properties) {
        if (property.required) blame(property.value);
      }
    } else if (machine.kind == MachineKind::array) {
      const auto& array = program_.arrays[machine.index];
      for (std::size_t i = 0; i < array.prefix.size() && i < array.least; ++i) blame(array.prefix[i]);
      blame(array.items);
    }
    if (below == kNone) {
      throw SchemaError(path,
                        fmt::format("every value has more than {} objects and arrays in each other; expected "
                                    "a flatter one",
                                    kMaxNesting));
    }
    value = below;
  }
}

}  // namespace inferno::grammar
