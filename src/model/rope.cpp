#include "model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace inferno {
namespace {

/// The pair (as a real number) that turns `rotations` times over the original context.
double pair_of_rotations(double rotations, const ModelConfig& config) {
  const double context = config.rope_scaling.original_context;
  return config.head_dim * std::log(context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(config.rope_base)));
}

/// YaRN: pairs that turn often within the original context keep their frequency, pairs that turn less than
/// about once are slowed down by the factor, and between the two a ramp blends.
void apply_yarn(const ModelConfig& config, std::vector<double>& frequencies) {
  const RopeScaling& scaling = config.rope_scaling;
  const double low = std::max(std::floor(pair_of_rotations(scaling.beta_fast, config)), 0.0);
  const double high = std::min(std::ceil(pair_of_rotations(scaling.beta_slow, config)),
                               static_cast<double>(config.head_dim) - 1.0);
  const double width = std::max(high - low, 0.001);  // a step where the ramp has no width
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double slowed = std::clamp((static_cast<double>(i) - low) / width, 0.0, 1.0);
    frequencies[i] *= slowed / static_cast<double>(scaling.factor) + (1.0 - slowed);
  }
}

}  // namespace

Rope::Rope(const ModelConfig& config) : frequencies_(config.head_dim / 2) {
  const RopeScaling& scaling = config.rope_scaling;
  const double base = config.rope_base;
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    frequencies_[i] = std::pow(base, -2.0 * static_cast<double>(i) / config.head_dim);
  }
  if (scaling.type == RopeScaling::Type::linear) {
    for (double& frequency : frequencies_) frequency /= static_cast<double>(scaling.factor);
  }
  if (scaling.type == RopeScaling::Type::yarn) {
    apply_yarn(config, frequencies_);
    attention_factor_ = 0.1 * std::log(static_cast<double>(scaling.factor)) + 1.0;
  }
  if (scaling.attention_factor != 0.0F) attention_factor_ = scaling.attention_factor;
}

void Rope::fill(std::uint32_t position, std::span<float> sine, std::span<float> cosine) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = position * frequencies_[i];
    sine[i] = static_cast<float>(std::sin(angle) * attention_factor_);
    cosine[i] = static_cast<float>(std::cos(angle) * attention_factor_);
  }
}

}  // namespace inferno
