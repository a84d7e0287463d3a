#pragma once

#include <string>
#include <vector>

#include "scenarios.hpp"

namespace inferno::load {

/// An SVG picture: for each series, the share of gaps (upwards, 0 to 1) that are at most so long (to the
/// right, in milliseconds, logarithmic). Throws Error if the file cannot be written.
void plot_gaps(const std::vector<Series>& series, const std::string& path);

}  // namespace inferno::load
