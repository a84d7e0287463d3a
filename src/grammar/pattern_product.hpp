#pragma once

#include <string_view>

#include "grammar/budget.hpp"
#include "grammar/pattern_dfa.hpp"

namespace inferno::grammar {

/// What both match (length bounds are not looked at). Throws PatternError if nothing does, or if it needs
/// more than kMaxDfaStates states or what is left of the budget.
PatternDfa intersection(const PatternDfa& a, const PatternDfa& b, Budget& budget);
/// What `a` matches and `b` does not.
PatternDfa difference(const PatternDfa& a, const PatternDfa& b, Budget& budget);

/// The automaton of a pattern as JSON Schema has it, found anywhere unless anchored. Unlike parse_pattern it
/// takes look-ahead at the very beginning of the text, `^(?=...)(?!...)`, which is the intersection with (or
/// the difference from) what begins so.
PatternDfa schema_pattern(std::string_view pattern, Budget& budget);

}  // namespace inferno::grammar
