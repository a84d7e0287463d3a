#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gguf/byte_source.hpp"
#include "gguf/reader.hpp"
#include "gguf/value.hpp"

namespace inferno::gguf {

/// Everything before the data section of one file, checked against the file's size.
struct Header {
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  Metadata metadata;
  std::vector<TensorInfo>
      tensors;                   ///< in file order, offsets ascending, none overlapping, all inside the file
  std::uint64_t data_start = 0;  ///< where the data section begins
  std::uint64_t data_end = 0;    ///< end of the last tensor (of the table, if there is none), before padding
};

/// Parses and checks a header. All of it is checked before any value of the metadata is kept, and then they
/// take kMaxValueBytes at most. `file_name` stands at the start of the message of the Error it throws.
Header parse_header(const ByteSource& source, std::string_view file_name);

/// The value with this key, or nullptr.
const Value* find_value(const Metadata& metadata, std::string_view key);

}  // namespace inferno::gguf
