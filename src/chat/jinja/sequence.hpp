#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// Goes through a value as a for loop does: characters, items, keys, numbers. Throws for what cannot be gone
/// through.
class Iteration {
 public:
  Iteration(Budget& budget, const Value& value);
  std::optional<Value> next();

 private:
  Budget& budget_;
  Value value_;
  std::size_t place_ = 0;  ///< index, or byte offset in a string
};

bool is_iterable(const Value& value);
/// All that a for loop would see.
Values collect(Budget& budget, const Value& value);

/// Python's sequence[index]; nothing if the index is beyond its ends, or the value is no sequence.
std::optional<Value> element(Budget& budget, const Value& sequence, std::int64_t index);
/// Python's sequence[start:stop:step]; parts that were left out are none. Nothing if the value is no
/// sequence.
std::optional<Value> slice(Budget& budget, const Value& sequence, const Value& start, const Value& stop,
                           const Value& step);
/// One character of a string.
Value character(Budget& budget, const Value& string, std::size_t offset);

}  // namespace inferno::jinja
