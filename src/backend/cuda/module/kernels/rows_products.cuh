#pragma once

#include "backend/cuda/module/kernels/mma.cuh"
#include "backend/cuda/module/kernels/rows_block.cuh"

/// The matrix products of the persistent kernel of several rows. The tokens are the rows of a tensor product,
/// a panel's eight rows its columns: m16n8k32 gives the exact dot products of eight tokens, eight rows and a
/// block of 32 columns, and a lane has those of one token and two rows. It sums a segment's blocks in
/// registers, in the contract's order. The segments meet in shared memory.
///
/// A warp first brings its share of the vector into int8, half segment by half segment; then, behind a
/// barrier, it multiplies whole segments.
namespace inferno::cuda::persistent {

/// What a product reads: floats in words of three, or int8 and `scales`. With `norm_weight`, each float times
/// its weight; the norm warps get the floats and give 1 / rms.
struct RowsInput {
  const std::uint64_t* words;
  uint epoch;
  const float* norm_weight = nullptr;
  const std::uint64_t* scales = nullptr;
};

/// How a lane takes part in bringing a vector in: its token, and which eight columns of a block it has.
struct Intake {
  uint token, quarter;
  uint source;  // the lane whose words it reads: those of a token that exists

  __device__ explicit Intake(uint lane) : token(lane / 4), quarter(lane % 4) {
    source = min(token, shared().step.rows - 1) * 4 + quarter;
  }
};

/// A lane's words of a half segment: eight floats of its token of each block.
struct RawHalf {
  uint4 three[kHalfBlocks][3];

  __device__ __forceinline__ void load(const std::uint64_t* words, uint half, uint source) {
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; ++b) {
#pragma unroll
      for (uint part = 0; part < 3; ++part) {
        const uint place = ((half * kHalfBlocks + b) * 3 + part) * kWarp + source;
        three[b][part] = read_three(words + place * std::size_t{2});
      }
    }
  }
  /// Whether all are of this epoch, in all lanes.
  __device__ __forceinline__ bool is_here(uint epoch) const {
    bool here = true;
#pragma unroll
    for (const auto& block : three)
      here &= (block[0].w == epoch) & (block[1].w == epoch) & (block[2].w == epoch);
    return __all_sync(kAllLanes, here) != 0;
  }
  __device__ __forceinline__ void values(float (&x)[kHalfBlocks][8]) const {
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; ++b) {
#pragma unroll
      for (uint part = 0; part < 3; ++part) {
        x[b][3 * part] = __uint_as_float(three[b][part].x);
        x[b][3 * part + 1] = __uint_as_float(three[b][part].y);
        if (part < 2) x[b][3 * part + 2] = __uint_as_float(three[b][part].z);
      }
    }
  }
};

/// Quantizes a half segment, four blocks.
__device__ __forceinline__ void quantize_rows(const float (&x)[kHalfBlocks][8], const Intake& intake,
                                              uint half, RowsSegment& segment) {
  uint largest[kHalfBlocks];
#pragma unroll
  for (uint b = 0; b < kHalfBlocks; ++b) {
    largest[b] = 0;
#pragma unroll
    for (uint i = 0; i < 8; ++i) largest[b] = max(largest[b], arith::magnitude_bits(x[b][i]));
  }
#pragma unroll
  for (uint step = 1; step < 4; step *= 2) {
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; ++b)
      largest[b] = max(largest[b], __shfl_xor_sync(kAllLanes, largest[b], step));
  }
  float inverse[kHalfBlocks];
#pragma unroll
  for (uint b = 0; b < kHalfBlocks; ++b) inverse[b] = block_inverse(largest[b], arith::kInt8Levels);
  uint words[kHalfBlocks][2];
