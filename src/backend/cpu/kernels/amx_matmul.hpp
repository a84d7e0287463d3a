#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/amx_tiles.hpp"
#include "backend/cpu/kernels/matmul.hpp"

namespace inferno::cpu {
namespace {

/// Products with many tokens in tile registers: one instruction multiplies a block of 32 columns of 16 rows
/// with 16 tokens. Its exact integer sums go to memory, from where AVX-512 scales and adds them as the
/// contract says. Both take about as long, so a unit of work (a segment of one panel times one tile of
/// tokens) is multiplied block by block between the blocks of the unit before, which is being scaled.
template <class Isa>
struct AmxMatmul {
  using Floats = typename Isa::Floats;
  using Math = Elementary<Isa>;
  using Few = Matmul<Isa>;

  static constexpr std::size_t kRows = kPanelRows;
  static constexpr std::size_t kColumns = kBlockColumns;
  static constexpr std::size_t kTile = Isa::kTileTokens;
  static constexpr std::size_t kRowBytes = kRows * 4;
  static constexpr std::size_t kBlockBytes = kRows * kColumns;
  /// Fewer tokens than this are faster without tiles.
  static constexpr std::size_t kManyTokens = 9;
  /// Panels that share a tile of activations while it is in the first-level cache.
  static constexpr std::size_t kPanels = 2;
  /// Tiles of tokens that share a segment of panels once that is prepared.
  static constexpr std::size_t kTiles = 16;
  /// Blocks between the one that is multiplied and the one that is scaled: as long as a product takes.
  static constexpr std::size_t kAhead = 2;
  static constexpr std::size_t kSlots = 4;
  static_assert(kSlots > kAhead);

  /// Tile registers: 0 integer sums [16 tokens][16 rows], 1 activations [16 tokens][32 columns], 2 weights [8
  /// quads of columns][16 rows][4 columns]. One of each is enough: they are renamed.
  INFERNO_INLINE static TileConfig config() {
    TileConfig config;
    config.set(0, kTile, kRowBytes);
    config.set(1, kTile, kColumns);
    config.set(2, kColumns / kQuad, kRowBytes);
    return config;
  }

  /// A panel's segment: weights as the signed integers that they are, scales as floats, and what undoes the
  /// start of a fused sum (Matmul::scaled).
  struct Segment {
    alignas(64) std::uint8_t weights[kSegmentBlocks][kBlockBytes];
    alignas(64) float scales[kSegmentBlocks][kRows];
    alignas(64) float undo[kSegmentBlocks][kRows];
  };
  struct Work {
    std::size_t blocks = 0;  ///< of the matrix
    std::size_t count = 0;   ///< of the segment
    std::size_t panels = 0;
    std::size_t tiles = 0;
    alignas(64) std::int32_t start[kTile][kRows];  ///< what integer sums start from
    Segment segments[kPanels];
    alignas(64) std::int32_t sums[kSlots][kTile][kRows];
    alignas(64) float totals[kTiles][kPanels][kTile][kRows];
  };

  static void prepare(const std::byte* source, std::size_t count, Segment& segment) {
    for (std::size_t b = 0; b < count; ++b) {
      const Floats scale = Isa::load_half(source + b * kRows * sizeof(std::uint16_t));
      Isa::store(segment.scales[b], scale);
      Isa::store(segment.undo[b], Isa::multiply(scale, Isa::broadcast(-Math::kRounder)));
    }
    source += PackedMatrix::scale_bytes(count);
    const __m512i bias = _mm512_set1_epi8(-128);
    std::uint8_t* target = segment.weights[0];
    for (std::size_t i = 0; i < count * kBlockBytes; i += 64) {
      Isa::prefetch_far(source + i + PackedMatrix::segment_bytes(kSegmentBlocks));
      _mm512_store_si512(target + i, _mm512_xor_si512(_mm512_loadu_si512(source + i), bias));
    }
  }

  /// Where the tiles are: the next block of the next unit to multiply.
  struct Ahead {
    const std::int8_t* activations;
    std::size_t block = 0;
    std::size_t panel = 0;
    std::size_t tile = 0;
    std::size_t slot = 0;
  };

  INFERNO_INLINE static void multiply_next(Work& work, Ahead& ahead) {
    if (ahead.tile == work.tiles) return;
    _tile_loadd(0, work.start, kRowBytes);
    _tile_loadd(1, ahead.activations + ahead.block * kTile * kColumns, kColumns);
    _tile_loadd(2, work.segments[ahead.panel].weights[ahead.block], kRowBytes);
    _tile_dpbssd(0, 1, 2);
    _tile_stored(0, work.sums[ahead.slot], kRowBytes);
    ahead.slot = (ahead.slot + 1) % kSlots;
    if (++ahead.block < work.count) return;
    ahead.block = 0;
    if (++ahead.panel < work.panels) return;
    ahead.panel = 0;
    ++ahead.tile;
    ahead.activations += work.blocks * kTile * kColumns;
  }

