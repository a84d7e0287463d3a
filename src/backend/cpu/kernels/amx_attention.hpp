#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/amx_tiles.hpp"
#include "backend/cpu/kernels/attention.hpp"

namespace inferno::cpu {
namespace {

/// Attention of many heads over the same positions in tile registers, sixteen heads at a time; what is left
/// goes the way of few heads.
template <class Isa>
struct AmxAttention {
  using Floats = typename Isa::Floats;
  using Few = Attention<Isa>;

  static constexpr std::uint32_t kHeads = 16;
  static constexpr std::size_t kLanes = kKeyLanes;
  static constexpr std::size_t kDims = kScaleDims;
  static constexpr std::size_t kLaneBytes = kLanes * kQuad;
  static constexpr std::size_t kBlockBytes = kDims * kLanes;

  // Scores: integer sums of one block of 32 dimensions go to a ring of memory and are scaled from there, the
  // tiles kAhead blocks in front (see AmxMatmul).
  static constexpr std::size_t kAhead = 2;
  static constexpr std::size_t kSlots = 4;
  /// Head sizes up to this many blocks; longer heads go the way of few heads.
  static constexpr std::size_t kBlocks = 8;

  struct ScoreWork {
    alignas(64) std::int32_t starts[kBlocks][kHeads][kLanes];  ///< what integer sums start from
    alignas(64) std::int32_t sums[kSlots][kHeads][kLanes];
  };

  /// The scores of sixteen heads, `query` their first.
  static void scores_of_sixteen(const QueryGroup& query, const CacheView& cache, std::size_t groups,
                                float* scores, std::size_t stride) {
    const std::size_t blocks = query.blocks;
    ScoreWork work;
    for (std::size_t b = 0; b < blocks; ++b) {
      for (std::size_t h = 0; h < kHeads; ++h) {
        Isa::store_ints(work.starts[b][h], Isa::broadcast_int(query.offsets[h * blocks + b]));
      }
    }
    // The compiler does not know that tile loads read what was stored.
    __asm__ volatile("" ::: "memory");

    const std::uint8_t* keys = cache.keys;  // group after group, block after block
    const std::uint8_t* const end = keys + groups * blocks * kBlockBytes;
    std::size_t ahead_block = 0;
    std::size_t ahead_slot = 0;
    const auto multiply_next = [&]() INFERNO_INLINE_LAMBDA {
      if (keys == end) return;
      _tile_loadd(0, work.starts[ahead_block], kLaneBytes);
      _tile_loadd(1, query.values + ahead_block * kDims, blocks * kDims);
      _tile_loadd(2, keys, kLaneBytes);
      _tile_dpbsud(0, 1, 2);
      _tile_stored(0, work.sums[ahead_slot], kLaneBytes);
      keys += kBlockBytes;
      ahead_slot = (ahead_slot + 1) % kSlots;
      ahead_block = ahead_block + 1 < blocks ? ahead_block + 1 : 0;
    };
    for (std::size_t i = 0; i < kAhead; ++i) multiply_next();

    std::size_t slot = 0;
    const float* key_scales = cache.key_scales;
    for (std::size_t group = 0; group < groups; ++group) {
      Floats sums[kHeads];
      unroll<kHeads>([&](auto h) INFERNO_INLINE_LAMBDA { sums[h.value] = Isa::zero(); });
      for (std::size_t b = 0; b < blocks; ++b) {
        multiply_next();
        const Floats key_scale = Isa::load(key_scales);
        key_scales += kLanes;
        const auto& dots = work.sums[slot];
        slot = (slot + 1) % kSlots;
        const float* scales = query.scales + b;
        unroll<kHeads>([&](auto h) INFERNO_INLINE_LAMBDA {
          const Floats product = Isa::multiply(Few::dot_of(Isa::load_ints(dots[h.value])), key_scale);
          const Floats scale = Isa::broadcast(scales[h.value * blocks]);
          sums[h.value] = Isa::add(sums[h.value], Isa::multiply(product, scale));
        });
      }
      unroll<kHeads>([&](auto h) INFERNO_INLINE_LAMBDA {
        Isa::store(scores + h.value * stride + group * kLanes, sums[h.value]);
      });
    }
  }

  static void scores(const QueryGroup& query, const CacheView& cache, std::uint32_t count, float* scores,
                     std::size_t stride) {
    QueryGroup rest = query;
    if (query.heads >= kHeads && query.blocks <= kBlocks) {
      // Registers: 0 integer sums [16 heads][16 positions], 1 queries [16 heads][32 dimensions], 2 keys [8
      // quads of dimensions][16 positions][4 dimensions].
      TileConfig config;
      config.set(0, kHeads, kLaneBytes);
      config.set(1, kHeads, kDims);
      config.set(2, kDims / kQuad, kLaneBytes);
      const Tiles tiles(config);
      for (; rest.heads >= kHeads; rest.heads -= kHeads) {
        scores_of_sixteen(rest, cache, (count + kLanes - 1) / kLanes, scores, stride);
        rest.values += kHeads * rest.blocks * kDims;
        rest.scales += kHeads * rest.blocks;
        rest.offsets += kHeads * rest.blocks;
        scores += kHeads * stride;
      }
    }
    Few::scores(rest, cache, count, scores, stride);
  }

