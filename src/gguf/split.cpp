#include "gguf/split.hpp"

#include <fmt/format.h>
#include <unordered_map>

#include <inferno/error.hpp>

#include "gguf/limits.hpp"
#include "gguf/refusal.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

constexpr std::string_view kPrefix = "split.";
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
    throw Error(fmt::format("{}: metadata key \"{}\": expected a whole number from 0 to {}{}, found {}",
                            file_name, key, limit, at_byte(value->offset()), describe(*value)));
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
  split.tensors = header.tensors.size();
  if (find_value(header.metadata, kCountKey) == nullptr) {
    if (find_value(header.metadata, kNumberKey) != nullptr)
      whole_number(header, kCountKey, kMaxShards, file_name);
    return split;
  }
  split.count = static_cast<std::uint32_t>(whole_number(header, kCountKey, kMaxShards, file_name));
  if (split.count == 0) {  // shards that were merged again keep their keys
    split.count = 1;
    return split;
  }
  const bool alone = split.count == 1;  // then the others need not be there
  if (!alone || find_value(header.metadata, kNumberKey) != nullptr) {
    split.number = static_cast<std::uint32_t>(whole_number(header, kNumberKey, kMaxShards, file_name));
  }
  if (!alone || find_value(header.metadata, kTensorsKey) != nullptr) {
    split.tensors = whole_number(header, kTensorsKey, kMaxTensors, file_name);
  }
  if (split.number >= split.count) {
    throw Error(fmt::format("{}: metadata key \"{}\": expected less than split.count = {}{}, found {}",
                            file_name, kNumberKey, split.count,
                            at_byte(find_value(header.metadata, kNumberKey)->offset()), split.number));
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

void require_shard(const Split& split, const Header& header, std::uint32_t number, const Split& expected,
                   std::string_view file_name) {
  const auto require = [&](std::string_view key, std::uint64_t wanted, std::uint64_t found) {
    if (wanted == found) return;
    const Value* value = find_value(header.metadata, key);
    throw Error(fmt::format(
        "{}: metadata key \"{}\": expected {}{}, found {}: it is not shard {} of this model", file_name, key,
        wanted, at_byte(value == nullptr ? std::nullopt : value->offset()), found, number + 1));
  };
  require(kCountKey, expected.count, split.count);
  require(kNumberKey, number, split.number);
  require(kTensorsKey, expected.tensors, split.tensors);
}

void require_same_metadata(const Metadata& first, std::string_view first_name, const Metadata& later,
                           std::string_view later_name, std::set<std::string>& keys_only_later) {
  std::unordered_map<std::string_view, const Value*> values;
  for (const auto& [key, value] : first) values.emplace(key, &value);
  for (const auto& [key, value] : later) {
    if (key.starts_with(kPrefix)) continue;
    const auto found = values.find(key);
    if (found == values.end()) {
      if (key != kAlignmentKey && keys_only_later.size() < kMaxEntries) keys_only_later.insert(quote(key));
      continue;
    }
    if (say_the_same(*found->second, value)) continue;
    throw Error(fmt::format(
        "{}: metadata key {}: expected {} as in {}{}, found {}{}: it is not a shard of the same model",
        later_name, quote(key), describe(*found->second), first_name, at_byte(value.offset()),
        describe(value), value.as_array() == nullptr ? "" : " with other elements"));
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
