#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/elementary.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/kernels/unroll.hpp"

namespace inferno::cpu {

/// Vectors of one token: norms, quantization, activation, rotation.
template <class Isa>
struct Vectors {
  using Floats = typename Isa::Floats;
  using Ints = typename Isa::Ints;
  using Math = Elementary<Isa>;

  static constexpr std::size_t kLanes = 16;
  static constexpr std::size_t kColumns = kBlockColumns;
  static constexpr std::size_t kTile = Isa::kTileTokens;

  /// Lanes [0, count) of p, zero in the others.
  INFERNO_INLINE static Floats load_some(const float* p, std::size_t count) {
    if (count >= kLanes) return Isa::load(p);
    float lanes[kLanes] = {};
    __builtin_memcpy(lanes, p, count * sizeof(float));
    return Isa::load(lanes);
  }
  INFERNO_INLINE static void store_some(float* p, std::size_t count, Floats x) {
    if (count >= kLanes) return Isa::store(p, x);
    float lanes[kLanes];
    Isa::store(lanes, x);
    __builtin_memcpy(p, lanes, count * sizeof(float));
  }

  /// What the integer sum of a block starts from: it takes the weights' bias back, and if scales are fused it
  /// starts from the bits of 1.5 * 2^23, so that it ends as the bits of 1.5 * 2^23 + dot.
  INFERNO_INLINE static std::int32_t offset_of(Ints low, Ints high) {
    constexpr std::int32_t kStart = Isa::kFusedScale ? Math::kRounderBits : 0;
    if constexpr (Isa::kWeightBias == 0) return kStart;
    return kStart - Isa::kWeightBias * Isa::sum_lanes(Isa::add(low, high));
  }

  /// Quantizes `blocks` blocks of what `load(column)` gives 16 of, and hands each to `take(block, integers 0
  /// to 15, integers 16 to 31, scale)`. Scales are worked out for sixteen blocks at once.
  template <class Load, class Take>
  INFERNO_INLINE static void quantize_blocks(std::size_t blocks, const Load& load, const Take& take) {
    for (std::size_t first = 0; first < blocks; first += kLanes) {
      const std::size_t count = blocks - first < kLanes ? blocks - first : kLanes;
      std::int32_t largest[kLanes] = {};
      for (std::size_t i = 0; i < count; ++i) {
        const auto column = (first + i) * kColumns;
        largest[i] = Isa::largest_lane(
            Isa::larger(Math::magnitude_bits(load(column)), Math::magnitude_bits(load(column + kLanes))));
      }
      float scales[kLanes];
      float inverses[kLanes];
      Isa::store(scales, Math::block_scale(Isa::load_ints(largest), arith::kInt8Step));
      Isa::store(inverses, Math::block_inverse(Isa::load_ints(largest), arith::kInt8Levels));
      for (std::size_t i = 0; i < count; ++i) {
        const auto column = (first + i) * kColumns;
        const Floats inverse = Isa::broadcast(inverses[i]);
        take(first + i, Math::quantize(load(column), inverse), Math::quantize(load(column + kLanes), inverse),
             scales[i]);
      }
    }
  }

  /// To token `token` of a batch.
  template <class Load>
  INFERNO_INLINE static void quantize_token(const QuantizedBatch& target, std::uint32_t token,
                                            const Load& load) {
    const std::size_t blocks = target.blocks();
    const std::size_t first = token / kTile * blocks * kTile + token % kTile;
    std::int8_t* values = target.values + first * kColumns;
    float* scales = target.scales + first;
    std::int32_t* offsets = target.offsets + first;
    quantize_blocks(blocks, load,
                    [&](std::size_t block, Ints low, Ints high, float scale) INFERNO_INLINE_LAMBDA {
                      Isa::store_bytes(values + block * kTile * kColumns, low);
                      Isa::store_bytes(values + block * kTile * kColumns + kLanes, high);
                      scales[block * kTile] = scale;
                      offsets[block * kTile] = offset_of(low, high);
                    });
  }

  /// The strided sum of what `load(column)` gives 16 of, from `width` on zero.
  template <class Load>
  INFERNO_INLINE static float strided_sum(std::size_t width, const Load& load) {
    Floats low = Isa::zero();
    Floats high = Isa::zero();
    for (std::size_t i = 0; i < width; i += 2 * kLanes) {
      low = Isa::add(low, load(i));
      if (i + kLanes < width) high = Isa::add(high, load(i + kLanes));
    }
    return Isa::tree_sum(Isa::add(low, high));
  }

  INFERNO_INLINE static float inverse_rms(const float* x, std::size_t width, float inverse_length,
                                          float epsilon) {
    const float squares = strided_sum(width, [=](std::size_t i) INFERNO_INLINE_LAMBDA {
      const Floats value = load_some(x + i, width - i);
      return Isa::multiply(value, value);
    });
    const Floats mean = Isa::multiply(Isa::broadcast(squares), Isa::broadcast(inverse_length));
    return Isa::first(Math::reciprocal_sqrt(Isa::add(mean, Isa::broadcast(epsilon))));
  }

