#include "backend/cpu/kernels/isa/amx.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {
namespace {

/// Products with many tokens in tile registers: one instruction multiplies a block of 32 columns of 16 rows
/// with 16 tokens. Its exact integer sums go to memory, from where AVX-512 scales and adds them as the
/// contract says; that part sets the pace, so tiles are kept kAhead blocks in front of it.
template <class Isa>
struct AmxMatmul {
  using Floats = typename Isa::Floats;
  using Few = Matmul<Isa>;

  static constexpr std::size_t kRows = kPanelRows;
  static constexpr std::size_t kColumns = kBlockColumns;
  static constexpr std::size_t kTile = Isa::kTileTokens;
  static constexpr std::size_t kBlockBytes = kRows * kColumns;
  static constexpr std::size_t kActivationBytes = kTile * kColumns;
  /// Fewer tokens than this are faster without tiles.
  static constexpr std::size_t kManyTokens = 9;
  /// Token tiles that share a panel's segment once it is prepared.
  static constexpr std::size_t kBlockTiles = 12;
  static constexpr std::size_t kAhead = 2;
  static constexpr std::size_t kSlots = 4;
  static_assert(kSlots > kAhead && (kSlots & (kSlots - 1)) == 0);

  /// What LDTILECFG reads.
  struct alignas(64) TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {kRows * 4, kColumns, kRows * 4};
    std::uint8_t rows[16] = {kTile, kTile, kColumns / 4};
  };
  // Tile registers: integer sums [16 tokens][16 rows], activations [16 tokens][32 columns], weights [8 quads
  // of columns][16 rows][4 columns].
#define INFERNO_TILE_SUMS 0
#define INFERNO_TILE_ACTIVATIONS 1
#define INFERNO_TILE_WEIGHTS 2

  /// A panel's segment: weights as the signed integers they are, scales as floats.
  struct Segment {
    alignas(64) std::uint8_t weights[kSegmentBlocks][kBlockBytes];
    alignas(64) float scales[kSegmentBlocks][kRows];
    std::size_t count = 0;
  };
  struct Work {
    Segment segment;
    alignas(64) std::int32_t sums[kSlots][kTile][kRows];
    alignas(64) float totals[kBlockTiles * kTile][kRows];
  };

  static void prepare(const std::byte* source, std::size_t count, Segment& segment) {
    segment.count = count;
    const __m512i bias = _mm512_set1_epi8(-128);
    std::uint8_t* target = segment.weights[0];
    for (std::size_t i = 0; i < count * kBlockBytes; i += 64) {
      Isa::prefetch(source + i + PackedMatrix::segment_bytes(kSegmentBlocks));
      _mm512_store_si512(target + i, _mm512_xor_si512(_mm512_loadu_si512(source + i), bias));
    }
    for (std::size_t b = 0; b < count; ++b) {
      Isa::store(segment.scales[b], Isa::load_half(source + count * kBlockBytes + b * kRows * 2));
    }
  }

  /// Integer sums of one block of a token tile.
  INFERNO_INLINE static void multiply(const std::int8_t* activations, const std::uint8_t* weights,
                                      std::int32_t* sums) {
    _tile_zero(INFERNO_TILE_SUMS);
    _tile_loadd(INFERNO_TILE_ACTIVATIONS, activations, kColumns);
    _tile_loadd(INFERNO_TILE_WEIGHTS, weights, kRows * 4);
    _tile_dpbssd(INFERNO_TILE_SUMS, INFERNO_TILE_ACTIVATIONS, INFERNO_TILE_WEIGHTS);
    _tile_stored(INFERNO_TILE_SUMS, sums, kRows * 4);
  }

