#include "grammar/schema_compiler.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <unordered_set>

#include "grammar/grammar.hpp"
#include "grammar/json_values.hpp"
#include "grammar/number_bounds.hpp"
#include "grammar/pattern_product.hpp"
#include "grammar/schema_keywords.hpp"
#include "platform/quote.hpp"

namespace inferno::grammar {
namespace {

/// Values of one schema, at most: memory.
constexpr std::size_t kMaxValues = 200'000;

/// Whether some of the schemas is `false`, on purpose.
bool is_false(const SchemaList& schemas) {
  return std::any_of(schemas.begin(), schemas.end(),
                     [](const Json* schema) { return matches_nothing(*schema); });
}

/// A constant that is no array or object, as it is written.
std::string scalar_text(const Json& value) {
  switch (value.kind) {
    case JsonKind::boolean:
      return value.boolean ? "true" : "false";
    case JsonKind::number:
      return value.text;
    case JsonKind::string:
      return json_string(value.text);
    default:
      return "null";
  }
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

/// `false`, for what a schema rules out without saying so there.
const Json& nothing() {
  static const Json kNothing{.kind = JsonKind::boolean};
  return kNothing;
}

/// What matches one of these texts and nothing else.
PatternDfa exact_texts(const std::vector<std::string>& texts, Budget& budget) {
  std::string pattern;
  for (const auto& text : texts) {
    if (&text != &texts.front()) pattern += '|';
    for (const char c : text) {
      if (std::string_view("^$\\.*+?()[]{}|/").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return {parse_pattern(pattern), PatternDfa::Match::whole, budget};
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

/// The values of enum and const that all else lets be; nullopt if there is neither.
std::optional<std::vector<const Json*>> SchemaCompiler::constants_of(const SchemaList& members) {
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
  if (!found) return std::nullopt;
  std::erase_if(values, [&](const Json* value) {
    return !std::all_of(members.begin(), members.end(),
                        [&](const Json* member) { return validator_.valid_here(*value, *member); });
  });
  return values;
}

/// enum and const; false if there is neither.
bool SchemaCompiler::add_constants(const SchemaList& members, std::vector<MachineId>& machines) {
  const auto values = constants_of(members);
  if (!values) return false;
  std::vector<std::string> texts;
  for (const auto* value : *values) {
    if (value->is(JsonKind::array) || value->is(JsonKind::object)) {
      machines.push_back(constant(*value));
    } else {
      texts.push_back(scalar_text(*value));
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
  if (value.is(JsonKind::array) || value.is(JsonKind::object)) return program_.add_value({constant(value)});
  return literal(program_, scalar_text(value));
}

MachineId SchemaCompiler::number(const SchemaList& members, bool integer) {
  const auto found = bounds_of(members, integer);
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
  TextMachine machine{.form = TextForm::json, .least = least.first, .most = most.first};
  const Json* keyword = nullptr;
  if (auto dfa = pattern_of(members, keyword)) {
    bound_lengths(*dfa, {least.first, most.first}, *keyword);
    machine.form = TextForm::json_canonical;
    machine.pattern = std::make_shared<const PatternDfa>(*std::move(dfa));
  }
  return program_.add(std::move(machine));
}

void SchemaCompiler::bound_lengths(PatternDfa& dfa, std::pair<std::uint32_t, std::uint32_t> bounds,
                                   const Json& keyword) {
  budget_.spend(dfa.size());
  try {
    dfa.bound_lengths(bounds.first, bounds.second, budget_);
  } catch (const PatternError& error) {
    throw SchemaError(keyword.path(), error.what());
  }
}

/// All patterns and formats of a text at once, without length bounds; `keyword` is the last of these. Nullopt
/// if there are none.
std::optional<PatternDfa> SchemaCompiler::pattern_of(const SchemaList& members, const Json*& keyword) {
  std::optional<PatternDfa> dfa;
  std::set<std::string_view> seen;
  for (const std::string_view name : {"pattern", "format"}) {
    for (const auto* member : members) {
      const auto* restriction = text_restriction(*member, name);
      if (restriction == nullptr || !seen.insert(restriction->text).second) continue;
      const auto& other = validator_.pattern(*restriction);
      budget_.spend(other.size());
      try {
        dfa = dfa ? intersection(*dfa, other, budget_) : other;
      } catch (const EmptyPattern&) {
        // Where a pattern contradicts a format, as for times without a zone, it says what the format is not.
        const bool is_between_formats = keyword->parent->keys[keyword->index] == "format";
        if (name == "format" && !is_between_formats) continue;
        throw SchemaError(restriction->path(),
                          fmt::format("no text matches this and what {} asks for", keyword->path()));
      } catch (const PatternError& error) {
        throw SchemaError(restriction->path(), error.what());
      }
      keyword = restriction;
    }
    seen.clear();
  }
  return dfa;
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
    if (unique != nullptr && unique->boolean && machine.most > 1) {
      if (add_unique_items(members, *unique, machine)) return program_.add(std::move(machine));
      throw SchemaError(unique->path(),
                        fmt::format("unique items are supported only of items that are one of at most {} "
                                    "constants (enum, const, boolean or null), without prefixItems",
                                    kMaxUniqueItems));
    }
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

/// Whether the items are few enough values to be told apart; then they are the array's.
bool SchemaCompiler::add_unique_items(const SchemaList& members, const Json& keyword, ArrayMachine& machine) {
  SchemaList schemas;
  for (const auto* member : members) {
    if (!first_items(*member).empty()) return false;
    if (const auto* others = other_items(*member)) schemas.push_back(others);
  }
  if (schemas.empty() || is_false(schemas)) return false;
  // Numbers may be equal and written differently; other constants have one spelling.
  std::set<std::string> texts;
  std::vector<const Json*> numbers;
  for (const auto& item : flattener_.flatten(schemas)) {
    if (item.empty()) return false;
    std::vector<const Json*> values;
    std::vector<MachineId> machines;
    if (const auto found = constants_of(item)) {
      values = *found;
    } else if ((written_types(item) & ~(kTypeNull | kTypeBoolean)) == 0) {
      const auto types = written_types(item);
      if ((types & kTypeNull) != 0) texts.insert("null");
      if ((types & kTypeBoolean) != 0) texts.insert({"true", "false"});
    } else {
      return false;
    }
    for (const auto* value : values) {
      budget_.spend(1 + numbers.size());
      if (value->is(JsonKind::array) || value->is(JsonKind::object)) return false;
      if (!value->is(JsonKind::number)) {
        texts.insert(scalar_text(*value));
        continue;
      }
      const bool is_new = std::none_of(numbers.begin(), numbers.end(),
                                       [&](const Json* other) { return equal(*value, *other); });
      if (is_new) numbers.push_back(value);
    }
  }
  for (const auto* number : numbers) texts.insert(number->text);
  if (texts.size() > kMaxUniqueItems) return false;
  if (texts.size() < machine.least) {
    throw SchemaError(keyword.path(),
                      fmt::format("there are only {} different items, at least {} must be there",
                                  texts.size(), machine.least));
  }
  for (const auto& text : texts) machine.unique.push_back(literal(program_, text));
  if (machine.unique.empty()) machine.most = 0;
  return true;
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
  for (const auto* member : members) {
    const auto* rule = member->find("propertyNames");
    if (rule != nullptr && !validator_.valid_name(name, *rule)) out.push_back(&nothing());
  }
  return value_of(out);
}

void SchemaCompiler::add_properties(const SchemaList& members, ObjectMachine& machine,
                                    const std::vector<std::string>& listed, std::vector<std::string>& names) {
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
  for (const auto& name : listed) add(name);
  for (const auto* name : in_order) add(*name);
}

/// What names that are not declared must be. Nullopt: anything.
std::optional<SchemaCompiler::NameRule> SchemaCompiler::rule_of_names(const SchemaList& members) {
  SchemaList rules;
  for (const auto* member : members) {
    if (const auto* rule = member->find("propertyNames")) rules.push_back(rule);
  }
  if (rules.empty()) return std::nullopt;
  const auto& at = *rules.back();
  NameRule found{.keyword = &at};
  const auto alternatives = flattener_.flatten(rules);
  for (const auto& schemas : alternatives) {
    if (!schemas.empty() && (written_types(schemas) & kTypeString) == 0) continue;
    if (const auto values = constants_of(schemas)) {
      for (const auto* value : *values) {
        if (value->is(JsonKind::string)) found.listed.push_back(value->text);
      }
      continue;
    }
    if (found.open) throw SchemaError(at.path(), "alternatives of names are not supported but for constants");
    found.open = true;
    found.schemas = schemas;
  }
  return found;
}

/// The text of names that are not declared: `rule` and none of `names`. Escapes only where they must be, as
/// in index_properties.
MachineId SchemaCompiler::other_key(const NameRule& rule, const std::vector<std::string>& names) {
  const auto least = largest(rule.schemas, "minLength");
  const auto most = smallest(rule.schemas, "maxLength");
  expect_order(least, most);
  expect_reachable(least, kMostNeededCharacters);
  const Json* keyword = nullptr;
  auto dfa = pattern_of(rule.schemas, keyword);
  if (!dfa && least.second == nullptr && most.second == nullptr) return kNone;
  try {
    if (!dfa) dfa = PatternDfa(parse_pattern(""), PatternDfa::Match::part, budget_);
    if (!names.empty()) dfa = difference(*dfa, exact_texts(names, budget_), budget_);
  } catch (const PatternError& error) {
    throw SchemaError(rule.keyword->path(), error.what());
  }
  bound_lengths(*dfa, {least.first, most.first}, *rule.keyword);
  return program_.add(TextMachine{.form = TextForm::json_canonical,
                                  .pattern = std::make_shared<const PatternDfa>(*std::move(dfa))});
}

MachineId SchemaCompiler::object(const SchemaList& members) {
  ObjectMachine machine;
  std::vector<std::string> names;
  const auto rule = rule_of_names(members);
  // Others may come if the schema says so, or if it names none.
  SchemaList additional;
  bool names_any = false;
  for (const auto* member : members) {
    if (const auto* schema = member->find("additionalProperties")) additional.push_back(schema);
    const auto* properties = member->find("properties");
    names_any = names_any || (properties != nullptr && !properties->keys.empty());
  }
  const bool takes_others = !is_false(additional) && (!additional.empty() || !names_any);
  add_properties(members, machine,
                 takes_others && rule && !rule->open ? rule->listed : std::vector<std::string>(), names);
  if (takes_others && (!rule || rule->open)) {
    machine.additional = value_of(additional);
    if (rule) machine.other_key = other_key(*rule, names);
  }
  count_properties(members, machine);
  index_properties(program_, machine, names);
  return program_.add(std::move(machine));
}

/// minProperties and maxProperties, where they say more than `required` does.
void SchemaCompiler::count_properties(const SchemaList& members, ObjectMachine& machine) {
  const auto required =
      static_cast<std::size_t>(std::count_if(machine.properties.begin(), machine.properties.end(),
                                             [](const auto& property) { return property.required; }));
  const auto least = largest(members, "minProperties");
  const auto most = smallest(members, "maxProperties");
  expect_order(least, most);
  if (most.second != nullptr && most.first < required) {
    throw SchemaError(most.second->path(),
                      fmt::format("at most {}, but {} properties are required", most.second->text, required));
  }
  const auto others = machine.additional == kNone ? 0U : 1U;
  if (least.second != nullptr && least.first > machine.properties.size() + others) {
    // Keys that are not declared may come twice, and a reader takes these for one.
    throw SchemaError(least.second->path(),
                      fmt::format("supported only up to the number of declared properties{}, {}",
                                  others == 0 ? "" : " and one more", machine.properties.size() + others));
  }
  if (least.first > required) machine.least = least.first;
  if (most.second != nullptr && (machine.additional != kNone || most.first < machine.properties.size()))
    machine.most = most.first;
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
