#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/constants.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/kernels/vectors.hpp"

namespace inferno::cpu {

/// Products of a matrix of floats (F32, F16, BF16) with float activations.
template <class Isa>
struct MatmulFloat {
  using Floats = typename Isa::Floats;

  static constexpr std::size_t kLanes = 16;
  static_assert(kLanes == std::size_t{arith::kFloatStride});
  static constexpr std::size_t kSegmentColumns = arith::kSegment;
  static constexpr std::size_t kRows = Isa::kFloatRows;
  static constexpr std::size_t kTokens = Isa::kFloatTokens;

  struct F32 {
    static constexpr std::size_t kBytes = 4;
    INFERNO_INLINE static Floats load(const std::byte* p) {
      float lanes[kLanes];  // the file promises no alignment beyond its own
      __builtin_memcpy(lanes, p, sizeof lanes);
      return Isa::load(lanes);
    }
  };
  struct F16 {
    static constexpr std::size_t kBytes = 2;
    INFERNO_INLINE static Floats load(const std::byte* p) { return Isa::load_half(p); }
  };
  struct BF16 {
    static constexpr std::size_t kBytes = 2;
    INFERNO_INLINE static Floats load(const std::byte* p) { return Isa::load_bfloat(p); }
  };

  template <class Type>
  INFERNO_INLINE static Floats load_some(const std::byte* p, std::size_t count) {
    if (count >= kLanes) return Type::load(p);
    std::byte lanes[kLanes * Type::kBytes] = {};
    __builtin_memcpy(lanes, p, count * Type::kBytes);
    return Type::load(lanes);
  }

  /// y[t * y_stride + r] for kR rows and kT tokens. `row_bytes` from row to row, `columns` floats from token
  /// to token.
  template <class Type, std::size_t kR, std::size_t kT>
  static void tile(const std::byte* rows, std::size_t row_bytes, const float* x, std::size_t columns,
                   const float* factors, float* y, std::size_t y_stride) {
    float totals[kR][kT] = {};
    for (std::size_t first = 0; first < columns; first += kSegmentColumns) {
      const std::size_t end = columns - first < kSegmentColumns ? columns : first + kSegmentColumns;
      Floats sums[kR][kT];
      unroll<kR>([&](auto r) INFERNO_INLINE_LAMBDA {
        unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA { sums[r.value][t.value] = Isa::zero(); });
      });
      const auto step = [&](std::size_t i, std::size_t count) INFERNO_INLINE_LAMBDA {
        Floats activations[kT];
        unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
          activations[t.value] = Vectors<Isa>::load_some(x + t.value * columns + i, count);
        });
        unroll<kR>([&](auto r) INFERNO_INLINE_LAMBDA {
          const Floats weights = load_some<Type>(rows + r.value * row_bytes + i * Type::kBytes, count);
          unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
            sums[r.value][t.value] =
                Isa::add(sums[r.value][t.value], Isa::multiply(weights, activations[t.value]));
          });
        });
      };
      std::size_t i = first;
      for (; i + kLanes <= end; i += kLanes) step(i, kLanes);
      if (i < end) step(i, end - i);
      unroll<kR>([&](auto r) INFERNO_INLINE_LAMBDA {
        unroll<kT>([&](auto t) INFERNO_INLINE_LAMBDA {
          totals[r.value][t.value] += Isa::tree_sum(sums[r.value][t.value]);
        });
      });
    }
    for (std::size_t t = 0; t < kT; ++t) {
      for (std::size_t r = 0; r < kR; ++r) {
        const float total = totals[r][t];
        y[t * y_stride + r] = factors != nullptr ? total * factors[t] : total;
      }
    }
  }

  /// Rows go by in groups, all tokens for each: the group's weights stay in the first-level cache.
  template <class Type>
  static void run(const Matrix& matrix, std::size_t first, std::size_t end, const float* x,
                  std::size_t tokens, const float* factors, float* y, std::size_t y_stride) {
    const std::size_t row_bytes = std::size_t{matrix.columns} * Type::kBytes;
    const auto all_tokens = [&](std::size_t row, auto rows) INFERNO_INLINE_LAMBDA {
      const std::byte* weights = matrix.bytes + row * row_bytes;
      std::size_t t = 0;
      const auto step = [&](auto count) INFERNO_INLINE_LAMBDA {
        tile<Type, decltype(rows)::value, decltype(count)::value>(
            weights, row_bytes, x + t * matrix.columns, matrix.columns,
            factors == nullptr ? nullptr : factors + t, y + t * y_stride + row, y_stride);
        t += count.value;
      };
      while (t + kTokens <= tokens) step(Index<kTokens>{});
      while (t < tokens) step(Index<1>{});
    };
    std::size_t row = first;
    for (; row + kRows <= end; row += kRows) all_tokens(row, Index<kRows>{});
    for (; row < end; ++row) all_tokens(row, Index<1>{});
  }

  static void matmul(const Matrix& matrix, std::uint32_t first, std::uint32_t end, const float* x,
                     std::uint32_t tokens, const float* factors, float* y, std::size_t y_stride) {
    switch (matrix.format->type) {
      case quant::TensorType::f16:
        return run<F16>(matrix, first, end, x, tokens, factors, y, y_stride);
      case quant::TensorType::bf16:
        return run<BF16>(matrix, first, end, x, tokens, factors, y, y_stride);
      default:
        return run<F32>(matrix, first, end, x, tokens, factors, y, y_stride);
    }
  }
};

}  // namespace inferno::cpu
