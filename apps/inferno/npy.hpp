#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "platform/atomic_file.hpp"

namespace inferno::cli {

/// Writes a float32 array in NumPy's format, row by row. The file appears under its name only once `commit`
/// is called.
class NpyWriter {
 public:
  /// `shape` in NumPy's order: {V} or {T, V}. Throws Error if the file cannot be made.
  NpyWriter(const std::filesystem::path& path, const std::vector<std::uint64_t>& shape);

  void append(std::span<const float> row);
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
};

}  // namespace inferno::cli
