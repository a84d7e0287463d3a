#pragma once

#include <cstdint>

#include "model/metadata_reader.hpp"

namespace inferno {

/// Settings of other architectures that change what is computed. Leaving one out would give plausible but
/// wrong text, so each must be absent or hold the value that changes nothing. Throws Error naming the key.
void refuse_foreign_settings(const MetadataReader& metadata, std::uint32_t context_length);

/// Warns about keys that nobody has asked `metadata` for: they change nothing that inferno knows of, but the
/// user may know better.
void report_unread_keys(const MetadataReader& metadata);

}  // namespace inferno
