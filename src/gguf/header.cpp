#include "gguf/header.hpp"

#include <fmt/format.h>
#include <string>

#include <inferno/error.hpp>

#include "gguf/diagnosis.hpp"
#include "gguf/header_fields.hpp"
#include "gguf/limits.hpp"
#include "gguf/metadata_parser.hpp"
#include "gguf/tensor_table.hpp"

namespace inferno::gguf {

Header parse_header(const ByteSource& source, std::string_view file_name) {
  if (const std::string problem = diagnose_start(source); !problem.empty()) {
    throw Error(fmt::format("{}: {}", file_name, problem));
  }
  HeaderFields fields(source, file_name);
  fields.skip(4);
  Header header;
  header.version = fields.number<std::uint32_t>("version");
  const std::uint64_t tensor_count = fields.count("tensor count", kMaxTensors, kMinTensorBytes);
  const std::uint64_t entry_count = fields.count("metadata entry count", kMaxEntries, kMinEntryBytes);

  const std::uint64_t metadata_start = fields.position();
  header.alignment = check_metadata(fields, entry_count);
  read_tensor_table(fields, tensor_count, header);

  // Everything has been checked: now the values may take memory.
  fields.seek_metadata(metadata_start);
  header.metadata = read_metadata(fields, entry_count);
  return header;
}

const Value* find_value(const Metadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace inferno::gguf