  /// Adds a segment's sums to the totals of `tiles` token tiles. `values` and `scales` are the first tile's
  /// at the segment's first block; a tile has `blocks` blocks.
  static void add_segment(Work& work, const std::int8_t* values, const float* scales, std::size_t blocks,
                          std::size_t tiles) {
    const Segment& segment = work.segment;
    const std::size_t count = segment.count;
    // The block that the tiles are at, ahead of the one that is scaled.
    const std::int8_t* ahead = values;
    std::size_t ahead_block = 0;
    std::size_t ahead_tile = 0;
    std::size_t slot = 0;
    const auto advance = [&]() INFERNO_INLINE_LAMBDA {
      if (ahead_tile == tiles) return;
      multiply(ahead, segment.weights[ahead_block], work.sums[slot][0]);
      slot = (slot + 1) % kSlots;
      ahead += kActivationBytes;
      if (++ahead_block == count) {
        ahead_block = 0;
        ++ahead_tile;
        ahead += (blocks - count) * kActivationBytes;
      }
    };
    for (std::size_t i = 0; i < kAhead; ++i) advance();

    std::size_t ready = 0;
    for (std::size_t tile = 0; tile < tiles; ++tile) {
      Floats sums[kTile];
      unroll<int{kTile}>([&](auto t) INFERNO_INLINE_LAMBDA { sums[t.value] = Isa::zero(); });
      for (std::size_t b = 0; b < count; ++b) {
        advance();
        const Floats weight_scale = Isa::load(segment.scales[b]);
        const auto& dots = work.sums[ready];
        ready = (ready + 1) % kSlots;
        unroll<int{kTile}>([&](auto t) INFERNO_INLINE_LAMBDA {
          const Floats dot = Isa::to_float(Isa::load_ints(dots[t.value]));
          const Floats product =
              Isa::multiply(Isa::multiply(dot, weight_scale), Isa::broadcast(scales[b * kTile + t.value]));
          sums[t.value] = Isa::add(sums[t.value], product);
        });
      }
      scales += blocks * kTile;
      unroll<int{kTile}>([&](auto t) INFERNO_INLINE_LAMBDA {
        float* total = work.totals[tile * kTile + t.value];
        Isa::store(total, Isa::add(Isa::load(total), sums[t.value]));
      });
    }
  }

  static void many_tokens(const PackedMatrix& matrix, std::uint32_t first, std::uint32_t end,
                          const QuantizedBatch& x, std::size_t tokens, const float* factors, float* y,
                          std::size_t y_stride) {
    const std::size_t blocks = matrix.blocks();
    Work work;
    for (auto panel = first; panel < end; ++panel) {
      const std::size_t row = std::size_t{panel} * kRows;
      for (std::size_t t = 0; t < tokens; t += kBlockTiles * kTile) {
        const std::size_t left = tokens - t;
        const std::size_t count = left < kBlockTiles * kTile ? left : kBlockTiles * kTile;
        // The last tile's tokens beyond the batch are multiplied, too: there is room for them.
        const std::size_t tiles = (count + kTile - 1) / kTile;
        for (std::size_t i = 0; i < tiles * kTile; ++i) Isa::store(work.totals[i], Isa::zero());
        const std::byte* source = matrix.panel(panel);
        for (std::size_t block = 0; block < blocks; block += kSegmentBlocks) {
          const std::size_t segment_blocks =
              blocks - block < kSegmentBlocks ? blocks - block : kSegmentBlocks;
          prepare(source, segment_blocks, work.segment);
          source += PackedMatrix::segment_bytes(static_cast<std::uint32_t>(segment_blocks));
          // The compiler does not know that tile loads read what was stored.
          __asm__ volatile("" ::: "memory");
          const std::size_t at = (t / kTile * blocks + block) * kTile;
          add_segment(work, x.values + at * kColumns, x.scales + at, blocks, tiles);
        }
        Few::template write<1>(work.totals[0], count, matrix.rows - row,
                               factors == nullptr ? nullptr : factors + t, y + t * y_stride + row, y_stride);
      }
    }
  }

  static void matmul(const PackedMatrix& matrix, std::uint32_t first, std::uint32_t end,
                     const QuantizedBatch& x, std::uint32_t tokens, const float* factors, float* y,
                     std::size_t y_stride) {
    if (tokens < kManyTokens) return Few::matmul(matrix, first, end, x, tokens, factors, y, y_stride);
    const TileConfig config;
    _tile_loadconfig(&config);
    many_tokens(matrix, first, end, x, tokens, factors, y, y_stride);
    // Tiles in use would be saved and restored at every change of threads.
    _tile_release();
  }
};

constexpr KernelSet with_tiles(KernelSet set) {
  set.matmul = AmxMatmul<Amx>::matmul;
  return set;
}

}  // namespace

constinit const KernelSet kAmx = with_tiles(make_kernel_set<Amx>(
    "amx", "AMX with int8, AVX-512 F, BW, VL and VNNI, and an operating system that lets programs use them",
    has_amx));

}  // namespace inferno::cpu
