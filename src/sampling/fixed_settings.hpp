#pragma once

#include <cmath>
#include <cstdint>

#include "sampling/fixed_exp.hpp"

/// Settings as the integers and the float that the draw is made with, on whatever processor.
namespace inferno::sampling {

/// A share in units of 2^-31, rounded up; exact for shares from 2^-7 on. Double is exact for every float
/// share.
inline std::uint32_t fixed_share(float share) {
  return static_cast<std::uint32_t>(std::ceil(static_cast<double>(share) * kOne));
}

/// What a logit's distance from the largest is multiplied by before `weight_of`.
inline float weight_scale(float temperature) {
  return static_cast<float>(0x1p27 * 1.4426950408889634 / static_cast<double>(temperature));
}

}  // namespace inferno::sampling
