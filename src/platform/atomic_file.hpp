#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "platform/file_descriptor.hpp"

namespace inferno {

/// A file that appears under its name whole or not at all: it is written under another name in the same
/// folder and renamed by `commit`. Without `commit` nothing is left behind and an older file stays as it was.
class AtomicFile {
 public:
  /// Throws Error if the folder cannot be written or `path` is there and no regular file. A symbolic link is
  /// followed: its target is replaced, the link stays.
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends. Throws Error when the disk is full or fails.
  void write(std::span<const std::byte> bytes);
  /// Flushes to the disk and gives the file its name.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  FileDescriptor descriptor_;
  std::uint64_t written_ = 0;
};

}  // namespace inferno
