#include "quant/block.hpp"

#include <cmath>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "quant/half.hpp"

namespace inferno::quant {

float largest_element(const float* source, std::size_t elements, std::string_view format) {
  float largest = 0.0F;
  for (std::size_t i = 0; i < elements; ++i) {
    if (!std::isfinite(source[i])) {
      throw Error(
          fmt::format("cannot quantize to {}: expected finite values, found {} at element {} of a block",
                      format, source[i], i));
    }
    if (std::fabs(source[i]) > std::fabs(largest)) largest = source[i];
  }
  return largest;
}

BlockScale block_scale(float scale, std::string_view format) {
  BlockScale result{float_to_half(scale), 0.0F};
  if ((result.half & 0x7FFFU) == 0x7C00U) {
    throw Error(
        fmt::format("cannot quantize to {}: expected block scales below 65520 (they are stored as float16), "
                    "found {}; keep this tensor in f32 or bf16",
                    format, scale));
  }
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  // A subnormal scale has an infinite reciprocal; as a half it is zero, so the block is zero anyway.
  if (std::isfinite(inverse)) result.inverse = inverse;
  return result;
}

}  // namespace inferno::quant
