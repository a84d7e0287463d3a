#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gguf/value.hpp"
#include "quant/format.hpp"

namespace inferno::gguf {

/// Writes a GGUF v3 file. Tensors are declared first, then their bytes are produced one after the other,
/// so a file larger than memory can be written. The file appears under its name only once it is whole:
/// it is written beside it and renamed; a failure leaves nothing behind.
class Writer {
 public:
  /// Fills `target`, which is a whole number of the tensor's rows starting at row `first_row`.
  using Fill = std::function<void(std::uint64_t first_row, std::span<std::byte> target)>;

  explicit Writer(std::uint32_t alignment = 32) : alignment_(alignment) {}

  void add(std::string key, Value value);
  /// `shape` in GGUF's order (fastest first); its first dimension is a multiple of the format's block.
  void add_tensor(std::string name, quant::TensorType type, std::vector<std::uint64_t> shape, Fill fill);
  /// The same from bytes that the caller keeps alive until `write` returns.
  void add_tensor(std::string name, quant::TensorType type, std::vector<std::uint64_t> shape,
                  std::span<const std::byte> bytes);

  /// Called with (bytes written, bytes in all) while writing.
  using Progress = std::function<void(std::uint64_t, std::uint64_t)>;
  /// Throws Error if the file cannot be written whole.
  void write(const std::filesystem::path& path, const Progress& progress = {}) const;

 private:
  struct Tensor {
    std::string name;
    const quant::Format* format;
    std::vector<std::uint64_t> shape;
    Fill fill;
  };
  std::uint32_t alignment_;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace inferno::gguf
