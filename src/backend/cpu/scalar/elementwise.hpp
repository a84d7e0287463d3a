#pragma once

#include <cstddef>
#include <span>

namespace inferno::scalar {

/// Root-mean-square norm of each row: y = x / sqrt(mean(x^2) + epsilon) * weight. `x` and `y` [rows, width],
/// `weight` [width]; y may be x. Used over the hidden state (width D) and over single heads (width E).
void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon, std::span<float> y);

/// Rotary embedding of one token's heads, in place: `x` [heads, E], `sine` and `cosine` [E / 2] of its
/// position. Element i turns together with element i + E / 2 (halves, not neighbours).
void rope(std::span<float> x, std::span<const float> sine, std::span<const float> cosine);

/// x += y.
void add(std::span<float> x, std::span<const float> y);

/// gate = silu(gate) * up, where silu(v) = v / (1 + exp(-v)).
void swiglu(std::span<float> gate, std::span<const float> up);

}  // namespace inferno::scalar
