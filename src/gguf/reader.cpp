#include "gguf/reader.hpp"

#include <fmt/format.h>
#include <set>
#include <unordered_map>
#include <utility>

#include <inferno/error.hpp>

#include "gguf/byte_source.hpp"
#include "gguf/header.hpp"
#include "gguf/limits.hpp"
#include "gguf/refusal.hpp"
#include "gguf/split.hpp"
#include "gguf/trailing_bytes.hpp"
#include "platform/log.hpp"
#include "platform/mapped_file.hpp"
#include "platform/quote.hpp"

namespace inferno::gguf {
namespace {

/// One file with its header checked, not yet mapped.
struct Shard {
  explicit Shard(const std::filesystem::path& path)
      : file(InputFile::open(path)), name(name_for_messages(path)) {
    const FileSource source(file);
    header = parse_header(source, name);
    check_trailing_bytes(source, header, name);
    split = read_split(header, name);
  }

  InputFile file;
  std::string name;
  Header header;
  Split split;
};

[[noreturn]] void refuse_tensor_count(const Shard& first, std::string_view expected) {
  constexpr std::string_view kKey = "split.tensors.count";
  const Value* value = find_value(first.header.metadata, kKey);
  throw Error(fmt::format("{}: metadata key \"{}\": expected {}{}, found {}", first.name, kKey, expected,
                          at_byte(value == nullptr ? std::nullopt : value->offset()), first.split.tensors));
}

void warn_of_ignored_keys(std::string_view first_name, const std::set<std::string>& keys) {
  if (keys.empty()) return;
  constexpr std::size_t kNamed = 10;
  std::string list;
  std::size_t count = 0;
  for (const std::string& key : keys) {
    if (++count > kNamed) break;
    list += fmt::format("{}{}", count == 1 ? "" : ", ", key);
  }
  log().warn("{}: {} metadata {} only in later shards and ignored: {}{}", first_name, keys.size(),
             keys.size() == 1 ? "key is" : "keys are", list, keys.size() > kNamed ? ", ..." : "");
}

std::vector<Shard> open_shards(const std::filesystem::path& path) {
  std::vector<Shard> shards;
  shards.emplace_back(path);
  const Split split = shards[0].split;
  require_first_shard(split, path, shards[0].name);
  const auto name = parse_shard_name(path);
  if (split.count == 1) {
    if (name && name->count > 1) {
      log().warn("{}: named as shard {} of {}, but \"split.count\" does not say so; loaded as a whole file",
                 shards[0].name, name->number + 1, name->count);
    }
    return shards;
  }

  if (!name || name->number != 0 || name->count != split.count) {
    throw Error(fmt::format(
        "{}: this is shard 1 of {}: expected a name that ends in -00001-of-{:05}.gguf, by which the "
        "others are found beside it; rename it and them",
        shards[0].name, split.count, split.count));
  }
  std::string missing;
  std::uint32_t missing_count = 0;
  constexpr std::uint32_t kNamed = 10;
  for (std::uint32_t number = 1; number < split.count; ++number) {
    const auto sibling = shard_path(name->prefix, number, split.count);
    std::error_code ignored;
    if (std::filesystem::exists(sibling, ignored)) continue;
    if (++missing_count <= kNamed)
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name_for_messages(sibling));
  }
  if (missing_count != 0) {
    throw Error(fmt::format("{}: expected {} shards in its folder, found {} missing: {}{}", shards[0].name,
                            split.count, missing_count, missing, missing_count > kNamed ? ", ..." : ""));
  }
  std::uint64_t tensors = shards[0].header.tensors.size();
  std::set<std::string> ignored_keys;
  for (std::uint32_t number = 1; number < split.count; ++number) {
    Shard& shard = shards.emplace_back(shard_path(name->prefix, number, split.count));
    require_shard(shard.split, shard.header, number, split, shard.name);
    require_same_metadata(shards[0].header.metadata, shards[0].name, shard.header.metadata, shard.name,
                          ignored_keys);
    shard.header.metadata = {};  // or many shards would take as many times the memory
    tensors += shard.header.tensors.size();
    if (tensors > kMaxTensors) {
      throw Error(
          fmt::format("{}: tensor count: expected at most {} in all shards together, found {} up to this one",
                      shard.name, kMaxTensors, tensors));
    }
  }
  warn_of_ignored_keys(shards[0].name, ignored_keys);
  return shards;
}

}  // namespace

struct File::State {
  std::vector<std::filesystem::path> paths;  ///< by shard
  std::uint32_t version = 0;
  std::uint64_t alignment = 0;
  Metadata metadata;
  std::vector<TensorInfo> tensors;
  std::vector<MappedFile> mappings;        ///< by shard
  std::vector<std::uint64_t> data_starts;  ///< by shard
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::uint64_t total_bytes = 0;
};

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

File File::open(const std::filesystem::path& path, const OpenOptions& options) {
  std::vector<Shard> shards = open_shards(path);
  auto state = std::make_unique<State>();
  state->version = shards[0].header.version;
  state->alignment = shards[0].header.alignment;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (TensorInfo& tensor : shards[i].header.tensors) {
      tensor.shard = static_cast<std::uint32_t>(i);
      state->tensors.push_back(std::move(tensor));
    }
    state->data_starts.push_back(shards[i].header.data_start);
    state->total_bytes += shards[i].file.size();
  }
  for (std::size_t i = 0; i < state->tensors.size(); ++i) {
    const TensorInfo& tensor = state->tensors[i];
    const auto [earlier, fresh] = state->by_name.emplace(tensor.name, i);
    if (!fresh) {
      throw Error(fmt::format(
          "{}: tensor {}: expected each tensor once over all shards{}, found it again, first in {}",
          shards[tensor.shard].name, quote(tensor.name), at_byte(tensor.declared_at),
          shards[state->tensors[earlier->second].shard].name));
    }
  }
  if (shards[0].split.tensors != state->tensors.size()) {
    refuse_tensor_count(shards[0], fmt::format("{} (the tensors of its {} shard{})", state->tensors.size(),
                                               shards.size(), shards.size() == 1 ? "" : "s"));
  }
  state->metadata = std::move(shards[0].header.metadata);
  for (const Shard& shard : shards) {
    state->paths.push_back(shard.file.path());
    state->mappings.emplace_back(shard.file, options.map, shard.header.data_end);
  }
  return File(std::move(state));
}

const std::filesystem::path& File::path() const {
  return state_->paths.front();
}
const std::filesystem::path& File::shard_path(std::uint32_t shard) const {
  return state_->paths[shard];
}
std::uint32_t File::version() const {
  return state_->version;
}
std::uint64_t File::alignment() const {
  return state_->alignment;
}
const Metadata& File::metadata() const {
  return state_->metadata;
}
const Value* File::find(std::string_view key) const {
  return find_value(state_->metadata, key);
}
std::span<const TensorInfo> File::tensors() const {
  return state_->tensors;
}

void File::drop_pages(std::span<const std::byte> part) const {
  for (const MappedFile& mapping : state_->mappings) mapping.drop_pages(part);
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  return found == state_->by_name.end() ? nullptr : &state_->tensors[found->second];
}

std::span<const std::byte> File::data(const TensorInfo& tensor) const {
  return state_->mappings[tensor.shard].bytes().subspan(state_->data_starts[tensor.shard] + tensor.offset,
                                                        tensor.bytes);
}

std::uint64_t File::total_bytes() const {
  return state_->total_bytes;
}

}  // namespace inferno::gguf
