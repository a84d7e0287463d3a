#pragma once

#include <cstdint>

#include "gguf/header_fields.hpp"
#include "gguf/value.hpp"

namespace inferno::gguf {

/// The fewest bytes that an entry takes: a key of one byte, a type, a value of one byte.
inline constexpr std::uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;

/// Passes over so many entries, checks every field and keeps nothing. Returns the file's alignment.
std::uint32_t check_metadata(HeaderFields& fields, std::uint64_t entry_count);

/// The same entries as values, once they are known to be good. They are checked again as far as memory
/// depends on it: the file may have changed meanwhile.
Metadata read_metadata(HeaderFields& fields, std::uint64_t entry_count);

}  // namespace inferno::gguf
