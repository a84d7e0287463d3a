#pragma once

#include <vector>

#include "backend/cpu/contract/aligned_buffer.hpp"
#include "backend/cpu/contract/outside_products.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "model/loaded_model.hpp"

namespace inferno::cpu {

/// A matrix as the kernels take it: repacked if its format is made of integers, else the file's own floats.
struct CpuMatrix {
  Matrix source;            ///< in the file
  PackedMatrix packed;      ///< bytes is nullptr if the weights are floats, or somewhere else
  bool is_outside = false;  ///< OutsideProducts multiplies it

  bool is_packed() const { return packed.bytes != nullptr; }
  std::uint32_t rows() const { return source.rows; }
  /// Panels of 16 rows, for float weights too: rows are shared out in panels.
  std::uint32_t panels() const { return (source.rows + kPanelRows - 1) / kPanelRows; }
};

struct CpuLayer {
  CpuMatrix query, key, value, attention_output, gate, up, down;
  const LayerWeights* norms = nullptr;  ///< for the norms' weights
};

/// A model's matrices, repacked once when the executor is made. The file's pages are given back as they are
/// read, so repacking does not hold the model twice.
class CpuWeights {
 public:
  /// Repacks with all of `policy`'s threads; shows progress on a terminal. Throws std::bad_alloc. `model`
  /// outlives this.
  /// Matrices that `outside` (or nullptr) takes are left alone.
  CpuWeights(const LoadedModel& model, ParallelPolicy& policy, const OutsideProducts* outside = nullptr);

  const std::vector<CpuLayer>& layers() const { return layers_; }
  const CpuMatrix& lm_head() const { return lm_head_; }
  /// Bytes of the repacked matrices.
  std::uint64_t packed_bytes() const { return buffer_.size(); }

 private:
  std::vector<CpuLayer> layers_;
  CpuMatrix lm_head_;
  AlignedBuffer<std::byte> buffer_;
};

}  // namespace inferno::cpu
