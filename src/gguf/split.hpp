#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
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

/// Throws Error if another GGUF file follows this one's last tensor: shards joined with `cat`. Warns about
/// other bytes.
void check_trailing_bytes(const ByteSource& source, const Header& header, std::string_view file_name);

/// Throws Error if the file at `path` is not the first shard, and says which file is.
void require_first_shard(const Split& split, const std::filesystem::path& path, std::string_view file_name);

}  // namespace inferno::gguf
