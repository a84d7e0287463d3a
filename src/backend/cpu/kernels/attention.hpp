#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/constants.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/vectors.hpp"

namespace inferno::cpu {

/// Attention over int8 keys and values.
template <class Isa>
struct Attention {
  using Floats = typename Isa::Floats;
  using Ints = typename Isa::Ints;
  using Math = Elementary<Isa>;

  static constexpr std::size_t kLanes = kKeyLanes;
  static constexpr std::size_t kDims = kScaleDims;
  static constexpr std::size_t kQuads = kDims / kQuad;
  static constexpr std::size_t kSplitPositions = arith::kSplit;
  /// Vectors of attention weights that are stored together.
  static constexpr std::size_t kStored = 4;

  /// float(dot) of a block of a key and a query.
  INFERNO_INLINE static Floats dot_of(typename Isa::Dots dots) {
    if constexpr (Isa::kFusedScale) {
      return Isa::subtract(Isa::from_bits(Isa::finish(dots)), Isa::broadcast(Math::kRounder));
    } else {
      return Isa::to_float(Isa::finish(dots));
    }
  }

  /// Scores of kH heads for kP groups of 16 positions. kPrefetch: fetches the groups after them.
  template <std::size_t kP, std::size_t kH, bool kPrefetch>
  INFERNO_INLINE static void scores_tile(const QueryGroup& query, std::size_t head, const std::uint8_t* keys,
                                         const float* key_scales, float* scores, std::size_t stride) {
    const std::size_t blocks = query.blocks;
    const std::size_t dims = blocks * kDims;
    const std::int8_t* values = query.values + head * dims;
    const float* scales = query.scales + head * blocks;
    const std::int32_t* offsets = query.offsets + head * blocks;
    Floats sums[kP][kH];
    unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
      unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA { sums[p.value][h.value] = Isa::zero(); });
    });
    for (std::size_t b = 0; b < blocks; ++b) {
      typename Isa::Dots dots[kP][kH];
      unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
        const auto start = Isa::start(offsets + h.value * blocks + b);
        unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA { dots[p.value][h.value] = start; });
      });
      unroll<kQuads / Isa::kGroups>([&](auto g) INFERNO_INLINE_LAMBDA {
        constexpr std::size_t kQuad0 = g.value * Isa::kGroups;
        typename Isa::Weights w[kP];
        unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
          const auto* at = keys + p.value * kLanes * dims + (b * kQuads + kQuad0) * kLanes * kQuad;
          if constexpr (kPrefetch) {
            for (std::size_t i = 0; i < Isa::kGroups; ++i) {
              Isa::prefetch(at + kP * kLanes * dims + i * kLanes * kQuad);
            }
          }
          w[p.value] = Isa::load_weights(at);
        });
        unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
          const auto x = Isa::load_activations(values + h.value * dims + b * kDims + kQuad0 * kQuad);
          unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
            dots[p.value][h.value] = Isa::accumulate(dots[p.value][h.value], w[p.value], x);
          });
        });
      });
      unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
        const float* at = key_scales + (p.value * blocks + b) * kLanes;
        if constexpr (kPrefetch) Isa::prefetch(at + kP * blocks * kLanes);
        const Floats key_scale = Isa::load(at);
        unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
          const Floats product = Isa::multiply(dot_of(dots[p.value][h.value]), key_scale);
          const Floats scale = Isa::broadcast(scales[h.value * blocks + b]);
          sums[p.value][h.value] = Isa::add(sums[p.value][h.value], Isa::multiply(product, scale));
        });
      });
    }
    unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
      unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
        Isa::store(scores + (head + h.value) * stride + p.value * kLanes, sums[p.value][h.value]);
      });
    });
  }

  /// All heads from `head` on, kH at a time, for kP groups of positions. The first heads fetch memory.
  template <std::size_t kP, std::size_t kH = Isa::kScoreHeads>
  INFERNO_INLINE static void scores_heads(const QueryGroup& query, std::size_t head, const std::uint8_t* keys,
                                          const float* key_scales, float* scores, std::size_t stride) {
    for (; head + kH <= query.heads; head += kH) {
      if (head == 0 && kPrefetchStreams) {
        scores_tile<kP, kH, true>(query, head, keys, key_scales, scores, stride);
      } else {
        scores_tile<kP, kH, false>(query, head, keys, key_scales, scores, stride);
      }
    }
    if constexpr (kH > 1) scores_heads<kP, kH - 1>(query, head, keys, key_scales, scores, stride);
  }

  static void scores(const QueryGroup& query, const CacheView& cache, std::uint32_t count, float* scores,
                     std::size_t stride) {
    constexpr std::size_t kP = Isa::kScoreGroups;
    const std::size_t group_bytes = kLanes * query.blocks * kDims;
    const std::size_t groups = (count + kLanes - 1) / kLanes;
    std::size_t group = 0;
    const auto step = [&](auto p) INFERNO_INLINE_LAMBDA {
      scores_heads<decltype(p)::value>(query, 0, cache.keys + group * group_bytes,
                                       cache.key_scales + group * query.blocks * kLanes,
                                       scores + group * kLanes, stride);
      group += p.value;
    };
    while (group + kP <= groups) step(Index<kP>{});
    if constexpr (kP > 1) {
      while (group < groups) step(Index<1>{});
    }
  }

  /// Lanes [0, count) of x, zero in the others.
  INFERNO_INLINE static Floats first_lanes(Floats x, std::size_t count) {
    static constexpr std::int32_t kNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return Isa::select_less(Isa::load_ints(kNumbers), Isa::broadcast_int(static_cast<std::int32_t>(count)), x,
                            Isa::zero());
  }

  static void softmax(float* scores, std::uint32_t count, float* maximum, float* denominator) {
    // Behind the last score stands the first: it changes no maximum. All lanes start from it because a
    // comparison passes a NaN over, unless it was there first.
    for (std::size_t i = count; i % kLanes != 0; ++i) scores[i] = scores[0];
    constexpr std::size_t kChains = 4;
    Floats largest[kChains];
    for (auto& chain : largest) chain = Isa::broadcast(scores[0]);
    std::size_t i = 0;
    for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
      unroll<kChains>([&](auto c) INFERNO_INLINE_LAMBDA {
        largest[c.value] = Isa::larger(largest[c.value], Isa::load(scores + i + c.value * kLanes));
      });
    }
    for (; i < count; i += kLanes) largest[0] = Isa::larger(largest[0], Isa::load(scores + i));
    *maximum = Isa::largest_lane(
        Isa::larger(Isa::larger(largest[0], largest[1]), Isa::larger(largest[2], largest[3])));

    const Floats shift = Isa::broadcast(*maximum);
    Floats low = Isa::zero();  // partial sums 0 to 15, then 16 to 31
    Floats high = Isa::zero();
    const auto weight = [&](std::size_t at) INFERNO_INLINE_LAMBDA {
      Floats p = Math::exponential(Isa::subtract(Isa::load(scores + at), shift));
      if (at + kLanes > count) p = first_lanes(p, count - at);
      Isa::store(scores + at, p);
      return p;
    };
    for (i = 0; i + kLanes < count; i += 2 * kLanes) {
      low = Isa::add(low, weight(i));
      high = Isa::add(high, weight(i + kLanes));
    }
    if (i < count) low = Isa::add(low, weight(i));
    *denominator = Isa::tree_sum(Isa::add(low, high));
  }

  static void quantize_weights(const float* p, const float* value_scales, std::uint32_t count,
                               std::uint32_t blocks, std::byte* integers, float* scales) {
    // Scales are worked out for up to sixteen blocks at once.
    for (std::size_t first = 0; first < blocks; first += kLanes) {
      const std::size_t some = blocks - first < kLanes ? blocks - first : kLanes;
      std::int32_t largest[kLanes] = {};
      for (std::size_t b = 0; b < some; ++b) {
        largest[b] = largest_weight(p, value_scales + (first + b) * kSplitPositions, count);
      }
      float all_scales[kLanes];
      float inverses[kLanes];
      Isa::store(all_scales, Math::block_scale(Isa::load_ints(largest), arith::kWeightStep));
      Isa::store(inverses, Math::block_inverse(Isa::load_ints(largest), arith::kWeightLevels));
      for (std::size_t b = first; b < first + some; ++b) {
        scales[b] = all_scales[b - first];
        round_weights(p, value_scales + b * kSplitPositions, count, inverses[b - first],
                      integers + b * SplitWeights::kBytes);
      }
    }
  }

  /// p * value_scale of sixteen positions from `at` on. Scales from `count` on are left over from other
  /// sequences; nothing may be made of them.
  INFERNO_INLINE static Floats weights_at(const float* p, const float* value_scales, std::size_t at,
                                          std::size_t count) {
    const Floats product = Isa::multiply(Isa::load(p + at), Isa::load(value_scales + at));
    return at + kLanes <= count ? product : first_lanes(product, count - at);
  }

  INFERNO_INLINE static std::int32_t largest_weight(const float* p, const float* value_scales,
                                                    std::size_t count) {
    Ints even = Isa::broadcast_int(0);
    Ints odd = Isa::broadcast_int(0);
    std::size_t i = 0;
    for (; i + kLanes < count; i += 2 * kLanes) {
      even = Isa::larger(even, Math::magnitude_bits(weights_at(p, value_scales, i, count)));
      odd = Isa::larger(odd, Math::magnitude_bits(weights_at(p, value_scales, i + kLanes, count)));
    }
    if (i < count) even = Isa::larger(even, Math::magnitude_bits(weights_at(p, value_scales, i, count)));
    return Isa::largest_lane(Isa::larger(even, odd));
  }

  INFERNO_INLINE static void round_weights(const float* p, const float* value_scales, std::size_t count,
                                           float inverse, std::byte* integers) {
    if (inverse == 0.0F) {  // whatever the weights are, an infinity or NaN among them: all zero
      __builtin_memset(integers, 0, SplitWeights::kBytes);
      return;
    }
    const Floats factor = Isa::broadcast(inverse);
    std::size_t i = 0;
    for (; i + kStored * kLanes <= count; i += kStored * kLanes) {
      Ints rounded[kStored];
      unroll<kStored>([&](auto j) INFERNO_INLINE_LAMBDA {
        const std::size_t at = i + j.value * kLanes;
        const Floats product = Isa::multiply(Isa::load(p + at), Isa::load(value_scales + at));
        rounded[j.value] = Math::round_to_int(Isa::multiply(product, factor));
      });
      Isa::store_weights(integers, i, rounded);
    }
    for (; i < kSplitPositions; i += kStored * kLanes) {
      Ints rounded[kStored];
      unroll<kStored>([&](auto j) INFERNO_INLINE_LAMBDA {
        const std::size_t at = i + j.value * kLanes;
        rounded[j.value] = Isa::broadcast_int(0);
        if (at < count) {
          rounded[j.value] =
              Math::round_to_int(Isa::multiply(weights_at(p, value_scales, at, count), factor));
        }
      });
      Isa::store_weights(integers, i, rounded);
    }
  }

  /// kH heads, one block of 32 dimensions: `integers` of the first head at the first position, whose blocks
  /// take `head_bytes` a head; `sums` [heads][head_dims].
  template <std::size_t kH, bool kPrefetch>
  INFERNO_INLINE static void weigh_tile(const std::byte* integers, std::size_t head_bytes,
                                        const std::int8_t* values, std::size_t count, std::int32_t* sums,
                                        std::size_t head_dims) {
    constexpr std::size_t kV = Isa::kValueVectors;
    for (std::size_t d = 0; d < kDims; d += kV * kLanes) {
      typename Isa::ValueSums parts[kH][kV];
      const std::byte* weights[kH];
      unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
        weights[h.value] = integers + h.value * head_bytes;
        unroll<kV>([&](auto v) INFERNO_INLINE_LAMBDA { parts[h.value][v.value] = Isa::no_values(); });
      });
      const std::int8_t* at = values + d * kQuad;
      const auto step = [&](std::size_t i, const auto& load_weights) INFERNO_INLINE_LAMBDA {
        decltype(Isa::load_values(values)) vectors[kV];
        unroll<kV>([&](auto v) INFERNO_INLINE_LAMBDA {
          if constexpr (kPrefetch) {
            Isa::prefetch(at + v.value * kLanes * kQuad + kNear);
            Isa::prefetch_far(at + v.value * kLanes * kQuad + kFar);
          }
          vectors[v.value] = Isa::load_values(at + v.value * kLanes * kQuad);
        });
        unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
          const auto four = load_weights(weights[h.value] + i * Isa::kWeightBytes);
          unroll<kV>([&](auto v) INFERNO_INLINE_LAMBDA {
            parts[h.value][v.value] = Isa::weigh(parts[h.value][v.value], four, vectors[v.value]);
          });
        });
        at += kDims * kQuad;
      };
      std::size_t i = 0;
      for (; i + kQuad <= count; i += kQuad) {
        step(i, [](const std::byte* p) INFERNO_INLINE_LAMBDA { return Isa::load_value_weights(p, kQuad); });
      }
      // In cache blocks of fewer than four positions the split's last weights are followed by nothing.
      const std::size_t left = count - i;
      if (left != 0) {
        step(i, [=](const std::byte* p) INFERNO_INLINE_LAMBDA { return Isa::load_value_weights(p, left); });
      }
      unroll<kH>([&](auto h) INFERNO_INLINE_LAMBDA {
        unroll<kV>([&](auto v) INFERNO_INLINE_LAMBDA {
          std::int32_t* sum = sums + h.value * head_dims + d + v.value * kLanes;
          Isa::store_ints(sum, Isa::add(Isa::load_ints(sum), Isa::finish(parts[h.value][v.value])));
        });
      });
    }
  }

  /// All heads from `head` on, kH at a time. The first of them fetch memory.
  template <std::size_t kH = Isa::kValueHeads>
  INFERNO_INLINE static void weigh_heads(const std::byte* integers, std::size_t head, std::size_t heads,
                                         std::size_t blocks, const std::int8_t* values, std::size_t count,
                                         std::int32_t* sums) {
    const std::size_t head_bytes = blocks * SplitWeights::kBytes;
    const std::size_t head_dims = blocks * kDims;
    for (; head + kH <= heads; head += kH) {
      const std::byte* from = integers + head * head_bytes;
      if (head == 0 && kPrefetchStreams) {
        weigh_tile<kH, true>(from, head_bytes, values, count, sums, head_dims);
      } else {
        weigh_tile<kH, false>(from, head_bytes, values, count, sums + head * head_dims, head_dims);
      }
    }
    if constexpr (kH > 1) weigh_heads<kH - 1>(integers, head, heads, blocks, values, count, sums);
  }

  static void weigh_values(const SplitWeights& weights, std::uint32_t heads, std::uint32_t blocks,
                           const CacheView& cache, std::uint32_t first, std::uint32_t count,
                           std::int32_t* sums) {
    for (std::size_t b = 0; b < blocks; ++b) {
      weigh_heads(weights.integers + b * SplitWeights::kBytes + first * Isa::kWeightBytes, 0, heads, blocks,
                  cache.values + b * cache.positions * kDims, count, sums + b * kDims);
    }
  }

  static void scale_sums(const std::int32_t* sums, const float* scales, std::uint32_t blocks, float* output) {
    for (std::size_t d = 0; d < blocks * kDims; d += kLanes) {
      Isa::store(output + d,
                 Isa::multiply(Isa::to_float(Isa::load_ints(sums + d)), Isa::broadcast(scales[d / kDims])));
    }
  }

  static void merge_splits(const float* partials, std::size_t stride, std::uint32_t splits,
                           std::uint32_t head_dim, float* output) {
    float maximum = partials[0];
    for (std::size_t s = 0; s < splits; ++s) {
      maximum = partials[s * stride] > maximum ? partials[s * stride] : maximum;
    }
    Floats denominator = Isa::zero();
    for (std::size_t i = 0; i < head_dim; i += kLanes) {
      Vectors<Isa>::store_some(output + i, head_dim - i, Isa::zero());
    }
    for (std::size_t s = 0; s < splits; ++s) {
      const float* partial = partials + s * stride;
      const Floats factor =
          Math::exponential(Isa::subtract(Isa::broadcast(partial[0]), Isa::broadcast(maximum)));
      denominator = Isa::add(denominator, Isa::multiply(factor, Isa::broadcast(partial[1])));
      for (std::size_t i = 0; i < head_dim; i += kLanes) {
        const std::size_t count = head_dim - i;
        const Floats product = Isa::multiply(factor, Vectors<Isa>::load_some(partial + 2 + i, count));
        Vectors<Isa>::store_some(output + i, count,
                                 Isa::add(Vectors<Isa>::load_some(output + i, count), product));
      }
    }
    const Floats inverse = Math::reciprocal(denominator);
    for (std::size_t i = 0; i < head_dim; i += kLanes) {
      const std::size_t count = head_dim - i;
      Vectors<Isa>::store_some(output + i, count,
                               Isa::multiply(Vectors<Isa>::load_some(output + i, count), inverse));
    }
  }

 private:
  /// Bytes between the values that are read and those that are fetched to the first-level cache, and from
  /// memory to the second.
  static constexpr std::size_t kNear = 768;
  static constexpr std::size_t kFar = 4096;
};

}  // namespace inferno::cpu
