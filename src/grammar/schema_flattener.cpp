#include "grammar/schema_flattener.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <string>
#include <utility>

#include "grammar/grammar.hpp"
#include "grammar/schema_keywords.hpp"

namespace inferno::grammar {
namespace {

/// How far down properties are compared to tell two alternatives of a oneOf apart.
constexpr int kMostComparedLevels = 4;

const Json* values_of(const SchemaList& members) {
  for (const auto* member : members) {
    if (const auto* list = member->find("enum")) return list;
  }
  return nullptr;
}

const Json* constant_of(const SchemaList& members) {
  for (const auto* member : members) {
    if (const auto* value = member->find("const")) return value;
  }
  return nullptr;
}

/// Types that a value may have by the schemas' letter, and those that are written (see SchemaCompiler).
TypeSet exact_types(const SchemaList& members) {
  auto types = kAllTypes;
  for (const auto* member : members) types &= types_of(*member);
  return types;
}

bool requires_property(const SchemaList& members, const std::string& name) {
  return std::any_of(members.begin(), members.end(), [&](const Json* member) {
    const auto* required = member->find("required");
    return required != nullptr && std::any_of(required->items.begin(), required->items.end(),
                                              [&](const Json& item) { return item.text == name; });
  });
}

/// What a property's value must match.
SchemaList property_schemas(const SchemaList& members, const std::string& name) {
  SchemaList out;
  for (const auto* member : members) {
    const auto* properties = member->find("properties");
    const auto* schema = properties == nullptr ? nullptr : properties->find(name);
    if (schema == nullptr) schema = member->find("additionalProperties");
    if (schema != nullptr) out.push_back(schema);
  }
  return out;
}

}  // namespace

TypeSet written_types(const SchemaList& members) {
  const auto types = exact_types(members);
  TypeSet spoken_of = 0;
  for (const auto* member : members) {
    if (member->find("type") != nullptr) return types;
    spoken_of |= types_spoken_of(*member);
  }
  return spoken_of == 0 ? types : spoken_of;
}

const SchemaFlattener::Link* SchemaFlattener::link(const Json& schema, const Link* before) {
  links_.push_back({.schema = &schema, .before = before});
  return &links_.back();
}

std::vector<SchemaList> SchemaFlattener::flatten(const SchemaList& schemas) {
  std::vector<SchemaList> out;
  std::vector<Alternative> open(1);
  for (auto i = schemas.size(); i-- > 0;) open.back().todo.push_back(link(*schemas[i], nullptr));
  while (!open.empty()) {
    auto alternative = std::move(open.back());
    open.pop_back();
    std::vector<Alternative> forks;
    if (!resolve(alternative, forks)) continue;
    if (forks.empty()) {
      out.push_back(std::move(alternative.members));
    } else {
      // The first comes first.
      std::move(forks.rbegin(), forks.rend(), std::back_inserter(open));
    }
    if (out.size() + open.size() > kMaxAlternatives) {
      throw SchemaError(
          schemas.empty() ? "" : schemas.front()->path(),
          fmt::format("more than {} alternatives (with those of allOf and anyOf multiplied); expected "
                      "fewer",
                      kMaxAlternatives));
    }
  }
  return out;
}

/// Takes one alternative as far as it goes: to its end (true, no forks), to an anyOf (true, forks), or to
/// what nothing matches (false).
bool SchemaFlattener::resolve(Alternative& alternative, std::vector<Alternative>& forks) {
  while (!alternative.todo.empty()) {
    const auto* at = alternative.todo.back();
    alternative.todo.pop_back();
    const auto& schema = *at->schema;
    for (const auto* before = at->before; before != nullptr; before = before->before) {
      budget_.spend(1);
      if (before->schema == &schema)
        throw SchemaError(schema.path(), "it refers back to itself without a property or item in between");
    }
    budget_.spend(1 + alternative.members.size());
    if (checked_.insert(&schema).second) check_keywords(schema);
    if (schema.is(JsonKind::boolean)) {
      if (!schema.boolean) return false;
      continue;
    }
    if (matches_nothing(schema)) return false;
    if (has_own_keywords(schema) && std::find(alternative.members.begin(), alternative.members.end(),
                                              &schema) == alternative.members.end()) {
      alternative.members.push_back(&schema);
    }
    if (const auto* all = schema.find("allOf")) {
      for (auto i = all->items.size(); i-- > 0;) alternative.todo.push_back(link(all->items[i], at));
    }
    if (const auto* reference = schema.find("$ref"))
      alternative.todo.push_back(link(validator_.target(*reference), at));
    const auto* any = schema.find("anyOf");
    const auto* one = schema.find("oneOf");
    if (one != nullptr) check_exclusive(*one);
    if (any == nullptr && one == nullptr) continue;
    fork(alternative, *at, any != nullptr ? *any : *one, any != nullptr ? one : nullptr, forks);
    return true;
  }
  return true;
}

/// One of `options` (and one of `others`) holds, too.
void SchemaFlattener::fork(const Alternative& alternative, const Link& at, const Json& options,
                           const Json* others, std::vector<Alternative>& forks) {
  const auto add = [&](const Json& option, const Json* other) {
    budget_.spend(1 + alternative.todo.size() + alternative.members.size());
    auto next = alternative;
    if (other != nullptr) next.todo.push_back(link(*other, &at));
    next.todo.push_back(link(option, &at));
    forks.push_back(std::move(next));
    if (forks.size() > kMaxAlternatives)
      throw SchemaError(options.path(),
                        fmt::format("more than {} alternatives; expected fewer", kMaxAlternatives));
  };
  for (const auto& option : options.items) {
    if (others == nullptr) {
      add(option, nullptr);
    } else {
      for (const auto& other : others->items) add(option, &other);
    }
  }
}

/// oneOf is anyOf if no two of its schemas can hold together.
void SchemaFlattener::check_exclusive(const Json& one_of) {
  if (!exclusive_.insert(&one_of).second) return;
  std::vector<std::vector<SchemaList>> options;
  options.reserve(one_of.items.size());
  for (const auto& option : one_of.items) options.push_back(flatten({&option}));
  for (std::size_t i = 0; i < options.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (const auto& a : options[i]) {
        for (const auto& b : options[j]) {
          if (disjoint(a, b, 0)) continue;
          throw SchemaError(
              one_of.path(),
              fmt::format(
                  "alternatives {} and {} may hold together, or cannot be seen not to; expected anyOf, or "
                  "alternatives of different types, constants, or with a required property that tells them "
                  "apart",
                  j, i));
        }
      }
    }
  }
}

