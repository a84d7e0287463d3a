#pragma once

#include <cstdint>
#include <string>

#include "gguf/byte_source.hpp"

namespace inferno::gguf {

/// Why a file is not the GGUF inferno reads, from its first bytes: what it looks like instead and what to do.
/// Empty if it starts as GGUF version 2 or 3 does.
std::string diagnose_start(const ByteSource& source);

}  // namespace inferno::gguf
