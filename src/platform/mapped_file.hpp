#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "platform/file_descriptor.hpp"

namespace inferno {

/// A regular file opened for reading. Directories, FIFOs, sockets and devices are refused at once, without
/// waiting for anybody on their other end.
class InputFile {
 public:
  /// Throws Error naming the path and what it is or why it cannot be opened.
  static InputFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  /// Size in bytes when it was opened.
  std::uint64_t size() const { return size_; }
  /// Fills `target` from `offset`. Throws Error if the file has become shorter or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> target) const;

 private:
  friend class MappedFile;
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::uint64_t size_ = 0;
};

/// The bytes of a file, or the first of them, read-only, at an address aligned to a page.
/// A mapped file must not be shortened by others while it is in use: the system then kills the process on
/// access. Nothing portable prevents that; `map = false` is immune.
class MappedFile {
 public:
  /// Maps the file, or with `map = false` reads it into memory. A file system that cannot map is read
  /// instead, with a warning. Throws Error if there is not enough memory or the file cannot be read whole.
  explicit MappedFile(const InputFile& file, bool map = true) : MappedFile(file, map, file.size()) {}
  /// The same for its first `bytes` bytes, at most its size.
  MappedFile(const InputFile& file, bool map, std::uint64_t bytes);
  /// The same for a path.
  static MappedFile open(const std::filesystem::path& path, bool map = true);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {address_, size_}; }
  /// Gives the memory of whole pages inside `part` back to the system; they are read from the file again if
  /// they are looked at. Nothing happens to a file that was read instead of mapped.
  void drop_pages(std::span<const std::byte> part) const;

 private:
  std::byte* address_ = nullptr;
  std::size_t size_ = 0;
  bool mapped_ = false;
};

}  // namespace inferno
