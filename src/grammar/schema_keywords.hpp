#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.hpp"
#include "grammar/json_document.hpp"

namespace inferno::grammar {

/// JSON Schema's types as bits; "number" is both kinds of numbers.
using TypeSet = std::uint32_t;
inline constexpr TypeSet kTypeNull = 1;
inline constexpr TypeSet kTypeBoolean = 2;
inline constexpr TypeSet kTypeInteger = 4;
inline constexpr TypeSet kTypeFraction = 8;
inline constexpr TypeSet kTypeString = 16;
inline constexpr TypeSet kTypeArray = 32;
inline constexpr TypeSet kTypeObject = 64;
inline constexpr TypeSet kAllTypes = 127;

/// That a schema is true, false or an object whose keywords are known and have values of the right form.
/// What stands below (properties, items) is not looked at. Throws SchemaError.
void check_keywords(const Json& schema);

/// Whether a schema (whose keywords need not have been checked) is `false`, also where that is said by a
/// `not` of what everything matches.
bool matches_nothing(const Json& schema);
/// What `type` says; kAllTypes without one.
TypeSet types_of(const Json& schema);
/// The types that the schema's other keywords are about; 0 if there are none of those.
TypeSet types_spoken_of(const Json& schema);
TypeSet type_of_value(const Json& value);
/// Whether the schema says more than what it refers to and combines.
bool has_own_keywords(const Json& schema);

/// A number of characters, items or properties; nullopt without the keyword. What is too large to count is
/// UINT32_MAX.
std::optional<std::uint32_t> count_of(const Json& schema, std::string_view keyword);

/// Of an array's schema: those of its first items, and (nullptr: anything) of the others.
std::vector<const Json*> first_items(const Json& schema);
const Json* other_items(const Json& schema);

/// Whether a bound excludes itself: `keyword` beside it is `true`, as the fourth draft has it.
bool is_exclusive(const Json& schema, std::string_view keyword);
/// The `exclusiveMinimum` (or `exclusiveMaximum`) that is a bound itself; nullptr without one.
const Json* exclusive_bound(const Json& schema, std::string_view keyword);

/// The `pattern` or `format` that a schema's strings must match; nullptr without one, and for formats that
/// restrict nothing, as unknown ones beside a pattern do.
const Json* text_restriction(const Json& schema, std::string_view keyword);
/// The pattern (matching whole texts) of a string's `format`; nullopt if it is not supported, empty if it
/// restricts nothing.
std::optional<std::string_view> format_pattern(std::string_view format);

/// Whether a pattern says of a format what the format says itself.
bool says_the_same(std::string_view pattern, std::string_view format);

/// The least and the greatest of an integer's `format`.
struct IntegerRange {
  std::int64_t least = 0, most = 0;
};
/// nullopt without a format that restricts numbers.
std::optional<IntegerRange> integer_range(const Json& schema);
/// "date, time, ..."
std::string supported_formats();

}  // namespace inferno::grammar
