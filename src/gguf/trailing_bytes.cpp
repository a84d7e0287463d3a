#include "gguf/trailing_bytes.hpp"

#include <array>
#include <fmt/format.h>
#include <string>

#include <inferno/error.hpp>

#include "gguf/limits.hpp"
#include "gguf/split.hpp"
#include "platform/log.hpp"

namespace inferno::gguf {

void check_trailing_bytes(const ByteSource& source, const Header& header, std::string_view file_name) {
  const std::uint64_t size = source.size();
  const std::uint64_t padded = align_up(header.data_end, header.alignment);
  for (const std::uint64_t end : {header.data_end, padded}) {
    if (end >= size || size - end < 4) continue;
    std::array<char, 4> start{};
    source.read(end, std::as_writable_bytes(std::span(start)));
    if (std::string_view(start.data(), start.size()) != "GGUF") continue;
    const Split split = read_split(header, file_name);
    const std::string which =
        split.count > 1 ? fmt::format("shard {} of {}", split.number + 1, split.count) : "a whole file";
    throw Error(fmt::format(
        "{}: expected the end of the file at byte {}, found {} trailing bytes that are another GGUF file: "
        "this is {} with others joined to it by \"cat\"; load the first of the separate shards, or merge "
        "them with \"llama-gguf-split --merge FIRST-SHARD OUTPUT\"",
        file_name, end, size - end, which));
  }
  if (size > padded) {
    log().warn("{}: {} bytes follow the end of {} at byte {}; they are ignored", file_name, size - padded,
               header.tensors.empty() ? "the header, which declares no tensor," : "the last tensor", padded);
  }
}

}  // namespace inferno::gguf
