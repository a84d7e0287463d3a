#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/budget.hpp"
#include "grammar/json_document.hpp"
#include "grammar/pattern_dfa.hpp"

namespace inferno::grammar {

/// Says whether a value matches a schema: for the values of enum and const, whose other keywords must hold
/// too.
class SchemaValidator {
 public:
  SchemaValidator(const Json& root, Budget& budget) : root_(root), budget_(budget) {}

  bool valid(const Json& value, const Json& schema) { return valid(value, schema, 0); }
  /// Whether a property may have this name, by a `propertyNames`.
  bool valid_name(const std::string& name, const Json& schema) { return valid_name(name, schema, 0); }
  /// Without the schema's references and combinations.
  bool valid_here(const Json& value, const Json& schema) { return valid_here(value, schema, 0); }

  /// What a $ref leads to. Throws SchemaError if it is none within the schema.
  const Json& target(const Json& reference);
  /// The automaton of a `pattern` or `format` keyword, without length bounds. Throws SchemaError.
  const PatternDfa& pattern(const Json& keyword);

 private:
  bool valid(const Json& value, const Json& schema, std::size_t depth);
  bool valid_here(const Json& value, const Json& schema, std::size_t depth);
  bool valid_name(const std::string& name, const Json& schema, std::size_t depth);
  static bool valid_number(const Json& value, const Json& schema);
  bool valid_string(const Json& value, const Json& schema);
  bool valid_array(const Json& value, const Json& schema, std::size_t depth);
  bool valid_object(const Json& value, const Json& schema, std::size_t depth);

  const Json& root_;
  Budget& budget_;
  std::unordered_map<const Json*, std::unique_ptr<const PatternDfa>> patterns_;
  std::unordered_map<const Json*, const Json*> targets_;
};

}  // namespace inferno::grammar
