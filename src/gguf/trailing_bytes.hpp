#pragma once

#include <string_view>

#include "gguf/header.hpp"

namespace inferno::gguf {

/// Looks at what follows a file's last tensor. Throws Error if it is another GGUF file: shards joined with
/// `cat`. Warns about other bytes.
void check_trailing_bytes(const ByteSource& source, const Header& header, std::string_view file_name);

}  // namespace inferno::gguf
