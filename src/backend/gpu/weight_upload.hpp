#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/gpu/device.hpp"
#include "backend/gpu/packing.hpp"
#include "gguf/reader.hpp"
#include "model/matrix.hpp"
#include "platform/terminal.hpp"

namespace inferno::gpu {

/// A stretch of packed rows that one dispatch binds.
struct WeightPiece {
  WeightKind kind = WeightKind::q8;
  Slice bytes;
  std::uint32_t rows = 0;
  std::uint32_t first_out = 0;  ///< where its first row goes in the output vector
};

/// Matrices that read the same vector and write one output vector side by side.
struct Projection {
  std::uint32_t columns = 0;
  std::uint32_t out_stride = 0;     ///< floats from token to token of the output
  std::vector<WeightPiece> pieces;  ///< as few as formats and the device's limit allow
  /// The single matrices, for observers, who see them one by one: pieces[i] of the i-th matrix.
  std::vector<std::vector<WeightPiece>> parts;
  std::vector<std::uint32_t> offsets;  ///< of each matrix in the output
  std::vector<std::uint64_t> bytes;    ///< of each matrix in the file

  std::uint32_t segments() const { return divide_up(columns, kPadColumns); }
  bool reads_quants() const;
  bool reads_floats() const;
};

/// Bytes that a packed matrix takes on a device.
std::uint64_t packed_bytes(const Matrix& matrix);
/// Bytes that a norm's weights take on a device.
std::uint64_t norm_bytes(const std::vector<float>& weight);

/// Packs weights, places them on a device and sends them over, with a progress line on a terminal. The file's
/// pages are given back as they are read. Methods throw Error.
class WeightUpload {
 public:
  /// `total`: bytes that will be sent. Throws Error if so many are not free. `file` holds the matrices.
  WeightUpload(Device& device, const gguf::File& file, std::string_view model_name, std::uint64_t total);

  /// A norm's weights, padded.
  Slice norm(const std::vector<float>& weight);
  /// Matrices that read one vector and write theirs side by side.
  Projection project(std::initializer_list<const Matrix*> matrices);
  /// The memory that all of it lies in.
  std::vector<std::unique_ptr<Buffer>> take_buffers() { return std::move(buffers_); }

 private:
  Slice place(std::uint64_t bytes);
  void pack(const Matrix& matrix, const Slice& target);
  std::vector<WeightPiece> cut(const PackedShape& shape, const Slice& whole, std::uint32_t first_out,
                               std::string_view name) const;

  Device& device_;
  const gguf::File& file_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::byte> packed_;
  std::uint64_t total_;
  std::uint64_t placed_ = 0;  // bytes that have a place
  std::uint64_t used_ = 0;    // of the latest arena
  std::uint64_t done_ = 0;    // bytes that were sent
  ProgressLine progress_;
};

}  // namespace inferno::gpu
