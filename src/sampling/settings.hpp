#pragma once

#include <cstddef>
#include <string>

#include <inferno/sampling.hpp>

namespace inferno::sampling {

/// What is wrong with the settings for this vocabulary, as one line; empty if nothing is.
std::string settings_problem(const SamplingSettings& settings, std::size_t vocab_size);

}  // namespace inferno::sampling