  // Values: sums of products are exact over all positions, so they stay in the tiles until the end.
  // Registers: 0 to 3 integer sums [16 heads][16 dimensions] of the weights' high and low bits, for both
  // halves of a block of dimensions; 4 and 5 weights [16 heads][positions], high and low; 6 and 7 values
  // [quads of positions][16 dimensions][4 positions].
  static constexpr std::size_t kPositions = 64;  // of one tile

  INFERNO_INLINE static TileConfig value_config(std::size_t positions) {
    TileConfig config;
    for (std::size_t tile = 0; tile < 4; ++tile) config.set(tile, kHeads, kLaneBytes);
    for (std::size_t tile = 4; tile < 6; ++tile) config.set(tile, kHeads, positions);
    for (std::size_t tile = 6; tile < 8; ++tile) config.set(tile, positions / kQuad, kLaneBytes);
    return config;
  }

  /// One block of 32 dimensions of sixteen heads over `steps` times as many positions as the tiles were
  /// configured for. `integers`: their weights at the first position, `head_bytes` from head to head.
  static void weigh_sixteen(const std::byte* integers, std::size_t head_bytes, const std::int8_t* values,
                            std::size_t steps, std::int32_t* sums, std::size_t head_dims) {
    constexpr std::size_t kQuadStride = kDims * kQuad;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::size_t i = 0; i < steps * kPositions; i += kPositions) {
      _tile_loadd(6, values + i * kDims, kQuadStride);
      _tile_loadd(4, integers + i, head_bytes);
      _tile_dpbusd(0, 4, 6);
      _tile_loadd(7, values + i * kDims + kLaneBytes, kQuadStride);
      _tile_dpbusd(1, 4, 7);
      _tile_loadd(5, integers + Isa::kLowPlane + i, head_bytes);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    }
    alignas(64) std::int32_t parts[4][kHeads][kLanes];
    _tile_stored(0, parts[0], kLaneBytes);
    _tile_stored(1, parts[1], kLaneBytes);
    _tile_stored(2, parts[2], kLaneBytes);
    _tile_stored(3, parts[3], kLaneBytes);
    for (std::size_t h = 0; h < kHeads; ++h) {
      for (std::size_t half = 0; half < 2; ++half) {
        std::int32_t* sum = sums + h * head_dims + half * kLanes;
        const auto high = Isa::template shift_left<7>(Isa::load_ints(parts[half][h]));
        const auto part = Isa::add(high, Isa::load_ints(parts[2 + half][h]));
        Isa::store_ints(sum, Isa::add(Isa::load_ints(sum), part));
      }
    }
  }

  /// Positions [0, steps * positions) of one cache block for `heads` heads, a multiple of sixteen.
  static void weigh_positions(const std::byte* integers, std::uint32_t heads, std::size_t blocks,
                              const std::int8_t* values, std::size_t block_bytes, std::size_t positions,
                              std::size_t steps, std::int32_t* sums) {
    const Tiles tiles(value_config(positions));
    const std::size_t head_bytes = blocks * SplitWeights::kBytes;
    const std::size_t head_dims = blocks * kDims;
    for (std::size_t h = 0; h < heads; h += kHeads) {
      for (std::size_t b = 0; b < blocks; ++b) {
        weigh_sixteen(integers + h * head_bytes + b * SplitWeights::kBytes, head_bytes,
                      values + b * block_bytes, steps, sums + h * head_dims + b * kDims, head_dims);
      }
    }
  }

  static void weigh_values(const SplitWeights& weights, std::uint32_t heads, std::uint32_t blocks,
                           const CacheView& cache, std::uint32_t first, std::uint32_t count,
                           std::int32_t* sums) {
    // Tiles take whole quads of weights: a run that begins within one could end behind the split's last
    // weight.
    const std::uint32_t many = first % kQuad == 0 ? heads / kHeads * kHeads : 0;
    const std::byte* integers = weights.integers + first;
    const std::size_t block_bytes = cache.positions * kDims;
    const std::size_t full = count / kPositions;
    const std::size_t left = (count % kPositions + kQuad - 1) / kQuad * kQuad;
    if (many != 0 && full != 0) {
      weigh_positions(integers, many, blocks, cache.values, block_bytes, kPositions, full, sums);
    }
    if (many != 0 && left != 0) {
      weigh_positions(integers + full * kPositions, many, blocks, cache.values + full * kPositions * kDims,
                      block_bytes, left, 1, sums);
    }
    const SplitWeights rest{weights.integers + many * blocks * SplitWeights::kBytes, nullptr};
    Few::weigh_values(rest, heads - many, blocks, cache, first, count, sums + many * blocks * kDims);
  }
};

}  // namespace
}  // namespace inferno::cpu
