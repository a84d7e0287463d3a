#pragma once

#include <cstdint>
#include <string>

#include "gguf/byte_source.hpp"

namespace inferno::gguf {

/// Why a file is not the GGUF inferno reads, from its first bytes: what it looks like instead and what to do.
/// Empty if it starts as GGUF version 2 or 3 does.
std::string diagnose_start(const ByteSource& source);

/// "39 (mxfp4)": a tensor type's number with the name that other programs know it by.
std::string describe_type_id(std::uint32_t type_id);

}  // namespace inferno::gguf
