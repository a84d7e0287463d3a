#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "chat/jinja/value.hpp"

namespace inferno::jinja {

enum class Operator : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparison : std::uint8_t {
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

/// Python's ==. `budget` may be nullptr.
bool equals(Budget* budget, const Value& left, const Value& right);
/// Equal values have equal hashes; lists and dicts have none.
std::optional<std::size_t> hash_of(const Value& value);
/// Python's <: negative, 0 or positive. Throws for types that have no order.
int order(Budget& budget, const Value& left, const Value& right);
/// Python's `needle in haystack`.
bool contains(Budget& budget, const Value& haystack, const Value& needle);
bool compare(Budget& budget, Comparison comparison, const Value& left, const Value& right);

Value binary(Budget& budget, Operator op, const Value& left, const Value& right);
Value negate(Budget& budget, const Value& operand);
Value plus(Budget& budget, const Value& operand);

/// Python's bool().
bool truth(const Value& value);
/// Python's len(); nothing for what has none.
std::optional<std::int64_t> length_of(const Value& value);

/// Throws if the value is undefined: "'x' is undefined".
void require_defined(const Budget& budget, const Value& value);
/// The value of a number as float.
double as_real(const Budget& budget, const Value& value);

}  // namespace inferno::jinja
