#include "grammar/schema_keywords.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unordered_map>

#include "platform/quote.hpp"

namespace inferno::grammar {
namespace {

/// Of a `not` in a `not`.
constexpr int kMostNegations = 20;

/// What a keyword's value must be.
enum class Form : std::uint8_t {
  anything,
  boolean,
  number,
  number_or_boolean,
  positive_number,
  count,
  string,
  strings,
  types,
  enumeration,
  schema,
  schema_list,
  schema_map,
  item_schemas,  ///< a schema or, in older drafts, a list
  format,
  negation,  ///< a schema that everything matches, or nothing
  root_id,
  object
};

struct Keyword {
  Form form = Form::anything;
  TypeSet about = 0;
  bool own = true;  ///< says something of values beyond what it refers to
};

constexpr TypeSet kNumbers = kTypeInteger | kTypeFraction;

const std::unordered_map<std::string_view, Keyword>& keywords() {
  static const std::unordered_map<std::string_view, Keyword> kKeywords = {
      {"type", {Form::types}},
      {"nullable", {Form::boolean}},
      {"enum", {Form::enumeration}},
      {"const", {Form::anything}},
      {"properties", {Form::schema_map, kTypeObject}},
      {"required", {Form::strings, kTypeObject}},
      {"additionalProperties", {Form::schema, kTypeObject}},
      {"propertyNames", {Form::schema, kTypeObject}},
      {"minProperties", {Form::count, kTypeObject}},
      {"maxProperties", {Form::count, kTypeObject}},
      {"items", {Form::item_schemas, kTypeArray}},
      {"prefixItems", {Form::schema_list, kTypeArray}},
      {"additionalItems", {Form::schema, kTypeArray}},
      {"minItems", {Form::count, kTypeArray}},
      {"maxItems", {Form::count, kTypeArray}},
      {"uniqueItems", {Form::boolean, kTypeArray}},
      {"minLength", {Form::count, kTypeString}},
      {"maxLength", {Form::count, kTypeString}},
      {"pattern", {Form::string, kTypeString}},
      {"format", {Form::format, kTypeString}},
      {"minimum", {Form::number, kNumbers}},
      {"maximum", {Form::number, kNumbers}},
      {"exclusiveMinimum", {Form::number_or_boolean, kNumbers}},
      {"exclusiveMaximum", {Form::number_or_boolean, kNumbers}},
      {"multipleOf", {Form::positive_number, kNumbers}},
      {"$ref", {Form::string, 0, false}},
      {"not", {Form::negation, 0, false}},
      {"allOf", {Form::schema_list, 0, false}},
      {"anyOf", {Form::schema_list, 0, false}},
      {"oneOf", {Form::schema_list, 0, false}},
      // They say nothing of a value.
      {"$defs", {Form::object, 0, false}},
      {"definitions", {Form::object, 0, false}},
      {"$schema", {Form::string, 0, false}},
      {"$id", {Form::root_id, 0, false}},
      {"$comment", {Form::anything, 0, false}},
      {"title", {Form::anything, 0, false}},
      {"description", {Form::anything, 0, false}},
      {"default", {Form::anything, 0, false}},
      {"example", {Form::anything, 0, false}},
      {"examples", {Form::anything, 0, false}},
      {"deprecated", {Form::anything, 0, false}},
      {"readOnly", {Form::anything, 0, false}},
      {"writeOnly", {Form::anything, 0, false}},
      {"contentEncoding", {Form::anything, 0, false}},
      {"contentMediaType", {Form::anything, 0, false}},
      {"discriminator", {Form::anything, 0, false}},
  };
  return kKeywords;
}

constexpr std::array<std::pair<std::string_view, TypeSet>, 7> kTypeNames = {{{"null", kTypeNull},
                                                                             {"boolean", kTypeBoolean},
                                                                             {"integer", kTypeInteger},
                                                                             {"number", kNumbers},
                                                                             {"string", kTypeString},
                                                                             {"array", kTypeArray},
                                                                             {"object", kTypeObject}}};

[[noreturn]] void fail(const Json& at, const std::string& message) {
  throw SchemaError(at.path(), message);
}

void expect(const Json& value, JsonKind kind, std::string_view what) {
  if (!value.is(kind)) fail(value, fmt::format("expected {}, found {}", what, json_kind_name(value.kind)));
}

bool is_schema(const Json& value) {
  return value.is(JsonKind::object) || value.is(JsonKind::boolean);
}

void check_types(const Json& value) {
  const auto check_name = [](const Json& name) {
    expect(name, JsonKind::string, "a type's name");
    const auto known = std::any_of(kTypeNames.begin(), kTypeNames.end(),
                                   [&](const auto& type) { return type.first == name.text; });
    if (!known) {
      fail(name,
           fmt::format("{} is no type; expected null, boolean, integer, number, string, array or object",
                       quote(name.text, 40)));
    }
  };
  if (!value.is(JsonKind::array)) return check_name(value);
  if (value.items.empty()) fail(value, "a list of no types; expected at least one");
  for (const auto& name : value.items) check_name(name);
}

void check_list(const Json& value, std::string_view what) {
  expect(value, JsonKind::array, what);
  if (value.items.empty()) fail(value, fmt::format("an empty list; expected {}", what));
}

void check_count(const Json& value) {
  expect(value, JsonKind::number, "a whole number from 0 on");
  const auto number = value.number();
  if (number.is_negative() || !number.is_integer())
    fail(value, fmt::format("expected a whole number from 0 on, found {}", quote(value.text, 40)));
}

bool has_pattern(const Json& schema) {
  return schema.find("pattern") != nullptr;
}

/// Whether the strings of a format have a pattern, too: in its schema, in one of its allOf, or in the one
/// that this is an allOf of.
bool stands_beside_pattern(const Json& format) {
  const auto among = [](const Json* all) {
    return all != nullptr && std::any_of(all->items.begin(), all->items.end(), has_pattern);
  };
  const auto& schema = *format.parent;
  if (has_pattern(schema) || among(schema.find("allOf"))) return true;
  const auto* list = schema.parent;
  if (list == nullptr || list->parent == nullptr || list->parent->find("allOf") != list) return false;
  return has_pattern(*list->parent) || among(list);
}

/// Whether everything matches a schema, or nothing; nullopt if it says more than that.
std::optional<bool> trivial(const Json& schema, int depth = 0) {
  if (schema.is(JsonKind::boolean)) return schema.boolean;
  if (!schema.is(JsonKind::object) || depth > kMostNegations) return std::nullopt;
  std::optional<bool> result = true;
  for (std::size_t i = 0; i < schema.keys.size(); ++i) {
    const auto& key = schema.keys[i];
    if (key == "not") {
      const auto negated = trivial(schema.items[i], depth + 1);
      if (!negated) return std::nullopt;
      result = *result && !*negated;
      continue;
    }
    const auto known = keywords().find(key);
    const bool refers = key == "$ref" || key == "allOf" || key == "anyOf" || key == "oneOf";
    if (known == keywords().end() || known->second.own || refers) return std::nullopt;
  }
  return result;
}

/// Of numbers a format says how they are kept, and at most which there are (see integer_range).
void check_format(const Json& value) {
  expect(value, JsonKind::string, "a format's name");
  // An unknown one beside a pattern is a name for that.
  if (format_pattern(value.text) || stands_beside_pattern(value)) return;
  const auto types = types_of(*value.parent);
  const bool is_of_numbers = (types & kNumbers) != 0 && integer_range(*value.parent);
  if ((types & kTypeString) == 0 || is_of_numbers) return;
  fail(value, fmt::format("the format {} is not supported; supported are {}", quote(value.text, 40),
                          supported_formats()));
}

void check_form(const Json& value, Form form) {
  switch (form) {
    case Form::anything:
      return;
    case Form::boolean:
      return expect(value, JsonKind::boolean, "true or false");
    case Form::number:
      return expect(value, JsonKind::number, "a number");
    case Form::number_or_boolean:
      if (!value.is(JsonKind::boolean)) expect(value, JsonKind::number, "a number");
      return;
    case Form::positive_number:
      expect(value, JsonKind::number, "a number above 0");
      if (value.number().is_zero() || value.number().is_negative())
        fail(value, fmt::format("expected a number above 0, found {}", quote(value.text, 40)));
      return;
    case Form::count:
      return check_count(value);
    case Form::string:
      return expect(value, JsonKind::string, "a string");
    case Form::strings:
      expect(value, JsonKind::array, "a list of strings");
      for (const auto& item : value.items) expect(item, JsonKind::string, "a string");
      return;
    case Form::types:
      return check_types(value);
    case Form::enumeration:
      return check_list(value, "a list of values");
    case Form::item_schemas:
      if (value.is(JsonKind::array)) return;
      [[fallthrough]];
    case Form::schema:
      if (!is_schema(value))
        fail(value, fmt::format("expected a schema (an object, true or false), found {}",
                                json_kind_name(value.kind)));
      return;
    case Form::schema_list:
      return check_list(value, "a list of schemas");
    case Form::schema_map:
      return expect(value, JsonKind::object, "an object with schemas");
    case Form::object:
      return expect(value, JsonKind::object, "an object");
    case Form::format:
      return check_format(value);
    case Form::negation:
      if (!trivial(value)) {
        fail(value,
             "the keyword not is not supported but for a schema that everything matches, such as {}, or "
             "nothing");
      }
      return;
    case Form::root_id:
      expect(value, JsonKind::string, "a string");
      if (value.parent != nullptr && value.parent->parent != nullptr)
        fail(value, "$id is supported only at the top of the schema");
      return;
  }
}

[[noreturn]] void fail_unknown(const Json& value, std::string_view name) {
  static constexpr std::array<std::string_view, 17> kKnownUnsupported = {"if",
                                                                         "then",
                                                                         "else",
                                                                         "contains",
                                                                         "minContains",
                                                                         "maxContains",
                                                                         "patternProperties",
                                                                         "dependencies",
                                                                         "dependentRequired",
                                                                         "dependentSchemas",
                                                                         "unevaluatedItems",
                                                                         "unevaluatedProperties",
                                                                         "$anchor",
                                                                         "$dynamicRef",
                                                                         "$dynamicAnchor",
                                                                         "$recursiveRef",
                                                                         "$recursiveAnchor"};
  if (std::find(kKnownUnsupported.begin(), kKnownUnsupported.end(), name) != kKnownUnsupported.end())
    fail(value, fmt::format("the keyword {} is not supported", name));
  fail(value,
       fmt::format("unknown keyword {}; supported are type, enum, const, properties, required, "
                   "additionalProperties, items, prefixItems, minItems, maxItems, minLength, maxLength, "
                   "pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, "
                   "anyOf, oneOf, allOf and $ref",
                   quote(name, 60)));
}

}  // namespace

bool matches_nothing(const Json& schema) {
  if (schema.is(JsonKind::boolean)) return !schema.boolean;
  const auto* negated = schema.find("not");
  return negated != nullptr && trivial(*negated).value_or(false);
}

void check_keywords(const Json& schema) {
  if (!is_schema(schema))
    fail(schema,
         fmt::format("expected a schema (an object, true or false), found {}", json_kind_name(schema.kind)));
  for (std::size_t i = 0; i < schema.keys.size(); ++i) {
    const auto known = keywords().find(schema.keys[i]);
    if (known == keywords().end()) fail_unknown(schema.items[i], schema.keys[i]);
    check_form(schema.items[i], known->second.form);
  }
}

TypeSet types_of(const Json& schema) {
  const auto* type = schema.find("type");
  if (type == nullptr) return kAllTypes;
  TypeSet set = 0;
  for (const auto& [name, bits] : kTypeNames) {
    const auto is_named = [&, wanted = name](const Json& item) { return item.text == wanted; };
    if (is_named(*type) || std::any_of(type->items.begin(), type->items.end(), is_named)) set |= bits;
  }
  // As OpenAPI has it: it widens the type that stands beside it.
  const auto* nullable = schema.find("nullable");
  if (nullable != nullptr && nullable->boolean) set |= kTypeNull;
  return set;
}

bool is_exclusive(const Json& schema, std::string_view keyword) {
  const auto* value = schema.find(keyword);
  return value != nullptr && value->is(JsonKind::boolean) && value->boolean;
}

const Json* exclusive_bound(const Json& schema, std::string_view keyword) {
  const auto* value = schema.find(keyword);
  return value != nullptr && value->is(JsonKind::number) ? value : nullptr;
}

const Json* text_restriction(const Json& schema, std::string_view keyword) {
  const auto* value = schema.find(keyword);
  if (value == nullptr) return nullptr;
  if (keyword == "pattern") {
    const auto* format = schema.find("format");
    return format != nullptr && says_the_same(value->text, format->text) ? nullptr : value;
  }
  return format_pattern(value->text).value_or("").empty() ? nullptr : value;
}

TypeSet types_spoken_of(const Json& schema) {
  TypeSet set = 0;
  for (const auto& key : schema.keys) {
    const auto known = keywords().find(key);
    if (known != keywords().end()) set |= known->second.about;
  }
  return set;
}

TypeSet type_of_value(const Json& value) {
  switch (value.kind) {
    case JsonKind::null:
      return kTypeNull;
    case JsonKind::boolean:
      return kTypeBoolean;
    case JsonKind::number:
      return value.number().is_integer() ? kTypeInteger : kTypeFraction;
    case JsonKind::string:
      return kTypeString;
    case JsonKind::array:
      return kTypeArray;
    case JsonKind::object:
      return kTypeObject;
  }
  return 0;
}

bool has_own_keywords(const Json& schema) {
  return std::any_of(schema.keys.begin(), schema.keys.end(), [](const std::string& key) {
    const auto known = keywords().find(key);
    return known != keywords().end() && known->second.own;
  });
}

std::optional<std::uint32_t> count_of(const Json& schema, std::string_view keyword) {
  const auto* value = schema.find(keyword);
  if (value == nullptr) return std::nullopt;
  const auto number = value->number().scaled(0);
  if (!number || *number >= UINT32_MAX) return UINT32_MAX;
  return static_cast<std::uint32_t>(*number);
}

std::vector<const Json*> first_items(const Json& schema) {
  const auto* list = schema.find("prefixItems");
  const auto* items = schema.find("items");
  if (list == nullptr && items != nullptr && items->is(JsonKind::array)) list = items;
  std::vector<const Json*> out;
  if (list == nullptr) return out;
  for (const auto& item : list->items) out.push_back(&item);
  return out;
}

const Json* other_items(const Json& schema) {
  const auto* items = schema.find("items");
  if (items == nullptr) return nullptr;
  return items->is(JsonKind::array) ? schema.find("additionalItems") : items;
}

}  // namespace inferno::grammar
