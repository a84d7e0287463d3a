#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampler.hpp"

namespace inferno::test {

/// The documented choice written a second time, for clarity: sorts the whole vocabulary, computes in
/// 128-bit integers, shares nothing with the sampler but the settings.
std::int32_t reference_choice(const std::vector<float>& logits, const SamplingSettings& settings,
                              const TokenHistory& history, std::uint32_t position);

}  // namespace inferno::test
