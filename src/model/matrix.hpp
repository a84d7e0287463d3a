#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/format.hpp"

namespace inferno {

/// A matrix of a file, row-major, each row a whole number of blocks. A view: the file owns the bytes.
/// y[rows] = W[rows, columns] x[columns].
struct Matrix {
  const quant::Format* format = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  const std::byte* bytes = nullptr;  ///< rows * row_bytes()
  std::string_view name;             ///< the tensor's name, for messages; lives in the file

  std::size_t row_bytes() const {
    return std::size_t{columns} / format->block_elements * format->block_bytes;
  }
  std::size_t total_bytes() const { return row_bytes() * rows; }
  const std::byte* row(std::uint32_t index) const { return bytes + row_bytes() * index; }
};

}  // namespace inferno