#pragma unroll
  for (uint b = 0; b < kHalfBlocks; ++b) {
    uint bytes[8];
#pragma unroll
    for (uint i = 0; i < 8; ++i) bytes[i] = static_cast<uint>(arith::quantize(x[b][i], inverse[b]));
#pragma unroll
    for (uint w = 0; w < 2; ++w) {
      words[b][w] = __byte_perm(__byte_perm(bytes[4 * w], bytes[4 * w + 1], 0x0040),
                                __byte_perm(bytes[4 * w + 2], bytes[4 * w + 3], 0x0040), 0x5410);
    }
  }
  // Columns 8 * quarter..: the first or second 16 of the block, of which two lanes get four each.
  const uint to = intake.token * 4 + intake.quarter % 2 * 2;
#pragma unroll
  for (uint b = 0; b < kHalfBlocks; ++b) {
    const uint pair = half * (kHalfBlocks / 2) + b / 2;
#pragma unroll
    for (uint w = 0; w < 2; ++w) {
      reinterpret_cast<uint*>(&segment.quants[pair][quants_place(to + w)])[b % 2 * 2 + intake.quarter / 2] =
          words[b][w];
    }
  }
  float scale = block_scale(largest[0], arith::kInt8Step);
#pragma unroll
  for (uint b = 1; b < kHalfBlocks; ++b) {
    const float other = block_scale(largest[b], arith::kInt8Step);
    scale = intake.quarter == b ? other : scale;
  }
  segment.scales[intake.token][half * kHalfBlocks + intake.quarter] = scale;
}

/// Brings the vector in, as floats, and weighs it. The words of a half segment are asked for with those of
/// the one before: an answer takes longer than what is done with it.
template <typename Model, typename Of>
__device__ __forceinline__ void take_floats(const RowsInput& input, uint tile, uint burst) {
  Block<Model>& block = block_of<Model>();
  const uint thread = thread_index();
  const uint warp = thread / kWarp;
  const Intake intake(thread % kWarp);
  // Where a warp has none left, the last again.
  const auto half_of = [&](uint round) { return min(warp + round * kWarps, Of::kHalves - 1); };
  RawHalf next;
#pragma unroll
  for (uint round = 0; round < Of::kRounds; ++round) {
    const uint half = half_of(round);
    float4 weight[kHalfBlocks][2];
    const auto* weights =
        reinterpret_cast<const float4*>(input.norm_weight + half * kHalf) + 2 * intake.quarter;
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; ++b) {
      weight[b][0] = __ldg(weights + b * 8);
      weight[b][1] = __ldg(weights + b * 8 + 1);
    }
    RawHalf now = next;
    if (round == 0) now.load(input.words, half, intake.source);
    if (round + 1 < Of::kRounds) next.load(input.words, half_of(round + 1), intake.source);
    for (Patience patience(Awaited::vector); !now.is_here(input.epoch); patience.lose()) {
      now.load(input.words, half, intake.source);
      if (round + 1 < Of::kRounds) next.load(input.words, half_of(round + 1), intake.source);
    }
    // The vector is here: what was read before can be replaced, and nobody waits behind the copies.
    if (round == 0) allow<Model>(tile, burst);
    if (warp + round * kWarps >= Of::kHalves) continue;
    float x[kHalfBlocks][8];
    now.values(x);
    if (intake.token < Model::kRows) {
      auto* vector =
          reinterpret_cast<float4*>(block.vector(intake.token) + half * kHalf) + 2 * intake.quarter;
#pragma unroll
      for (uint b = 0; b < kHalfBlocks; ++b) {
        vector[b * 8] = make_float4(x[b][0], x[b][1], x[b][2], x[b][3]);
        vector[b * 8 + 1] = make_float4(x[b][4], x[b][5], x[b][6], x[b][7]);
      }
    }
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; ++b) {
      const float factors[8] = {weight[b][0].x, weight[b][0].y, weight[b][0].z, weight[b][0].w,
                                weight[b][1].x, weight[b][1].y, weight[b][1].z, weight[b][1].w};
#pragma unroll
      for (uint i = 0; i < 8; ++i) x[b][i] = multiply(x[b][i], factors[i]);
    }
    quantize_rows(x, intake, half % 2, block.segments[half / 2]);
  }
}

