#include "grammar/schema_validator.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "grammar/grammar.hpp"
#include "grammar/pattern_product.hpp"
#include "grammar/schema_keywords.hpp"
#include "platform/quote.hpp"

namespace inferno::grammar {
namespace {

constexpr std::size_t kMaxDepth = 300;

std::string percent_decoded(std::string_view text) {
  std::string out;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

const Json& SchemaValidator::target(const Json& reference) {
  if (const auto known = targets_.find(&reference); known != targets_.end()) return *known->second;
  if (!reference.text.starts_with('#')) {
    throw SchemaError(
        reference.path(),
        fmt::format("{} leads out of the schema, which is never followed; expected a reference such "
                    "as \"#/$defs/name\"",
                    quote(reference.text, 60)));
  }
  const auto* found = follow_pointer(root_, percent_decoded(std::string_view(reference.text).substr(1)));
  if (found == nullptr) {
    throw SchemaError(
        reference.path(),
        fmt::format("{} leads nowhere; expected a reference such as \"#/$defs/name\" to a schema that "
                    "is there",
                    quote(reference.text, 60)));
  }
  targets_.emplace(&reference, found);
  return *found;
}

const PatternDfa& SchemaValidator::pattern(const Json& keyword) {
  auto& known = patterns_[&keyword];
  if (known) return *known;
  const auto* schema = keyword.parent;
  const bool is_format = schema->keys[keyword.index] == "format";
  try {
    const auto text = is_format ? *format_pattern(keyword.text) : std::string_view(keyword.text);
    known = std::make_unique<const PatternDfa>(
        is_format ? PatternDfa(parse_pattern(text), PatternDfa::Match::whole, budget_)
                  : schema_pattern(text, budget_));
  } catch (const PatternError& error) {
    throw SchemaError(keyword.path(), error.what());
  }
  return *known;
}

bool SchemaValidator::valid_name(const std::string& name, const Json& schema, std::size_t depth) {
  Json value;
  value.kind = JsonKind::string;
  value.text = name;
  return valid(value, schema, depth);
}

bool SchemaValidator::valid(const Json& value, const Json& schema, std::size_t depth) {
  if (depth > kMaxDepth)
    throw SchemaError(schema.path(), "an enumerated value leads into references without end");
  budget_.spend(1);
  check_keywords(schema);
  if (schema.is(JsonKind::boolean)) return schema.boolean;
  if (matches_nothing(schema)) return false;
  if (const auto* reference = schema.find("$ref")) {
    if (!valid(value, target(*reference), depth + 1)) return false;
  }
  const auto holds = [&](const Json& other) { return valid(value, other, depth + 1); };
  if (const auto* all = schema.find("allOf")) {
    if (!std::all_of(all->items.begin(), all->items.end(), holds)) return false;
  }
  if (const auto* any = schema.find("anyOf")) {
    if (!std::any_of(any->items.begin(), any->items.end(), holds)) return false;
  }
  if (const auto* one = schema.find("oneOf")) {
    if (std::count_if(one->items.begin(), one->items.end(), holds) != 1) return false;
  }
  return valid_here(value, schema, depth);
}

bool SchemaValidator::valid_here(const Json& value, const Json& schema, std::size_t depth) {
  budget_.spend(1 + schema.keys.size());
  if ((types_of(schema) & type_of_value(value)) == 0) return false;
  if (const auto* constant = schema.find("const")) {
    if (!equal(value, *constant)) return false;
  }
  if (const auto* list = schema.find("enum")) {
    const auto same = [&](const Json& other) {
      budget_.spend(1);
      return equal(value, other);
    };
    // A value of the list itself need not be looked for.
    if (value.parent != list && std::none_of(list->items.begin(), list->items.end(), same)) return false;
  }
  switch (value.kind) {
    case JsonKind::number:
      return valid_number(value, schema);
    case JsonKind::string:
      return valid_string(value, schema);
    case JsonKind::array:
      return valid_array(value, schema, depth);
    case JsonKind::object:
      return valid_object(value, schema, depth);
    default:
      return true;
  }
}

bool SchemaValidator::valid_number(const Json& value, const Json& schema) {
  struct Bound {
    std::string_view keyword;
    int least;  ///< of the comparison, and `most`
    int most;
  };
  const int above = is_exclusive(schema, "exclusiveMinimum") ? 1 : 0;
  const int below = is_exclusive(schema, "exclusiveMaximum") ? -1 : 0;
  for (const auto& bound : {Bound{"minimum", above, 1}, Bound{"maximum", -1, below},
                            Bound{"exclusiveMinimum", 1, 1}, Bound{"exclusiveMaximum", -1, -1}}) {
    const auto* limit = schema.find(bound.keyword);
    if (limit == nullptr || limit->is(JsonKind::boolean)) continue;
    const auto order = value.number().compare(limit->number());
    if (order < bound.least || order > bound.most) return false;
  }
  if (const auto range = integer_range(schema)) {
    const auto number = value.number().scaled(0);
    if (!number || *number < range->least || *number > range->most) return false;
  }
  if (const auto* multiple = schema.find("multipleOf")) {
    const auto number = value.number().scaled(16);
    const auto unit = multiple->number().scaled(16);
    if (!number || !unit) throw SchemaError(value.path(), "more digits than can be divided exactly");
    return *number % *unit == 0;
  }
  return true;
}

bool SchemaValidator::valid_string(const Json& value, const Json& schema) {
  budget_.spend(value.text.size());
  const auto text = code_points(value.text);
  if (text.size() < count_of(schema, "minLength").value_or(0)) return false;
  if (text.size() > count_of(schema, "maxLength").value_or(UINT32_MAX)) return false;
  const auto fits = [&](const Json* keyword) {
    return keyword == nullptr || pattern(*keyword).matches(text);
  };
  return fits(text_restriction(schema, "pattern")) && fits(text_restriction(schema, "format"));
}

bool SchemaValidator::valid_array(const Json& value, const Json& schema, std::size_t depth) {
  if (value.items.size() < count_of(schema, "minItems").value_or(0)) return false;
  if (value.items.size() > count_of(schema, "maxItems").value_or(UINT32_MAX)) return false;
  const auto first = first_items(schema);
  const auto* others = other_items(schema);
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    const auto* item = i < first.size() ? first[i] : others;
    if (item != nullptr && !valid(value.items[i], *item, depth + 1)) return false;
  }
  const auto* unique = schema.find("uniqueItems");
  if (unique == nullptr || !unique->boolean) return true;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    budget_.spend(i);
    for (std::size_t j = 0; j < i; ++j) {
      if (equal(value.items[i], value.items[j])) return false;
    }
  }
  return true;
}

bool SchemaValidator::valid_object(const Json& value, const Json& schema, std::size_t depth) {
  if (value.keys.size() < count_of(schema, "minProperties").value_or(0)) return false;
  if (value.keys.size() > count_of(schema, "maxProperties").value_or(UINT32_MAX)) return false;
  if (const auto* required = schema.find("required")) {
    for (const auto& name : required->items) {
      if (value.find(name.text) == nullptr) return false;
    }
  }
  if (const auto* names = schema.find("propertyNames")) {
    for (const auto& key : value.keys) {
      if (!valid_name(key, *names, depth + 1)) return false;
    }
  }
  const auto* properties = schema.find("properties");
  const auto* additional = schema.find("additionalProperties");
  for (std::size_t i = 0; i < value.keys.size(); ++i) {
    const auto* property = properties == nullptr ? nullptr : properties->find(value.keys[i]);
    if (property == nullptr) property = additional;
    if (property != nullptr && !valid(value.items[i], *property, depth + 1)) return false;
  }
  return true;
}

}  // namespace inferno::grammar
