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

/// Four 8 by 16-byte matrices in shared memory; lane l names row l % 8 of matrix l / 8, by its address or a
/// pointer, and gets bytes 4 (l % 4).. of row l / 4 of each.
__device__ inline void load_matrices(uint row, uint (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row));
}
__device__ inline void load_matrices(const void* row, uint (&words)[4]) {
  load_matrices(shared_address(row), words);
}

/// Copies to shared memory, to an address in it or to what a pointer points to, that the thread does not wait
/// for: kBytes (4, 8 or 16) of them, in groups.
template <int kBytes>
__device__ inline void copy_ahead(uint address, const void* source) {
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(source) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(source), "n"(kBytes)
                 : "memory");
  }
}
template <int kBytes>
__device__ inline void copy_ahead(void* target, const void* source) {
  copy_ahead<kBytes>(shared_address(target), source);
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most kLeft of the thread's groups are under way.
template <int kLeft>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Where the tokens of a warp's kTiles products stand: column c of product n is token
/// (c / 2) 2 kTiles + 2 n + c % 2, so that a lane's sums (columns 2q, 2q + 1 of each product) are of 2 kTiles
/// tokens one behind the other, and their scales come with few loads.
template <uint kTiles>
struct TokenOrder {
  static constexpr uint kTokens = kTiles * kMmaTokens;
  static __device__ uint of_column(uint tile, uint column) {
    return column / 2 * (2 * kTiles) + 2 * tile + column % 2;
  }
  /// What 16-byte chunks of a token's row are exclusive-ored with in shared memory, so that the eight rows
  /// that are read at once lie in different banks.
  static __device__ uint swizzle(uint token) { return token / (2 * kTiles) % 4 * 2 + token % 2; }

  /// Fragments b of one block for all products. `rows`: the warp's tokens, kStride bytes apart; `chunk`: the
  /// block's first.
  template <uint kStride>
  static __device__ void load(const std::byte* rows, uint chunk, uint (&b)[kTiles][2]) {
    static_assert(kTiles % 2 == 0);
    // What is exclusive-ored does not depend on the product, and blocks begin at even chunks.
    const uint matrix = threadIdx.x % 32 / 8;
    const uint token = of_column(matrix / 2, threadIdx.x % 8);
    const std::byte* row = rows + token * kStride + (chunk ^ (matrix % 2 ^ swizzle(token))) * 16;
#pragma unroll
    for (uint n = 0; n < kTiles; n += 2) {
      uint words[4];
      load_matrices(row + 2 * n * kStride, words);
      b[n][0] = words[0];
      b[n][1] = words[1];
      b[n + 1][0] = words[2];
      b[n + 1][1] = words[3];
    }
  }
};

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
