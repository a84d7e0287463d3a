#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/budget.hpp"
#include "grammar/json_document.hpp"
#include "grammar/program.hpp"
#include "grammar/schema_flattener.hpp"
#include "grammar/schema_validator.hpp"

namespace inferno::grammar {

/// Makes a program's values of a schema. Where a schema is silent, what is written is narrower than what is
/// valid: see docs/grammar.md.
class SchemaCompiler {
 public:
  /// All must outlive this.
  SchemaCompiler(const Json& root, Program& program, Budget& budget)
      : program_(program), budget_(budget), validator_(root, budget), flattener_(validator_, budget) {}

  /// The value that matches all of `schemas`, and every value below. Throws SchemaError (PatternError if the
  /// budget is used up).
  ValueId compile(const SchemaList& schemas);
  /// Throws SchemaError if nothing finite matches a value made by `compile`, naming the place. The program
  /// has been measured.
  void check_finite(ValueId value) const;
  /// Where `machine` stands in the schema, about; "" if no value made by `compile` has it.
  std::string path_of(MachineId machine) const;

 private:
  struct Pending {
    ValueId value = kNone;
    SchemaList schemas;
  };

  /// Names of properties that are not declared.
  struct NameRule {
    const Json* keyword = nullptr;
    bool open = false;  ///< whether any that match `schemas` may come
    SchemaList schemas = {};
    std::vector<std::string> listed = {};  ///< if not: all that may
  };

  ValueId value_of(const SchemaList& schemas);
  void fill(const Pending& pending);
  void add_machines(const SchemaList& members, std::vector<MachineId>& machines);
  bool add_constants(const SchemaList& members, std::vector<MachineId>& machines);
  std::optional<std::vector<const Json*>> constants_of(const SchemaList& members);
  void add_literals(std::vector<std::string> texts, std::vector<MachineId>& machines);
  MachineId number(const SchemaList& members, bool integer);
  MachineId text(const SchemaList& members);
  std::optional<PatternDfa> pattern_of(const SchemaList& members, const Json*& keyword);
  void bound_lengths(PatternDfa& dfa, std::pair<std::uint32_t, std::uint32_t> bounds, const Json& keyword);
  bool add_unique_items(const SchemaList& members, const Json& keyword, ArrayMachine& machine);
  MachineId array(const SchemaList& members);
  MachineId object(const SchemaList& members);
  void add_properties(const SchemaList& members, ObjectMachine& machine,
                      const std::vector<std::string>& listed, std::vector<std::string>& names);
  std::optional<NameRule> rule_of_names(const SchemaList& members);
  MachineId other_key(const NameRule& rule, const std::vector<std::string>& names);
  static void count_properties(const SchemaList& members, ObjectMachine& machine);
  ValueId property_value(const SchemaList& members, const std::string& name);
  MachineId constant(const Json& value);
  ValueId constant_value(const Json& value);

  Program& program_;
  Budget& budget_;
  SchemaValidator validator_;
  SchemaFlattener flattener_;
  std::map<SchemaList, ValueId> values_;
  std::map<ValueId, std::string> paths_;
  std::vector<Pending> pending_;
};

/// What an array or a text must have at least, at most: no answer is as long.
inline constexpr std::uint32_t kMostNeededItems = 100'000;
inline constexpr std::uint32_t kMostNeededCharacters = 1'000'000;

}  // namespace inferno::grammar
