#include "gguf/split.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "gguf/limits.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";

std::uint64_t whole_number(const Header& header, std::string_view key, std::uint64_t limit,
                           std::string_view file_name) {
  const Value* value = find_value(header.metadata, key);
  if (value == nullptr)
    throw Error(
        fmt::format("{}: metadata key \"{}\": expected it in a split file, found none", file_name, key));
  const auto number = value->as_unsigned();
  if (!number || *number > limit) {
    throw Error(fmt::format(
        "{}: metadata key \"{}\": expected a whole number from 0 to {}, found {}", file_name, key, limit,
        number ? std::to_string(*number)
               : fmt::format("the type {} or a negative number", value_type_name(value->type()))));
  }
  return *number;
}

constexpr std::size_t kDigits = 5;

std::optional<std::uint32_t> five_digits(std::string_view text) {
  if (text.size() != kDigits) return std::nullopt;
  std::uint32_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return number;
}

}  // namespace

Split read_split(const Header& header, std::string_view file_name) {
  Split split;
  if (find_value(header.metadata, kCountKey) == nullptr) {
    if (find_value(header.metadata, kNumberKey) != nullptr)
      whole_number(header, kCountKey, kMaxShards, file_name);
    return split;
  }
  split.count = static_cast<std::uint32_t>(whole_number(header, kCountKey, kMaxShards, file_name));
  if (split.count <= 1) {
    split.count = 1;
    return split;
  }
  split.number = static_cast<std::uint32_t>(whole_number(header, kNumberKey, kMaxShards, file_name));
  split.tensors = whole_number(header, kTensorsKey, kMaxTensors * kMaxShards, file_name);
  if (split.number >= split.count) {
    throw Error(fmt::format("{}: metadata key \"{}\": expected less than split.count = {}, found {}",
                            file_name, kNumberKey, split.count, split.number));
  }
  return split;
}

std::optional<ShardName> parse_shard_name(const std::filesystem::path& path) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::string_view kExtension = ".gguf";
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits + kExtension.size();
  const std::string name = path.filename().native();
  if (name.size() <= kTail || !name.ends_with(kExtension)) return std::nullopt;
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = five_digits(tail.substr(1, kDigits));
  const auto count = five_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number == 0 || *number > *count) return std::nullopt;
  return ShardName{path.native().substr(0, path.native().size() - kTail), *number - 1, *count};
}

std::filesystem::path shard_path(const std::string& prefix, std::uint32_t number, std::uint32_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number + 1, count);
}

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
        "them "
        "with \"llama-gguf-split --merge FIRST-SHARD OUTPUT\"",
        file_name, end, size - end, which));
  }
  if (size > padded) {
    log().warn("{}: {} bytes follow the last tensor's end at byte {}; they are ignored", file_name,
               size - padded, padded);
  }
}

void require_first_shard(const Split& split, const std::filesystem::path& path, std::string_view file_name) {
  if (split.number == 0) return;
  const auto name = parse_shard_name(path);
  if (name && name->number == 0) {
    throw Error(fmt::format(
        "{}: metadata key \"{}\": expected 0 in the first shard, found {}: shard {} bears its name",
        file_name, kNumberKey, split.number, split.number + 1));
  }
  const std::string first =
      name ? quote(shard_path(name->prefix, 0, split.count).native(), 1024)
           : fmt::format("the file whose name ends in -00001-of-{:05}.gguf", split.count);
  throw Error(fmt::format("{}: this is shard {} of {}; load the first shard: {}", file_name, split.number + 1,
                          split.count, first));
}

}  // namespace inferno::gguf
