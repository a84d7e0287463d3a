#pragma once

#include <cstddef>
#include <deque>
#include <unordered_set>
#include <vector>

#include "grammar/budget.hpp"
#include "grammar/json_document.hpp"
#include "grammar/schema_keywords.hpp"
#include "grammar/schema_validator.hpp"

namespace inferno::grammar {

/// Schemas that must hold together for one value.
using SchemaList = std::vector<const Json*>;

/// Resolves what stands between a schema and a value: references, allOf, anyOf and oneOf.
class SchemaFlattener {
 public:
  SchemaFlattener(SchemaValidator& validator, Budget& budget) : validator_(validator), budget_(budget) {}

  /// The alternatives: a value matches all of `schemas` if it matches all members of one of these (without
  /// their references and combinations, which are resolved). An alternative without members is any value.
  /// Checks the keywords of all that it comes by. Throws SchemaError: also for a oneOf whose alternatives may
  /// hold together.
  std::vector<SchemaList> flatten(const SchemaList& schemas);

 private:
  /// How a schema was come by, to find those that lead back to themselves.
  struct Link {
    const Json* schema = nullptr;
    const Link* before = nullptr;
  };
  struct Alternative {
    std::vector<const Link*> todo;
    SchemaList members;
  };

  const Link* link(const Json& schema, const Link* before);
  bool resolve(Alternative& alternative, std::vector<Alternative>& forks);
  void fork(const Alternative& alternative, const Link& at, const Json& options, const Json* others,
            std::vector<Alternative>& forks);
  void check_exclusive(const Json& one_of);
  bool disjoint(const SchemaList& a, const SchemaList& b, int depth);
  bool objects_disjoint(const SchemaList& a, const SchemaList& b, int depth);
  bool values_disjoint(const SchemaList& a, const SchemaList& b);

  SchemaValidator& validator_;
  Budget& budget_;
  std::deque<Link> links_;
  std::unordered_set<const Json*> checked_;
  std::unordered_set<const Json*> exclusive_;
};

/// The types of the values that are written for schemas that must hold together: without any `type`, only
/// those that their other keywords speak of.
TypeSet written_types(const SchemaList& members);

/// Alternatives of one value, at most.
inline constexpr std::size_t kMaxAlternatives = 1000;

}  // namespace inferno::grammar
