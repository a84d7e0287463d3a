#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/value.hpp"
#include "quant/format.hpp"
#include "quant/tensor_layout.hpp"

namespace inferno::gguf {

/// One entry of the tensor table. `shape` is in GGUF's order: the fastest dimension first, so a matrix
/// y[rows] = W[rows, columns] x[columns] has shape {columns, rows}.
struct TensorInfo {
  std::string name;
  const quant::TensorLayout* layout = nullptr;  ///< of its type; set in every tensor of a File
  const quant::Format* format = nullptr;        ///< nullptr: of a type that inferno cannot decode
  std::vector<std::uint64_t> shape;
  std::uint64_t offset = 0;  ///< from the start of its shard's data section, as the file stores it
  std::uint64_t bytes = 0;
  std::uint32_t shard = 0;        ///< index into the split files; 0 if there is one file
  std::uint64_t declared_at = 0;  ///< the byte of its shard at which its entry in the tensor table starts
};

struct OpenOptions {
  bool map = true;  ///< false: read the file into memory instead of mapping it
};

/// A GGUF file, version 2 or 3, whole or split into shards (opened from the first). Everything in the
/// header has been checked against the real file sizes: every tensor's bytes exist, none overlap. Tensors
/// stand in ascending order; gaps between them are allowed. They are of any published type, also of those
/// that inferno cannot decode. The padding after the last one may be missing: no tensor byte is. Other bytes
/// after it are ignored with a warning, unless they are another GGUF file.
class File {
 public:
  /// Throws Error with one line that names the file, the field or tensor, the offset, what was expected
  /// and what was found. Never allocates in proportion to an unchecked number, and for metadata not more than
  /// limits.hpp says. Of later shards the metadata must agree with the first's.
  static File open(const std::filesystem::path& path, const OpenOptions& options = {});

  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  /// Of the first shard.
  const std::filesystem::path& path() const;
  const std::filesystem::path& shard_path(std::uint32_t shard) const;
  std::uint32_t version() const;
  std::uint64_t alignment() const;
  /// Metadata of the first shard, in file order.
  const Metadata& metadata() const;
  /// The value with this key, or nullptr.
  const Value* find(std::string_view key) const;
  /// All tensors of all shards, in file order.
  std::span<const TensorInfo> tensors() const;
  /// The tensor with this name, or nullptr.
  const TensorInfo* find_tensor(std::string_view name) const;
  /// The tensor's bytes; valid as long as the File lives.
  std::span<const std::byte> data(const TensorInfo& tensor) const;
  /// Says that these bytes of some tensor will not be looked at for a while: the memory of a mapped file's
  /// pages is given back. They can still be read, from the file.
  void drop_pages(std::span<const std::byte> part) const;
  /// Sum of the sizes of all shards in bytes.
  std::uint64_t total_bytes() const;

 private:
  struct State;
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace inferno::gguf