/// A lane's words of a half segment that is int8 already.
struct QuantHalf {
  WordPair words[kHalfBlocks];
  std::uint64_t scale;  // of block number `quarter`

  __device__ __forceinline__ void load(const std::uint64_t* from, const std::uint64_t* scales, uint half,
                                       const Intake& intake) {
    const uint first_block = half * kHalfBlocks;
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; ++b)
      words[b] = read_pair(from + ((first_block + b) * kWarp + intake.source) * std::size_t{2});
    scale = read_word(scales + (first_block + intake.quarter) * kRowSlots + intake.source / 4);
  }
  __device__ __forceinline__ bool is_here(uint epoch) const {
    bool here = is_of(scale, epoch);
#pragma unroll
    for (const WordPair& pair : words) here &= is_of(pair.first, epoch) & is_of(pair.second, epoch);
    return __all_sync(kAllLanes, here) != 0;
  }
};

/// Brings the vector in, int8 already.
template <typename Model, typename Of>
__device__ __forceinline__ void take_quants(const RowsInput& input, uint tile, uint burst) {
  Block<Model>& block = block_of<Model>();
  const uint thread = thread_index();
  const uint warp = thread / kWarp;
  const Intake intake(thread % kWarp);
  const std::uint64_t* scales = input.scales;
  const auto half_of = [&](uint round) { return min(warp + round * kWarps, Of::kHalves - 1); };
  QuantHalf next;
#pragma unroll
  for (uint round = 0; round < Of::kRounds; ++round) {
    const uint half = half_of(round);
    QuantHalf now = next;
    if (round == 0) now.load(input.words, scales, half, intake);
    if (round + 1 < Of::kRounds) next.load(input.words, scales, half_of(round + 1), intake);
    for (Patience patience(Awaited::vector); !now.is_here(input.epoch); patience.lose()) {
      now.load(input.words, scales, half, intake);
      if (round + 1 < Of::kRounds) next.load(input.words, scales, half_of(round + 1), intake);
    }
    if (round == 0) allow<Model>(tile, burst);
    if (warp + round * kWarps >= Of::kHalves) continue;
    RowsSegment& segment = block.segments[half / 2];
#pragma unroll
    for (uint b = 0; b < kHalfBlocks; b += 2) {
      segment.quants[half % 2 * (kHalfBlocks / 2) + b / 2][quants_place(thread % kWarp)] =
          make_uint4(static_cast<uint>(now.words[b].first), static_cast<uint>(now.words[b].second),
                     static_cast<uint>(now.words[b + 1].first), static_cast<uint>(now.words[b + 1].second));
    }
    segment.scales[intake.token][half % 2 * kHalfBlocks + intake.quarter] = value_of(now.scale);
  }
}

/// The sums of one panel's segment, of a lane's token and two rows.
__device__ __forceinline__ float2 multiply_segment(const std::byte* weights,
                                                   const uint4 (&quants)[kSegmentBlocks / 2],
                                                   const float (&scales)[kSegmentBlocks], uint lane) {
  const auto* row_scales = reinterpret_cast<const int4*>(weights) + lane % 4 * 2;
  const int4 first = row_scales[0];
  const int4 second = row_scales[1];
  const uint address = shared_address(weights + kScaleBytes) + lane * kChunk;
  float2 sum = {0.0F, 0.0F};
#pragma unroll
  for (uint pair = 0; pair < kSegmentBlocks / 2; ++pair) {
    uint w[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(address + pair * 4 * kChunkBytes)
                 : "memory");
#pragma unroll
    for (uint i = 0; i < 2; ++i) {
      const uint a[4] = {i == 0 ? quants[pair].x : quants[pair].z, 0,
                         i == 0 ? quants[pair].y : quants[pair].w, 0};
      const uint b[2] = {w[2 * i], w[2 * i + 1]};
      int dots[4];
      mma_s8(a, b, kDotStart, dots);
      const uint number = 2 * pair + i;
      sum.x = add(sum.x, multiply(multiply(dot_to_float(dots[0]), half_of(first, number)), scales[number]));
      sum.y = add(sum.y, multiply(multiply(dot_to_float(dots[1]), half_of(second, number)), scales[number]));
    }
  }
  return sum;
}

