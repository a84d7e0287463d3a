#pragma once

#include "backend/cuda/module/kernels/common.cuh"

/// What workgroups of attention take in turn, and the cache that they find.
namespace inferno::cuda {

/// The items of a grid (splits, K, tiles), given or read by the device. Workgroups take them in turn.
struct AttentionGrid {
  uint splits, kv_heads, tiles;

  __device__ AttentionGrid(const gpu::Grid& given, const uint* indirect)
      : splits(indirect != nullptr ? indirect[0] : given.x),
        kv_heads(indirect != nullptr ? indirect[1] : given.y),
        tiles(indirect != nullptr ? indirect[2] : given.z) {}
};

/// What one workgroup attends to at a time.
struct AttentionItem {
  bool valid = false;
  uint split = 0, kv_head = 0;
  uint4 tile = {};  // first token, tokens, position of the first, offset of the row's table
  uint begin = 0;   // first position of the split
  uint end = 0;     // behind the last position that any of the tile's tokens sees
};

/// The workgroup's items, one after the other; those of which no token sees anything are left out. (What
/// scratch there is for splits keeps their number far below 2^32.)
class AttentionItems {
 public:
  /// `tiles`: the first of the grid's.
  __device__ AttentionItems(const AttentionGrid& grid, const uint4* tiles)
      : grid_(grid), tiles_(tiles), count_(grid.splits * grid.kv_heads * grid.tiles), index_(blockIdx.x) {
    ask();
  }

  /// The tile of the item after this one is asked for, and not waited for.
  __device__ AttentionItem next() {
    while (index_ < count_) {
      AttentionItem item{true, index_ % grid_.splits, index_ / grid_.splits % grid_.kv_heads, asked_};
      item.begin = item.split * arith::kSplit;
      item.end = min(item.begin + arith::kSplit, item.tile.z + item.tile.y);
      index_ += gridDim.x;
      ask();
      if (item.begin < item.end) return item;
    }
    return {};
  }

 private:
  __device__ void ask() {
    if (index_ < count_) asked_ = tiles_[index_ / grid_.splits / grid_.kv_heads];
  }

  AttentionGrid grid_;
  const uint4* tiles_;
  uint count_, index_;
  uint4 asked_ = {};
};

/// One KV head of one cache block of 256 positions, as cpu::BlockLayout has it.
template <uint kBlocks>
struct CachedHead {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  static constexpr std::size_t kPlane = std::size_t{arith::kSplit} * kDim;
  static constexpr std::size_t kScalePlane = std::size_t{arith::kSplit} * kBlocks * sizeof(float);
  static constexpr std::size_t kBytes = 2 * (kPlane + kScalePlane);
  const std::byte* base;

  __device__ CachedHead(const std::byte* cache, uint block, uint kv_heads, uint kv_head)
      : base(cache + (std::size_t{block} * kv_heads + kv_head) * kBytes) {}

  __device__ const std::byte* keys() const { return base; }
  __device__ const float* key_scales() const { return reinterpret_cast<const float*>(base + kPlane); }
  __device__ const std::byte* values() const { return base + kPlane + kScalePlane; }
  __device__ const float* value_scales() const {
    return reinterpret_cast<const float*>(base + 2 * kPlane + kScalePlane);
  }
};

/// The larger, or NaN if one is.
__device__ inline float larger_or_nan(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a;  // never run: the module has no code for devices before 8.0
#endif
}

/// arith::exponential of x <= 0, in fewer steps: the last multiplication is by a power of two and exact, so
/// the exponent is added to. For NaN the result has no meaning.
__device__ inline float exponential_of_negative(float x) {
  const float clamped = larger_or_nan(x, -87.0F);
  const float scaled = multiply(clamped, 1.44269504F);
  const float shifted = add(scaled, arith::kRounder);
  const float fraction = arith::subtract(scaled, arith::subtract(shifted, arith::kRounder));
  float power = 0.00015403530F;
  power = add(multiply(power, fraction), 0.0013333558F);
  power = add(multiply(power, fraction), 0.0096181291F);
  power = add(multiply(power, fraction), 0.0555041087F);
  power = add(multiply(power, fraction), 0.2402265070F);
  power = add(multiply(power, fraction), 0.6931471806F);
  power = add(multiply(power, fraction), 1.0F);
  return __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) << 23U));
}

}  // namespace inferno::cuda
