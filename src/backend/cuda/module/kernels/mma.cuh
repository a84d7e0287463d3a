#pragma once

#include "backend/cuda/module/kernels/common.cuh"

/// Integer products on the tensor cores.
namespace inferno::cuda {

/// Rows and tokens of one product; its depth is a block of 32 columns.
constexpr uint kMmaRows = 16;
constexpr uint kMmaTokens = 8;

/// d = a b + start: a [16][32], b [32][8] of int8, d [16][8] of int32. With g = lane / 4 and q = lane % 4 a
/// lane has
///   a: columns 4q.. of row g, of row g + 8, then the same of columns 16 + 4q..
///   b: rows 4q.. and 16 + 4q.. of column g
///   d: columns 2q, 2q + 1 of row g, then of row g + 8
__device__ inline void mma_s8(const uint (&a)[4], const uint (&b)[2], int start, int (&d)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start));
}

/// Half number `index` of the eight in 16 bytes.
__device__ inline float half_of(const int4& packed, uint index) {
  const uint words[4] = {static_cast<uint>(packed.x), static_cast<uint>(packed.y),
                         static_cast<uint>(packed.z), static_cast<uint>(packed.w)};
  return __half2float(__ushort_as_half(static_cast<unsigned short>(words[index / 2] >> (index % 2 * 16))));
}

/// The scales of the two rows that a lane has of a product.
///
/// (dot * weight scale) takes one instruction: a dot product begins at kDotStart, so its bits are the float
/// kRounder + dot, and fma(kRounder + dot, scale, -kRounder * scale) is dot * scale rounded once: kRounder
/// has two significant bits and the scale, once a half, eleven, so the product of both is exact.
struct ScaledRows {
  float scale[2];
  float offset[2];

  __device__ ScaledRows(float upper, float lower)
      : scale{upper, lower}, offset{multiply(-arith::kRounder, upper), multiply(-arith::kRounder, lower)} {}

  /// sums += (a b * weight scale) * token scale.
  __device__ void accumulate(const uint (&a)[4], const uint (&b)[2], const float (&token_scales)[2],
                             float (&sums)[4]) const {
    int dots[4];
    mma_s8(a, b, kDotStart, dots);
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const float product = __fmaf_rn(__int_as_float(dots[i]), scale[i / 2], offset[i / 2]);
      sums[i] = add(sums[i], multiply(product, token_scales[i % 2]));
    }
  }
};

}  // namespace inferno::cuda
