#include "backend/gpu/hybrid_products.hpp"

#include <algorithm>
#include <cstring>

#include "backend/gpu/encode_product.hpp"

namespace inferno::gpu {
namespace {

float* floats_of(const Buffer& buffer) {
  return reinterpret_cast<float*>(buffer.mapped().data());
}

}  // namespace

HybridProducts::HybridProducts(const LoadedModel& model, std::unique_ptr<Device> device)
    : device_(std::move(device)) {
  std::vector<const Matrix*> taken;
  const auto consider = [&taken](const Matrix& matrix) {
    if (matrix.rows >= kLeastRows) taken.push_back(&matrix);
  };
  for (const LayerWeights& layer : model.weights.layers) {
    for (const Matrix* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate,
                                 &layer.up, &layer.down}) {
      consider(*matrix);
    }
  }
  consider(model.weights.lm_head);
  for (const Matrix* matrix : taken) weight_bytes_ += packed_bytes(*matrix);
  WeightUpload upload(*device_, model.file, model.config.name, weight_bytes_);
  for (const Matrix* matrix : taken) {
    const Projection& projection =
        projections_.emplace(matrix->bytes, upload.project({matrix})).first->second;
    widest_in_ = std::max(widest_in_, pad_up(matrix->columns, kPadColumns));
    widest_out_ = std::max(widest_out_, projection.out_stride);
  }
  weights_ = upload.take_buffers();
  prepare_kernels();
}

/// One that the driver refuses is found out now, and not in the middle of a text.
void HybridProducts::prepare_kernels() {
  for (const auto& [bytes, projection] : projections_) {
    if (projection.reads_quants()) device_->prepare(Kernel::quantize);
    for (const WeightPiece& piece : projection.pieces) {
      device_->prepare(product_kernel(piece.kind, true));
      device_->prepare(product_kernel(piece.kind, false));
    }
  }
}

std::uint64_t HybridProducts::scratch_bytes(const Limits& limits) const {
  return std::uint64_t{tokens_at_once(limits)} *
             (widest_in_ * (sizeof(float) + 1) + widest_in_ / 32 * sizeof(float) + sizeof(float)) +
         std::uint64_t{tokens_at_once(limits)} * widest_out_ * sizeof(float);
}

/// The logits of a step need not all be there at once.
std::uint32_t HybridProducts::tokens_at_once(const Limits& limits) const {
  const std::uint64_t fit =
      device_->capabilities().max_range / (std::uint64_t{std::max(widest_out_, 1U)} * sizeof(float));
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>({limits.max_tokens, std::max<std::uint64_t>(fit, 1), 64}));
}

void HybridProducts::reserve(const Limits& limits) {
  const auto make = [this](std::uint64_t bytes, Memory memory) {
    return device_->create_buffer(bytes, memory, "products");
  };
  tokens_ = tokens_at_once(limits);
  x_ = make(std::uint64_t{tokens_} * widest_in_ * sizeof(float), Memory::upload);
  quants_ = make(std::uint64_t{tokens_} * widest_in_, Memory::device);
  scales_ = make(std::uint64_t{tokens_} * widest_in_ / 32 * sizeof(float), Memory::device);
  factors_ = make(tokens_ * sizeof(float), Memory::upload);
  y_ = make(std::uint64_t{tokens_} * widest_out_ * sizeof(float), Memory::readback);
}

void HybridProducts::multiply(const Matrix& matrix, const float* x, std::size_t tokens, const float* factors,
                              float* y, std::size_t stride) {
  const Projection& projection = projections_.at(matrix.bytes);
  const std::uint32_t in_stride = pad_up(matrix.columns, kPadColumns);
  for (std::size_t first = 0; first < tokens; first += tokens_) {
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(tokens_, tokens - first));
    for (std::uint32_t t = 0; t < count; ++t) {
      float* row = floats_of(*x_) + std::size_t{t} * in_stride;
      std::copy_n(x + (first + t) * matrix.columns, matrix.columns, row);
      std::fill(row + matrix.columns, row + in_stride, 0.0F);
    }
    if (factors != nullptr) std::copy_n(factors + first, count, floats_of(*factors_));
    device_->run_once([&](Recorder& recorder) {
      const ProductInput input{.floats = x_.get(),
                               .quants = quants_.get(),
                               .scales = scales_.get(),
                               .factors = factors_.get(),
                               .stride = in_stride};
      if (projection.reads_quants()) {
        recorder.dispatch(Kernel::quantize, {*x_, *quants_, *scales_},
                          QuantizeConstants{.columns = matrix.columns, .stride = in_stride},
                          {in_stride / kPadColumns, count});
        recorder.barrier();
      }
      encode_product(recorder, projection.pieces, input, count, factors != nullptr, *y_,
                     projection.out_stride, false);
    });
    for (std::uint32_t t = 0; t < count; ++t) {
      std::copy_n(floats_of(*y_) + std::size_t{t} * projection.out_stride, matrix.rows,
                  y + (first + t) * stride);
    }
  }
}

}  // namespace inferno::gpu
