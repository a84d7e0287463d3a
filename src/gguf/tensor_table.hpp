#pragma once

#include <cstdint>

#include "gguf/header.hpp"
#include "gguf/header_fields.hpp"

namespace inferno::gguf {

/// The fewest bytes that an entry takes: a name of one byte, one dimension, type, offset.
inline constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

/// Reads so many entries into `header`, whose alignment is known, and finds where the tensors' data lie.
void read_tensor_table(HeaderFields& fields, std::uint64_t tensor_count, Header& header);

}  // namespace inferno::gguf
