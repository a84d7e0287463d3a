#pragma once

#include <type_traits>

#include "backend/cuda/module/kernels/persistent_block.cuh"

/// The matrix products of the persistent kernel. A block owns whole panels of 8 rows of each matrix. Their
/// weights come through a ring of shared memory in the order in which they are used, fetched by one thread
/// that runs ahead.
///
/// A warp owns columns, not rows: the half segments (128 columns) number w, w + 8, ... of the vector. So it
/// waits for, weighs and quantizes what it needs by itself, and no barrier stands between the vector's
/// arrival and the first product; a lane has row lane % 8 and block lane / 8 of the half segment. The terms
/// (dot * scale * scale) meet in shared memory, where the row's four lanes add them in the contract's order.
namespace inferno::cuda::persistent {

/// Waits for the words of a warp's half segments, kCount of them from `round` on, four neighbours of each for
/// each lane. All are asked for at once: an answer takes as long as half the wait.
template <uint kCount, typename HalfOf>
__device__ __forceinline__ void await_halves(const std::uint64_t* words, uint round, HalfOf half_of,
                                             uint lane, uint epoch, float (&x)[kCount][4]) {
  Patience patience(Awaited::vector);
  for (;;) {
    WordPair low[kCount], high[kCount];
#pragma unroll
    for (uint r = 0; r < kCount; ++r) {
      const std::uint64_t* half = words + half_of(round + r) * kHalf + 2 * lane;
      low[r] = read_pair(half);
      high[r] = read_pair(half + kHalf / 2);
    }
    bool here = true;
#pragma unroll
    for (uint r = 0; r < kCount; ++r) {
      here &= is_of(low[r].first, epoch) & is_of(low[r].second, epoch) & is_of(high[r].first, epoch) &
              is_of(high[r].second, epoch);
      x[r][0] = value_of(low[r].first);
      x[r][1] = value_of(low[r].second);
      x[r][2] = value_of(high[r].first);
      x[r][3] = value_of(high[r].second);
    }
    if (__all_sync(kAllLanes, here)) return;
    patience.lose();
  }
}

/// Quantizes four blocks that stand as await_half leaves them: eight lanes have a block.
__device__ inline void quantize_half(const float (&x)[4], uint lane, HalfSegment& half) {
  uint largest = max(max(arith::magnitude_bits(x[0]), arith::magnitude_bits(x[1])),
                     max(arith::magnitude_bits(x[2]), arith::magnitude_bits(x[3])));
#pragma unroll
  for (uint step = 4; step > 0; step /= 2) largest = max(largest, __shfl_xor_sync(kAllLanes, largest, step));
  const float inverse = block_inverse(largest, arith::kInt8Levels);
  uint bytes[4];
#pragma unroll
  for (uint i = 0; i < 4; ++i) bytes[i] = static_cast<uint>(arith::quantize(x[i], inverse));
  const uint low = __byte_perm(bytes[0], bytes[1], 0x0040);
  const uint high = __byte_perm(bytes[2], bytes[3], 0x0040);
  reinterpret_cast<uint*>(half.values)[lane] = __byte_perm(low, high, 0x5410);
  const float scale = block_scale(largest, arith::kInt8Step);
  if (lane % 8 == 0) half.scales[lane / 8] = scale;
}

/// Weights of one (panel, half segment): a lane's row and block.
struct Item {
  int4 low, high;
  float scale;
};

/// The tile that a unit (a panel's segment) of a batch lies in.
__device__ inline uint tile_with(uint first_tile, uint unit) {
  return first_tile + unit / kTileUnits;
}
template <typename Model>
__device__ inline Item load_item(uint first_tile, uint unit, uint half, uint lane) {
  const uint slot = tile_with(first_tile, unit) % Model::kSlots;
  const std::byte* segment =
      block_of<Model>().ring() + slot * kTileBytes + unit % kTileUnits * kQ8SegmentBytes;
  const uint block = half * kHalfBlocks + lane / gpu::kPanel;
  const uint row = lane % gpu::kPanel;
  const auto* chunks = reinterpret_cast<const int4*>(segment + kScaleBytes) + 2 * block * gpu::kPanel + row;
  return {chunks[0], chunks[gpu::kPanel],
          __half2float(reinterpret_cast<const __half*>(segment)[row * kSegmentBlocks + block])};
}

/// Sum of a row, in the contract's order: four lanes have a row, and all of them get it.
template <uint kSegments>
__device__ inline float add_terms(const float* panel_terms, uint lane) {
  constexpr uint kQuads = (kSegments + 3) / 4;
  const float* terms = panel_terms + lane / 4;
  float sums[kQuads];
#pragma unroll
  for (uint q = 0; q < kQuads; ++q) {
    const uint segment = 4 * q + lane % 4;
    sums[q] = 0.0F;
    if (kSegments % 4 != 0 && segment >= kSegments) continue;
    float term[kSegmentBlocks];
#pragma unroll
    for (uint b = 0; b < kSegmentBlocks; ++b) term[b] = terms[segment * kTermStride + b * gpu::kPanel];
#pragma unroll
    for (uint b = 0; b < kSegmentBlocks; ++b) sums[q] = add(sums[q], term[b]);
  }
  float total = 0.0F;
#pragma unroll
  for (uint s = 0; s < kSegments; ++s) {
    total = add(total, __shfl_sync(kAllLanes, sums[s / 4], lane / 4 * 4 + s % 4));
  }
  return total;
}

/// 1 / rms from the norm warp.
__device__ inline float await_factor(uint tag) {
  Patience patience(Awaited::factor);
  for (;;) {
    const std::uint64_t word = shared().factor;
    if (is_of(word, tag)) return value_of(word);
    patience.lose();
  }
}

/// What a product reads: words of `epoch`. With `norm_weight`, each times its weight; the norm warp gets the
/// floats and gives 1 / rms, tagged `tag`.
struct Input {
  const std::uint64_t* words;
  uint epoch;
  const float* norm_weight;
  uint tag;
};

/// One product. `finish(panel, row, total, twin_total, factor)` is called for each row by the four lanes that
/// have its sum; panel counts from the block's first. `burst`: tiles that may be fetched once the vector has
/// arrived. Returns where the stream stands then.
///
/// Where a warp has less to do than others it does something twice: a register that is loaded under a
/// condition stays occupied on all paths to it, which once filled all of them.
template <typename Model, typename Of, bool kNorm, typename Finish>
__device__ __forceinline__ Stream product(Stream stream, const Share& share, const Input input, uint burst,
                                          Finish finish) {
  const uint panels = share.panels;
  if (panels == 0) return stream;
  const uint thread = thread_index();
  const uint warp = thread / kWarp;
  const uint lane = thread % kWarp;
  const uint first_half = Of::kHalves < kWarps ? warp % Of::kHalves : warp;
  const uint group = Of::kHalves < kWarps ? warp / Of::kHalves % Of::kGroups : 0;
  constexpr bool kEven = Of::kChunks * Of::kChunk * kWarps == Of::kHalves || Of::kHalves < kWarps;
  // A warp's half segments; where it has none left, the last again.
  const auto half_of = [&](uint round) {
    const uint half = first_half + round * kWarps;
    return kEven ? half : min(half, Of::kHalves - 1);
  };
  Block<Model>& block = block_of<Model>();
  HalfSegment* mine = block.halves[warp];
  uint tile = tile_of(stream);
  uint buffer = stream % 2;
  float factor = 0.0F;

  const auto run_batch = [&](auto is_first, uint begin) {
    constexpr bool kFirst = decltype(is_first)::value;
    const uint count = min(Of::kBatch, panels - begin);
    const uint tiles = Of::tiles(count);
    float* terms = block.terms[buffer];
    buffer ^= 1U;
    // Panels of this warp's group; those of a second part come behind those of the first.
    const auto panel_of = [&](uint p) { return min(p * Of::kGroups + group, Of::kPanels - 1); };
    const auto index_of = [&](uint panel) {
      return min(Of::kTwin && panel >= Of::kBatch ? panel - Of::kBatch : panel, count - 1);
    };
#pragma unroll 1
    for (uint chunk = 0; chunk < Of::kChunks; ++chunk) {
      const uint first_round = chunk * Of::kChunk;
      float4 weight[Of::kChunk];
      if constexpr (kNorm && kFirst) {
#pragma unroll
        for (uint r = 0; r < Of::kChunk; ++r) {
          weight[r] = __ldg(
              reinterpret_cast<const float4*>(input.norm_weight + half_of(first_round + r) * kHalf) + lane);
        }
      }
      const auto first_tile_of = [&](uint panel) {
        return Of::kTwin && panel >= Of::kBatch ? tile + tiles : tile;
      };
      const auto unit_of = [&](uint panel, uint half) { return index_of(panel) * Of::kSegments + half / 2; };
      bool here = true;  // one look at all tiles costs little more than a look at one
#pragma unroll
      for (uint p = 0; p < Of::kMine; ++p) {
#pragma unroll
        for (uint r = 0; r < Of::kChunk; ++r) {
          const uint panel = panel_of(p);
          here &= has_tile<Model>(tile_with(first_tile_of(panel), unit_of(panel, half_of(first_round + r))));
        }
      }
      if (!here) {
        for (uint p = 0; p < Of::kMine; ++p) {
          for (uint r = 0; r < Of::kChunk; ++r) {
            const uint panel = panel_of(p);
            wait_tile<Model>(tile_with(first_tile_of(panel), unit_of(panel, half_of(first_round + r))));
          }
        }
      }
      Item items[Of::kMine][Of::kChunk];
#pragma unroll
      for (uint p = 0; p < Of::kMine; ++p) {
        const uint panel = panel_of(p);
#pragma unroll
        for (uint r = 0; r < Of::kChunk; ++r) {
          const uint half = half_of(first_round + r);
          items[p][r] = load_item<Model>(first_tile_of(panel), unit_of(panel, half), half % 2, lane);
        }
      }
      if constexpr (kFirst) {
        float x[Of::kChunk][4];
        await_halves<Of::kChunk>(input.words, first_round, half_of, lane, input.epoch, x);
#pragma unroll
        for (uint r = 0; r < Of::kChunk; ++r) {
          if constexpr (kNorm) {
            reinterpret_cast<float4*>(block.vector + half_of(first_round + r) * kHalf)[lane] =
                make_float4(x[r][0], x[r][1], x[r][2], x[r][3]);
            x[r][0] = multiply(x[r][0], weight[r].x);
            x[r][1] = multiply(x[r][1], weight[r].y);
            x[r][2] = multiply(x[r][2], weight[r].z);
            x[r][3] = multiply(x[r][3], weight[r].w);
          }
          quantize_half(x[r], lane, mine[first_round + r]);
        }
        if (kNorm && chunk + 1 == Of::kChunks) arrive(kSquaresReady, kNormThreads);
        __syncwarp();
        // The vector is here: what was read before can be replaced, and nobody waits behind the copies.
        if (chunk == 0) allow<Model>(tile, burst);
      }
#pragma unroll
      for (uint r = 0; r < Of::kChunk; ++r) {
        const HalfSegment& segment = mine[first_round + r];
        const auto* words = reinterpret_cast<const int4*>(segment.values) + lane / gpu::kPanel * 2;
        const int4 x_low = words[0];
        const int4 x_high = words[1];
        const float x_scale = segment.scales[lane / gpu::kPanel];
        const uint half = half_of(first_round + r);
#pragma unroll
        for (uint p = 0; p < Of::kMine; ++p) {
          const Item& item = items[p][r];
          const int dot = dot16(item.high, x_high, dot16(item.low, x_low, kDotStart));
          terms[(panel_of(p) * Of::kSegments + half / 2) * kTermStride + half % 2 * kWarp + lane] =
              multiply(multiply(dot_to_float(dot), item.scale), x_scale);
        }
      }
      if (Of::kLong && chunk + 1 < Of::kChunks) {
        sync(kTermsReady, kThreads);
        allow<Model>(tile + (chunk + 1) * Of::kChunk, Model::kSlots);
      }
    }
    sync(kTermsReady, kThreads);
    tile += Of::kParts * tiles;
    // What is behind the last batch waits for the next vector, so that the vector need not wait behind it;
    // but where a layer's weights fill the ring several times, the stream is what everything waits for.
    if (begin + Of::kBatch < panels || burst == Model::kSlots) allow<Model>(tile, Model::kSlots);
    if (warp < count) {
      constexpr uint kPanelTerms = Of::kSegments * kTermStride;
      const float total = add_terms<Of::kSegments>(terms + warp * kPanelTerms, lane);
      const float twin =
          Of::kTwin ? add_terms<Of::kSegments>(terms + (Of::kBatch + warp) * kPanelTerms, lane) : 0.0F;
      if (kNorm && kFirst) factor = await_factor(input.tag);
      finish(begin + warp, lane / 4, total, twin, factor);
    }
  };
  run_batch(std::true_type(), 0);
#pragma unroll 1
  for (uint begin = Of::kBatch; begin < panels; begin += Of::kBatch) run_batch(std::false_type(), begin);
  return 2 * tile + buffer;
}

}  // namespace inferno::cuda::persistent