enum class Intakes { normed, quants };

/// One product. `finish(panel, row, token, total, twin_total, factor)` is called by whole warps, a lane for
/// each row and token; panel counts from the block's first. Then all warps call `hand_on(first panel)`.
template <typename Model, typename Of, Intakes kIntake, typename Finish, typename HandOn>
__device__ __forceinline__ Stream product_rows(Stream stream, const Share& share, const RowsInput input,
                                               uint burst, Finish finish, HandOn hand_on) {
  const uint panels = share.panels;
  if (panels == 0) return stream;
  constexpr bool kNorm = kIntake == Intakes::normed;
  Block<Model>& block = block_of<Model>();
  uint tile = tile_of(stream);
  uint buffer = stream % 2;
  if constexpr (kNorm) {
    take_floats<Model, Of>(input, tile, burst);
  } else {
    take_quants<Model, Of>(input, tile, burst);
  }
  if constexpr (kNorm) arrive(kVectorReady, kRowsNormThreads);
  sync(kTermsReady, kThreads);
  const uint thread = thread_index();
  const uint warp = thread / kWarp;
  const uint lane = thread % kWarp;
  // What a warp multiplies.
  const uint own_segment = Of::kSegments < kWarps ? warp % Of::kSegments : warp;
  const uint group = Of::kSegments < kWarps ? warp / Of::kSegments : 0;
  // And what it finishes.
  const uint token = warp % 2 * 4 + lane / 8;
  float factor = 1.0F;

#pragma unroll 1
  for (uint begin = 0; begin < panels; begin += Of::kBatch) {
    const uint count = min(Of::kBatch, panels - begin);
    const uint tiles = Of::tiles(count);
    float* sums = block.sums[buffer];
    buffer ^= 1U;
#pragma unroll 1
    for (uint pass = 0; pass < Of::kPasses; ++pass) {
      const uint segment = own_segment + pass * kWarps;
      if (segment < Of::kSegments && group < min(Of::kGroups, Of::kPanels)) {
        const RowsSegment& source = block.segments[segment];
        uint4 quants[kSegmentBlocks / 2];
#pragma unroll
        for (uint pair = 0; pair < kSegmentBlocks / 2; ++pair)
          quants[pair] = source.quants[pair][quants_place(lane)];
        float scales[kSegmentBlocks];
#pragma unroll
        for (uint b = 0; b < kSegmentBlocks; b += 4) {
          const float4 four = reinterpret_cast<const float4*>(source.scales[lane / 4])[b / 4];
          scales[b] = four.x;
          scales[b + 1] = four.y;
          scales[b + 2] = four.z;
          scales[b + 3] = four.w;
        }
        float2 own[Of::kMine];
        // Where there are fewer panels than that, the last again.
        const auto panel_of = [&](uint p) { return min(p * Of::kGroups + group, Of::kPanels - 1); };
        const auto index_of = [&](uint panel) {
          return min(Of::kTwin && panel >= Of::kBatch ? panel - Of::kBatch : panel, count - 1);
        };
        const auto tile_with = [&](uint panel) {
          const uint first = Of::kTwin && panel >= Of::kBatch ? tile + tiles : tile;
          return first + (index_of(panel) * Of::kSegments + segment) / kTileUnits;
        };
#pragma unroll
        for (uint p = 0; p < Of::kMine; ++p) wait_tile<Model>(tile_with(panel_of(p)));
#pragma unroll
        for (uint p = 0; p < Of::kMine; ++p) {
          const uint panel = panel_of(p);
          const uint unit = index_of(panel) * Of::kSegments + segment;
          const std::byte* weights = block.ring() + tile_with(panel) % Model::kSlots * kTileBytes +
                                     unit % kTileUnits * kQ8SegmentBytes;
          own[p] = multiply_segment(weights, quants, scales, lane);
        }
#pragma unroll
        for (uint p = 0; p < Of::kMine; ++p) {
          const uint panel = p * Of::kGroups + group;
          if (panel < Of::kPanels)
            reinterpret_cast<float2*>(sums + (panel * Of::kSegments + segment) * kSegmentSums)[lane] = own[p];
        }
      }
      if (Of::kLong && pass + 1 < Of::kPasses) {
        sync(kTermsReady, kThreads);
        allow<Model>(tile + (pass + 1) * (kWarps / kTileUnits), Model::kSlots);
      }
    }
    if (kNorm && begin == 0) {
      sync(kProductsReady, kRowsNormThreads);
      factor = block.factors[token];
    } else {
      sync(kTermsReady, kThreads);
    }
    tile += Of::kParts * tiles;
    if (begin + Of::kBatch < panels) allow<Model>(tile, Model::kSlots);
    const uint panel = warp / 2;
    if (panel < count) {
      const uint place = warp % 2 * kWarp + lane;
      const auto total_of = [&](uint of) {
        const float* segment_sums = sums + of * Of::kSegments * kSegmentSums + place;
        float total = 0.0F;
#pragma unroll
        for (uint s = 0; s < Of::kSegments; ++s) total = add(total, segment_sums[s * kSegmentSums]);
        return total;
      };
      const float total = total_of(panel);
      const float twin = Of::kTwin ? total_of(Of::kBatch + panel) : 0.0F;
      finish(begin + panel, lane % 8, token, total, twin, factor);
    }
    hand_on(begin);
  }
  return 2 * tile + buffer;
}

