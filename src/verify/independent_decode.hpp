#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "quant/format.hpp"

namespace inferno::verify {

/// Element `index` of a row of blocks at `source`, in double precision, straight from the format's
/// definition: one element at a time, fields taken apart by arithmetic instead of bit tricks, nothing shared
/// with src/quant. nullopt for a format that is not defined here yet: `verify` then fails and says so.
std::optional<double> decode_element(quant::TensorType type, const std::byte* source, std::size_t index);

/// The value of an IEEE 754 binary number with `exponent_bits` and `fraction_bits`, by its definition.
double binary_value(unsigned long bits, int exponent_bits, int fraction_bits);

}  // namespace inferno::verify
