#pragma once

#include <span>

#include "backend/gpu/device.hpp"
#include "backend/gpu/weight_upload.hpp"

namespace inferno::gpu {

/// Vectors that matrices multiply, in the forms that their formats read; the others may be left out.
struct ProductInput {
  const Buffer* floats = nullptr;   ///< [T][stride]
  const Buffer* quants = nullptr;   ///< int8 [T][stride]
  const Buffer* scales = nullptr;   ///< float [T][stride / 32]
  const Buffer* factors = nullptr;  ///< float [T]
  std::uint32_t stride = 0;         ///< columns padded
};

/// The kernel that multiplies weights of a kind by up to kMatvecTokens vectors, or by any number.
Kernel product_kernel(WeightKind kind, bool few);

/// y (+)= W x for pieces of weights; `scaled`: times the factors. Without a barrier.
void encode_product(Recorder& recorder, std::span<const WeightPiece> pieces, const ProductInput& x,
                    std::uint32_t tokens, bool scaled, const Buffer& y, std::uint32_t y_stride,
                    bool accumulate);

}  // namespace inferno::gpu