/// 1 / rms of the rows' vectors, by the norm warps; each has every third token.
template <typename Model>
__device__ __forceinline__ void square_sums() {
  constexpr uint kTokens = (Model::kRows + kNormWarps - 1) / kNormWarps;
  Block<Model>& block = block_of<Model>();
  const uint first = threadIdx.x / kWarp - kWarps;
  const uint lane = lane_index();
  const float* vectors[kTokens];
#pragma unroll
  for (uint t = 0; t < kTokens; ++t)
    vectors[t] = block.vector(min(first + t * kNormWarps, Model::kRows - 1)) + lane;
  sync(kVectorReady, kRowsNormThreads);
  // Step by step for all tokens, not one by one: what does not depend on each other overlaps.
  float sum[kTokens];
#pragma unroll
  for (float& of : sum) of = 0.0F;
#pragma unroll 16
  for (uint i = 0; i < Model::kHidden; i += kWarp) {
#pragma unroll
    for (uint t = 0; t < kTokens; ++t) sum[t] = add(sum[t], multiply(vectors[t][i], vectors[t][i]));
  }
#pragma unroll
  for (uint half = kWarp / 2; half > 0; half /= 2) {
#pragma unroll
    for (uint t = 0; t < kTokens; ++t) sum[t] = add(sum[t], __shfl_xor_sync(kAllLanes, sum[t], half));
  }
#pragma unroll
  for (uint t = 0; t < kTokens; ++t)
    sum[t] = arith::reciprocal_sqrt(add(multiply(sum[t], model().inverse_hidden), model().epsilon));
#pragma unroll
  for (uint t = 0; t < kTokens; ++t) {
    if (lane == 0 && first + t * kNormWarps < Model::kRows) block.factors[first + t * kNormWarps] = sum[t];
  }
  __syncwarp();
  arrive(kProductsReady, kRowsNormThreads);
}

}  // namespace inferno::cuda::persistent
