#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "gguf/header.hpp"

/// Split files: `NAME-00001-of-00003.gguf` and so on. The first holds the metadata, each holds a part of the
/// tensors.
namespace inferno::gguf {

/// What a shard says about itself; a whole file is the one shard of one.
struct Split {
  std::uint32_t number = 0;   ///< `split.no`, from 0
  std::uint32_t count = 1;    ///< `split.count`
  std::uint64_t tensors = 0;  ///< `split.tensors.count`: of all shards together
};

/// What a shard's file name says.
struct ShardName {
  std::string prefix;        ///< folder and all before "-00001-of-"
  std::uint32_t number = 0;  ///< from 0, although names count from 1
  std::uint32_t count = 0;
};

/// Reads `split.*`. Throws Error naming the key, what was expected and what was found.
Split read_split(const Header& header, std::string_view file_name);

/// Nothing if the name is not a shard's. The path is taken as it was given: shards reached through symbolic
/// links have their siblings beside the link, not beside its target.
std::optional<ShardName> parse_shard_name(const std::filesystem::path& path);

std::filesystem::path shard_path(const std::string& prefix, std::uint32_t number, std::uint32_t count);

/// Throws Error if a later shard does not say that it is number `number` of the split that the first belongs
/// to.
void require_shard(const Split& split, const Header& header, std::uint32_t number, const Split& expected,
                   std::string_view file_name);

/// Throws Error if a later shard contradicts the first one's metadata: a key that both have, other than
/// `split.*`, must have the same value. Adds the keys that only the later one has, quoted, to
/// `keys_only_later`; an alignment is a shard's own.
void require_same_metadata(const Metadata& first, std::string_view first_name, const Metadata& later,
                           std::string_view later_name, std::set<std::string>& keys_only_later);

/// Throws Error if the file at `path` is not the first shard, and says which file is.
void require_first_shard(const Split& split, const std::filesystem::path& path, std::string_view file_name);

}  // namespace inferno::gguf
