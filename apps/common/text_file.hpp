#pragma once

#include <string>

namespace inferno::cli {

/// All of a file; "-" is stdin. Throws Error if it cannot be read.
std::string read_text(const std::string& path);

}  // namespace inferno::cli
