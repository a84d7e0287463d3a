#pragma once

#include <map>
#include <memory>
#include <vector>

#include "backend/cpu/contract/outside_products.hpp"
#include "backend/gpu/device.hpp"
#include "backend/gpu/weight_upload.hpp"
#include "model/loaded_model.hpp"

namespace inferno::gpu {

/// A model's larger matrix products on a device, asked for one at a time: copy the vectors over, dispatch,
/// wait, copy the result back. This is how most engines use a GPU beside a CPU, and what whole steps are
/// measured against.
class HybridProducts : public cpu::OutsideProducts {
 public:
  /// Matrices with fewer rows than this stay on the CPU: asking would take longer than multiplying.
  static constexpr std::uint32_t kLeastRows = 512;

  /// Uploads the matrices that it takes. Throws Error.
  HybridProducts(const LoadedModel& model, std::unique_ptr<Device> device);

  std::string device() const override { return device_->capabilities().name; }
  std::uint64_t waits() const override { return device_->counters().waits; }
  bool takes(const Matrix& matrix) const override { return projections_.contains(matrix.bytes); }
  std::uint64_t scratch_bytes(const Limits& limits) const override;
  std::uint64_t weight_bytes() const override { return weight_bytes_; }
  void reserve(const Limits& limits) override;
  void multiply(const Matrix& matrix, const float* x, std::size_t tokens, const float* factors, float* y,
                std::size_t stride) override;

 private:
  void prepare_kernels();
  std::uint32_t tokens_at_once(const Limits& limits) const;

  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Buffer>> weights_;
  std::uint64_t weight_bytes_ = 0;
  std::map<const std::byte*, Projection> projections_;  // by the matrix's bytes in the file
  std::uint32_t widest_in_ = 0, widest_out_ = 0;        // padded
  std::uint32_t tokens_ = 0;                            // of one dispatch, at most
  std::unique_ptr<Buffer> x_, quants_, scales_, factors_, y_;
};

}  // namespace inferno::gpu