  /// Adds a segment of the panels to the totals of the tiles. `values` and `scales` are the first tile's at
  /// the segment's first block.
  static void add_segment(Work& work, const std::int8_t* values, const float* scales) {
    Ahead ahead{values};
    for (std::size_t i = 0; i < kAhead; ++i) multiply_next(work, ahead);
    std::size_t slot = 0;
    for (std::size_t tile = 0; tile < work.tiles; ++tile, scales += work.blocks * kTile) {
      for (std::size_t panel = 0; panel < work.panels; ++panel) {
        const Segment& segment = work.segments[panel];
        Floats sums[kTile];
        unroll<kTile>([&](auto t) INFERNO_INLINE_LAMBDA { sums[t.value] = Isa::zero(); });
        for (std::size_t b = 0; b < work.count; ++b) {
          multiply_next(work, ahead);
          const Floats weight_scale = Isa::load(segment.scales[b]);
          const auto& dots = work.sums[slot];
          slot = (slot + 1) % kSlots;
          unroll<kTile>([&](auto t) INFERNO_INLINE_LAMBDA {
            const Floats product = Few::scaled(Isa::load_ints(dots[t.value]), weight_scale, segment.undo[b]);
            const Floats scale = Isa::broadcast(scales[b * kTile + t.value]);
            sums[t.value] = Isa::add(sums[t.value], Isa::multiply(product, scale));
          });
        }
        unroll<kTile>([&](auto t) INFERNO_INLINE_LAMBDA {
          float* total = work.totals[tile][panel][t.value];
          Isa::store(total, Isa::add(Isa::load(total), sums[t.value]));
        });
      }
    }
  }

  /// The totals of work.panels panels from `panel` on and `tokens` tokens from `first_token` on.
  static void panel_tokens(const PackedMatrix& matrix, std::size_t panel, const QuantizedBatch& x,
                           std::size_t first_token, Work& work) {
    const std::size_t stride = PackedMatrix::panel_bytes(matrix.blocks());
    const std::byte* source = matrix.panel(panel);
    for (std::size_t i = 0; i < work.tiles * kPanels * kTile; ++i) {
      Isa::store(work.totals[0][0][0] + i * kRows, Isa::zero());
    }
    for (std::size_t block = 0; block < work.blocks; block += kSegmentBlocks) {
      const std::size_t left = work.blocks - block;
      work.count = left < kSegmentBlocks ? left : kSegmentBlocks;
      for (std::size_t p = 0; p < work.panels; ++p) {
        prepare(source + p * stride, work.count, work.segments[p]);
      }
      source += PackedMatrix::segment_bytes(kSegmentBlocks);
      // The compiler does not know that tile loads read what was stored.
      __asm__ volatile("" ::: "memory");
      const std::size_t at = (first_token / kTile * work.blocks + block) * kTile;
      add_segment(work, x.values + at * kColumns, x.scales + at);
    }
  }

  static void many_tokens(const PackedMatrix& matrix, std::size_t first, std::size_t end,
                          const QuantizedBatch& x, std::size_t tokens, const float* factors, float* y,
                          std::size_t y_stride) {
    Work work;
    work.blocks = matrix.blocks();
    for (auto& token : work.start) Isa::store_ints(token, Isa::broadcast_int(Math::kRounderBits));
    for (std::size_t panel = first; panel < end; panel += kPanels) {
      work.panels = end - panel < kPanels ? end - panel : kPanels;
      for (std::size_t t = 0; t < tokens; t += kTiles * kTile) {
        const std::size_t count = tokens - t < kTiles * kTile ? tokens - t : kTiles * kTile;
        // The last tile's tokens beyond the batch are multiplied, too: there is room for them.
        work.tiles = (count + kTile - 1) / kTile;
        panel_tokens(matrix, panel, x, t, work);
        for (std::size_t tile = 0; tile < work.tiles; ++tile) {
          const std::size_t token = t + tile * kTile;
          const std::size_t tile_tokens = tokens - token < kTile ? tokens - token : kTile;
          for (std::size_t p = 0; p < work.panels; ++p) {
            const std::size_t row = (panel + p) * kRows;
            Few::template write<1>(work.totals[tile][p][0], tile_tokens, matrix.rows - row,
                                   factors == nullptr ? nullptr : factors + token, y + token * y_stride + row,
                                   y_stride);
          }
        }
      }
    }
  }

  static void matmul(const PackedMatrix& matrix, std::uint32_t first, std::uint32_t end,
                     const QuantizedBatch& x, std::uint32_t tokens, const float* factors, float* y,
                     std::size_t y_stride) {
    if (tokens < kManyTokens) return Few::matmul(matrix, first, end, x, tokens, factors, y, y_stride);
    const Tiles tiles(config());
    many_tokens(matrix, first, end, x, tokens, factors, y, y_stride);
  }
};

}  // namespace
}  // namespace inferno::cpu
