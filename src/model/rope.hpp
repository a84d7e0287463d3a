#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.hpp"

namespace inferno {

/// Rotary position embedding as numbers: how fast each pair of a head's elements turns with the position.
/// Element i of a head's first half turns together with element i of its second half.
///
/// Angles are computed in double precision and only their sine and cosine are rounded to float: an angle of
/// position 131,071 in float is off by 0.004 already, in bfloat16 by whole turns.
class Rope {
 public:
  explicit Rope(const ModelConfig& config);

  /// E / 2 radians per position, scaling included.
  std::span<const double> frequencies() const { return frequencies_; }
  /// Multiplies sine and cosine; 1 without YaRN.
  double attention_factor() const { return attention_factor_; }

  /// Sines and cosines for one position, [E / 2] each, the attention factor included. A pure function of the
  /// position: a table of all positions and one made for a step hold the same bits.
  void fill(std::uint32_t position, std::span<float> sine, std::span<float> cosine) const;

 private:
  std::vector<double> frequencies_;
  double attention_factor_ = 1.0;
};

}  // namespace inferno
