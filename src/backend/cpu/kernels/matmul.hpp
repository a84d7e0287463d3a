#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/kernels/elementary.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/unroll.hpp"

namespace inferno::cpu {

/// Products of a packed matrix with quantized activations.
///
/// One token is a matter of reading the panels once, in order. With many, a group of panels stays in the
/// caches while tokens go by: a segment of the group (8.5 KB for two panels) stays in the first-level cache
/// for kTokenBlock tokens, whose sums so far stand in an array beside it.
template <class Isa>
struct Matmul {
  using Floats = typename Isa::Floats;
  using Math = Elementary<Isa>;

  static constexpr std::size_t kRows = kPanelRows;
  static constexpr std::size_t kColumns = kBlockColumns;
  static constexpr std::size_t kQuads = kColumns / kQuad;
  static constexpr std::size_t kQuadBytes = kRows * kQuad;
  static constexpr std::size_t kBlockBytes = kRows * kColumns;
  /// Tokens whose activations stand side by side, block by block.
  static constexpr std::size_t kTile = Isa::kTileTokens;
  /// Tokens and panels whose sums are kept in registers at once.
  static constexpr std::size_t kTokens = Isa::kMatmulTokens;
  static constexpr std::size_t kPanels = Isa::kMatmulPanels;
  /// Tokens whose sums are kept in registers for a single panel.
  static constexpr std::size_t kFewTokens = Isa::kMatmulFewTokens;
  static constexpr std::size_t kTokenBlock = 96 / kTile * kTile;
  static_assert(kTile % kTokens == 0 && kTile % kFewTokens == 0);

  /// The scales of a segment's blocks as floats, and what undoes the start of a fused sum.
  template <std::size_t kP>
  struct Scales {
    alignas(64) float scale[kSegmentBlocks][kP][kRows];
    alignas(64) float undo[kSegmentBlocks][kP][kRows];
  };

  /// One segment of a group of panels.
  struct Segment {
    const std::byte* bytes;    ///< of the first panel
    std::size_t panel_stride;  ///< bytes from panel to panel
    std::size_t first;         ///< block
    std::size_t count;         ///< of blocks
  };