  static float norm_quantize(const float* x, const float* weight, std::uint32_t width, float inverse_length,
                             float epsilon, const QuantizedBatch& target, std::uint32_t token) {
    const auto load = [=](std::size_t i) INFERNO_INLINE_LAMBDA {
      if (i >= width) return Isa::zero();
      return Isa::multiply(load_some(x + i, width - i), load_some(weight + i, width - i));
    };
    quantize_token(target, token, load);
    return inverse_rms(x, width, inverse_length, epsilon);
  }

  static float norm_float(const float* x, const float* weight, std::uint32_t width, float inverse_length,
                          float epsilon, float* xw) {
    const float result = inverse_rms(x, width, inverse_length, epsilon);
    for (std::size_t i = 0; i < width; i += kLanes) {
      store_some(xw + i, width - i,
                 Isa::multiply(load_some(x + i, width - i), load_some(weight + i, width - i)));
    }
    return result;
  }

  static void quantize(const float* x, const QuantizedBatch& target, std::uint32_t token) {
    quantize_token(target, token, [=](std::size_t i) INFERNO_INLINE_LAMBDA { return Isa::load(x + i); });
  }

  static void swiglu(float* gate, const float* up, std::size_t count) {
    for (std::size_t i = 0; i < count; i += kLanes) {
      store_some(gate + i, count - i,
                 Math::swiglu(load_some(gate + i, count - i), load_some(up + i, count - i)));
    }
  }

  static void add(float* y, const float* x, std::size_t count) {
    for (std::size_t i = 0; i < count; i += kLanes) {
      store_some(y + i, count - i, Isa::add(load_some(y + i, count - i), load_some(x + i, count - i)));
    }
  }

  static void norm_rotate(float* head, const float* weight, std::uint32_t head_dim, float inverse_length,
                          float epsilon, const float* sine, const float* cosine) {
    const std::size_t half = head_dim / 2;
    const Floats factor = Isa::broadcast(inverse_rms(head, head_dim, inverse_length, epsilon));
    for (std::size_t i = 0; i < half; i += kLanes) {
      const std::size_t count = half - i;
      const auto normed = [=](std::size_t at) INFERNO_INLINE_LAMBDA {
        return Isa::multiply(Isa::multiply(load_some(head + at, count), factor),
                             load_some(weight + at, count));
      };
      const Floats a = normed(i);
      const Floats b = normed(i + half);
      const Floats sin = load_some(sine + i, count);
      const Floats cos = load_some(cosine + i, count);
      store_some(head + i, count, Isa::subtract(Isa::multiply(a, cos), Isa::multiply(b, sin)));
      store_some(head + half + i, count, Isa::add(Isa::multiply(b, cos), Isa::multiply(a, sin)));
    }
  }

  static void quantize_query(const float* head, std::uint32_t head_dim, float softmax_scale,
                             std::int8_t* values, float* scales, std::int32_t* offsets) {
    const Floats factor = Isa::broadcast(softmax_scale);
    quantize_blocks(blocks_of(head_dim), load_padded(head, head_dim),
                    [=](std::size_t block, Ints low, Ints high, float scale) INFERNO_INLINE_LAMBDA {
                      Isa::store_bytes(values + block * kColumns, low);
                      Isa::store_bytes(values + block * kColumns + kLanes, high);
                      scales[block] = Isa::first(Isa::multiply(Isa::broadcast(scale), factor));
                      offsets[block] = offset_of(low, high);
                    });
  }

  static void append_kv(const float* key, const float* value, std::uint32_t head_dim, const CacheView& cache,
                        std::uint32_t offset) {
    const std::size_t blocks = blocks_of(head_dim);
    const CacheIndex index{cache.positions, blocks};
    quantize_blocks(blocks, load_padded(key, head_dim),
                    [&](std::size_t block, Ints low, Ints high, float scale) INFERNO_INLINE_LAMBDA {
                      std::int8_t integers[kColumns];
                      Isa::store_bytes(integers, low);
                      Isa::store_bytes(integers + kLanes, high);
                      for (std::size_t d = 0; d < kColumns; d += kQuad) {
                        std::uint32_t quad;
                        __builtin_memcpy(&quad, integers + d, kQuad);
                        quad ^= 0x80808080U;  // + 128 in each byte
                        __builtin_memcpy(cache.keys + index.key(offset, block * kColumns + d), &quad, kQuad);
                      }
                      cache.key_scales[index.key_scale(offset, block)] = scale;
                    });
    quantize_blocks(blocks, load_padded(value, head_dim),
                    [&](std::size_t block, Ints low, Ints high, float scale) INFERNO_INLINE_LAMBDA {
                      std::int8_t integers[kColumns];
                      Isa::store_bytes(integers, low);
                      Isa::store_bytes(integers + kLanes, high);
                      std::int8_t* target = cache.values + index.value(offset, block * kColumns);
                      for (std::size_t d = 0; d < kColumns; ++d) target[d * kQuad] = integers[d];
                      cache.value_scales[index.value_scale(offset, block)] = scale;
                    });
  }

 private:
  INFERNO_INLINE static std::size_t blocks_of(std::size_t head_dim) {
    return (head_dim + kColumns - 1) / kColumns;
  }
  INFERNO_INLINE static auto load_padded(const float* x, std::size_t count) {
    return [=](std::size_t i)
               INFERNO_INLINE_LAMBDA { return i < count ? load_some(x + i, count - i) : Isa::zero(); };
  }
};

}  // namespace inferno::cpu
