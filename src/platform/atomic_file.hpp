#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "platform/file_descriptor.hpp"

namespace inferno {

/// A file that appears under its name whole or not at all: it is written without a name, where the system can
/// do that (Linux), else under another name in the same folder, and gets its own by `commit`. Without
/// `commit` nothing is left behind and an older file stays as it was; without a name not even if the process
/// is killed.
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
  /// Tries names beside the file's own until `make`, which says whether it worked, does not find one taken.
  template <typename Make>
  void take_temporary_name(const Make& make);

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // the other name; empty as long as there is none
  FileDescriptor descriptor_;
  std::uint64_t written_ = 0;
};

}  // namespace inferno
