#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "quant/format.hpp"

namespace inferno {

/// The weights of one tensor as a function of (seed, tensor name, row, column): any part can be made at any
/// time, by any thread, in any order, and is the same on every platform. No generator state, no library
/// distribution, no rounding.
///
/// Weights come in blocks of 32 columns. Element = n * m * 2^exponent, with n in [-127, 127] the sum of two
/// uniform 7-bit numbers less 127 (a triangular distribution), and m in [8, 15] uniform per block. So n m has
/// 11 bits, and Q8_0 (n, scale m 2^exponent), F16 and F32 hold the same numbers exactly; scales differ from
/// block to block and are no powers of two, so that no kernel gets its roundings for nothing.
class RandomMatrix {
 public:
  /// `columns` is a multiple of 32. The standard deviation is `deviation_squared`'s root to within a factor
  /// of the square root of 2: exponents are whole.
  RandomMatrix(std::uint64_t seed, std::string_view name, std::uint32_t columns, double deviation_squared);

  /// Encodes whole rows from `first_row` on into `target`.
  void fill(const quant::Format& format, std::uint64_t first_row, std::span<std::byte> target) const;

 private:
  void fill_row_q8_0(std::uint64_t row, std::byte* target) const;
  void fill_row(std::uint64_t row, std::span<float> values) const;

  std::uint64_t key_;
  std::uint32_t columns_;
  float unit_;  // 2^exponent
};

/// Norm weights near 1: multiples of 2^-10 within an eighth of it.
void fill_norm(std::uint64_t seed, std::string_view name, std::span<float> values);

}  // namespace inferno
