#pragma once

#include <string>

#include "gguf/reader.hpp"

namespace inferno::gguf {

/// What `inspect` prints: the metadata (long arrays and texts shortened), the tensor table with name, type,
/// shape, offset and bytes, and the totals with the types that inferno cannot run. Ends with a newline.
std::string describe_text(const File& file);

/// The same as one JSON object, nothing shortened: `{version, alignment, metadata: {...}, tensors: [{name,
/// type, shape, offset, bytes}], total_bytes}`. Tensors of a type that inferno cannot run have also
/// `supported`, false; in split files each has its `shard`, from 1. Offsets count from the start of the
/// shard's data section, as the file stores them. Floats that JSON lacks are the strings "nan", "inf" and
/// "-inf"; bytes that are no UTF-8 become U+FFFD.
std::string describe_json(const File& file);

}  // namespace inferno::gguf
