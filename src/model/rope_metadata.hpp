#pragma once

#include "model/config.hpp"
#include "model/metadata_reader.hpp"

namespace inferno {

/// Rotary scaling as `<arch>.rope.*` describes it: none, linear or YaRN. A key or type that would change the
/// angles in a way inferno does not compute is refused by name, never ignored: the text would look right at
/// first and drift with length. `context_length` stands in for a missing original context, with a warning.
RopeScaling read_rope_scaling(const MetadataReader& metadata, std::uint32_t context_length);

/// The base of the rotary frequencies; 10000 with a warning if the file does not say.
float read_rope_base(const MetadataReader& metadata);

}  // namespace inferno