/// Whether no value matches both. What one of them makes is never wider than its letter, but may be narrower:
/// so each one's written types are held against the other's exact ones.
bool SchemaFlattener::disjoint(const SchemaList& a, const SchemaList& b, int depth) {
  budget_.spend(10 + a.size() + b.size());
  const auto common = (written_types(a) & exact_types(b)) | (exact_types(a) & written_types(b));
  if (common == 0) return true;
  if (values_disjoint(a, b) || values_disjoint(b, a)) return true;
  return common == kTypeObject && depth < kMostComparedLevels && objects_disjoint(a, b, depth);
}

bool SchemaFlattener::values_disjoint(const SchemaList& a, const SchemaList& b) {
  const auto matches = [&](const SchemaList& members, const Json& value) {
    return std::all_of(members.begin(), members.end(),
                       [&](const Json* member) { return validator_.valid_here(value, *member); });
  };
  if (const auto* constant = constant_of(a)) return !matches(a, *constant) || !matches(b, *constant);
  const auto* list = values_of(a);
  return list != nullptr && std::none_of(list->items.begin(), list->items.end(), [&](const Json& value) {
           return matches(a, value) && matches(b, value);
         });
}

bool SchemaFlattener::objects_disjoint(const SchemaList& a, const SchemaList& b, int depth) {
  std::set<std::string> names;
  for (const auto* list : {&a, &b}) {
    for (const auto* member : *list) {
      const auto* required = member->find("required");
      if (required == nullptr) continue;
      for (const auto& name : required->items) names.insert(name.text);
    }
  }
  for (const auto& name : names) {
    const bool needed_by_a = requires_property(a, name);
    const bool needed_by_b = requires_property(b, name);
    const auto in_a = flatten(property_schemas(a, name));
    const auto in_b = flatten(property_schemas(b, name));
    // Required by one, impossible in the other.
    if ((needed_by_a && in_b.empty()) || (needed_by_b && in_a.empty())) return true;
    if (!needed_by_a || !needed_by_b) continue;
    const bool apart = std::all_of(in_a.begin(), in_a.end(), [&](const SchemaList& x) {
      return std::all_of(in_b.begin(), in_b.end(),
                         [&](const SchemaList& y) { return disjoint(x, y, depth + 1); });
    });
    if (apart) return true;
  }
  return false;
}

}  // namespace inferno::grammar