  template <std::size_t kP>
  INFERNO_INLINE static void load_scales(const Segment& segment, Scales<kP>& scales) {
    for (std::size_t b = 0; b < segment.count; ++b) {
      unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
        const std::byte* halves =
            segment.bytes + p.value * segment.panel_stride + b * kRows * sizeof(std::uint16_t);
        const Floats scale = Isa::load_half(halves);
        Isa::store(scales.scale[b][p.value], scale);
        if constexpr (Isa::kFusedScale) {
          Isa::store(scales.undo[b][p.value], Isa::multiply(scale, Isa::broadcast(-Math::kRounder)));
        }
      });
    }
  }

  /// float(dot) * scale, rounded once. A fused sum holds the bits of the float 1.5 * 2^23 + dot; times the
  /// scale and minus 1.5 * 2^23 * scale, which is exact because the scale has 11 bits, a multiply-add rounds
  /// only the product that the contract rounds.
  INFERNO_INLINE static Floats scaled(typename Isa::Dots dots, Floats scale, const float* undo) {
    if constexpr (Isa::kFusedScale) {
      return Isa::multiply_add(Isa::from_bits(Isa::finish(dots)), scale, Isa::load(undo));
    } else {
      return Isa::multiply(Isa::to_float(Isa::finish(dots)), scale);
    }
  }

  /// What is fetched ahead of the weights that are read: see kPrefetchStreams. With several tokens a stream
  /// is read in bursts, between which a processor's own prefetcher does not run far enough ahead.
  enum class Fetch : std::uint8_t { nothing, ahead, near_and_far };

  /// Adds a segment of kP panels to the totals [tokens][panels][16] of kT tokens. `values`, `scales`,
  /// `offsets`: the first token's, at the segment's first block.
  template <std::size_t kP, std::size_t kT, Fetch kFetch>
  INFERNO_INLINE static void segment_tile(const Segment& segment, const Scales<kP>& weight_scales,
                                          const std::int8_t* values, const float* scales,
                                          const std::int32_t* offsets, float* totals) {
    Floats sums[kP][kT];
    unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
      unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA { sums[p.value][t.value] = Isa::zero(); });
    });
    const auto* weights =
        reinterpret_cast<const std::uint8_t*>(segment.bytes + PackedMatrix::scale_bytes(segment.count));
    for (std::size_t b = 0; b < segment.count; ++b) {
      typename Isa::Dots dots[kP][kT];
      unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
        const auto start = Isa::start(offsets + t.value);
        unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA { dots[p.value][t.value] = start; });
      });
      unroll<kQuads / Isa::kGroups>([&](auto g) INFERNO_INLINE_LAMBDA {
        constexpr std::size_t kQuad0 = g.value * Isa::kGroups;
        typename Isa::Weights w[kP];
        unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
          const auto* at = weights + p.value * segment.panel_stride + kQuad0 * kQuadBytes;
          for (std::size_t i = 0; i < Isa::kGroups; ++i) {
            if constexpr (kFetch == Fetch::near_and_far) {
              Isa::prefetch(at + kNear + i * kQuadBytes);
              Isa::prefetch_far(at + kFar + i * kQuadBytes);
            } else if constexpr (kFetch == Fetch::ahead) {
              Isa::prefetch(at + kAhead + i * kQuadBytes);
            }
          }
          w[p.value] = Isa::load_weights(at);
        });
        unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
          const auto x = Isa::load_activations(values + t.value * kColumns + kQuad0 * kQuad);
          unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
            dots[p.value][t.value] = Isa::accumulate(dots[p.value][t.value], w[p.value], x);
          });
        });
      });
      unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
        const Floats scale = Isa::broadcast(scales[t.value]);
        unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
          const Floats product = scaled(dots[p.value][t.value], Isa::load(weight_scales.scale[b][p.value]),
                                        weight_scales.undo[b][p.value]);
          sums[p.value][t.value] = Isa::add(sums[p.value][t.value], Isa::multiply(product, scale));
        });
      });
      weights += kBlockBytes;
      values += kTile * kColumns;
      scales += kTile;
      offsets += kTile;
    }
    unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
      unroll<kP>([&](auto p) INFERNO_INLINE_LAMBDA {
        float* total = totals + (t.value * kP + p.value) * kRows;
        Isa::store(total, Isa::add(Isa::load(total), sums[p.value][t.value]));
      });
    });
  }

  /// segment_tile for a number of tokens that is not a constant, 1 to kT.
  template <std::size_t kP, std::size_t kT, Fetch kFetch>
  INFERNO_INLINE static void segment_tokens(std::size_t tokens, const Segment& segment,
                                            const Scales<kP>& weight_scales, const std::int8_t* values,
                                            const float* scales, const std::int32_t* offsets, float* totals) {
    if constexpr (kT == 1) {
      segment_tile<kP, 1, kFetch>(segment, weight_scales, values, scales, offsets, totals);
    } else if (tokens >= kT) {
      segment_tile<kP, kT, kFetch>(segment, weight_scales, values, scales, offsets, totals);
    } else {
      segment_tokens<kP, kT - 1, kFetch>(tokens, segment, weight_scales, values, scales, offsets, totals);
    }
  }

  /// kP panels from `panel` on times `tokens` tokens from `first_token` on, at most kTokenBlock, kT of them
  /// at once; first_token begins a tile.
  template <std::size_t kP, std::size_t kT>
  static void panel_tokens(const PackedMatrix& matrix, std::size_t panel, const QuantizedBatch& x,
                           std::size_t first_token, std::size_t tokens, float* totals) {
    const std::size_t blocks = matrix.blocks();
    const std::size_t stride = PackedMatrix::panel_bytes(blocks);
    Segment segment{matrix.bytes + panel * stride, stride, 0, 0};
    for (std::size_t i = 0; i < tokens * kP; ++i) Isa::store(totals + i * kRows, Isa::zero());
    while (segment.first < blocks) {
      segment.count = blocks - segment.first < kSegmentBlocks ? blocks - segment.first : kSegmentBlocks;
      Scales<kP> weight_scales;
      load_scales(segment, weight_scales);
      for (std::size_t t = 0; t < tokens; t += kT) {
        const std::size_t token = first_token + t;
        const std::size_t at = (token / kTile * blocks + segment.first) * kTile + token % kTile;
        const auto segment_with = [&](auto fetch) INFERNO_INLINE_LAMBDA {
          segment_tokens<kP, kT, fetch.value>(tokens - t, segment, weight_scales, x.values + at * kColumns,
                                              x.scales + at, x.offsets + at, totals + t * kP * kRows);
        };
        if (first_token + t > 0) {
          segment_with(std::integral_constant<Fetch, Fetch::nothing>{});
        } else if (kPrefetchStreams) {
          segment_with(std::integral_constant<Fetch, Fetch::near_and_far>{});
        } else if (kP == 1 && tokens >= kSlowTokens) {
          segment_with(std::integral_constant<Fetch, Fetch::ahead>{});
        } else {
          segment_with(std::integral_constant<Fetch, Fetch::nothing>{});
        }
      }
      segment.bytes += PackedMatrix::segment_bytes(segment.count);
      segment.first += segment.count;
    }
  }

  /// Finished sums of kP panels to y; `rows` of the panels' rows exist.
  template <std::size_t kP>
  static void write(const float* totals, std::size_t tokens, std::size_t rows, const float* factors, float* y,
                    std::size_t y_stride) {
    for (std::size_t t = 0; t < tokens; ++t, y += y_stride) {
      for (std::size_t p = 0; p < kP; ++p) {
        Floats total = Isa::load(totals + (t * kP + p) * kRows);
        if (factors != nullptr) total = Isa::multiply(total, Isa::broadcast(factors[t]));
        if (rows >= (p + 1) * kRows) {
          Isa::store(y + p * kRows, total);
        } else {
          float lanes[kRows];
          Isa::store(lanes, total);
          for (std::size_t row = p * kRows; row < rows; ++row) y[row] = lanes[row - p * kRows];
        }
      }
    }
  }

  template <std::size_t kP, std::size_t kT>
  static void panels(const PackedMatrix& matrix, std::size_t first, std::size_t end, const QuantizedBatch& x,
                     std::size_t tokens, const float* factors, float* y, std::size_t y_stride) {
    alignas(64) float totals[kTokenBlock * kP * kRows];
    for (auto panel = first; panel < end; panel += kP) {
      const std::size_t row = panel * kRows;
      for (std::size_t t = 0; t < tokens; t += kTokenBlock) {
        const std::size_t count = tokens - t < kTokenBlock ? tokens - t : kTokenBlock;
        panel_tokens<kP, kT>(matrix, panel, x, t, count, totals);
        write<kP>(totals, count, matrix.rows - row, factors == nullptr ? nullptr : factors + t,
                  y + t * y_stride + row, y_stride);
      }
    }
  }

  static void matmul(const PackedMatrix& matrix, std::uint32_t first, std::uint32_t end,
                     const QuantizedBatch& x, std::uint32_t tokens, const float* factors, float* y,
                     std::size_t y_stride) {
    // A few tokens wait for memory anyway: one panel at a time is one stream, and is read once.
    const std::size_t grouped = tokens > kFewTokens ? first + (end - first) / kPanels * kPanels : first;
    panels<kPanels, kTokens>(matrix, first, grouped, x, tokens, factors, y, y_stride);
    panels<1, kFewTokens>(matrix, grouped, end, x, tokens, factors, y, y_stride);
  }

 private:
  /// Bytes between what is read and what is fetched to the first-level cache, and from memory to the second.
  static constexpr std::size_t kNear = 768;
  static constexpr std::size_t kFar = 8192;
  /// The same where a core's prefetcher keeps up with a single token, for at least so many tokens.
  static constexpr std::size_t kAhead = 4096;
  static constexpr std::size_t kSlowTokens = 4;
};

}  // namespace inferno::cpu
