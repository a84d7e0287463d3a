#include "backend/cpu/contract/cpu_weights.hpp"

#include <algorithm>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "platform/available_memory.hpp"
#include "platform/quote.hpp"
#include "platform/terminal.hpp"

namespace inferno::cpu {
namespace {

/// Of the file, repacked before its pages are given back: the largest matrix is a quarter of a small model.
constexpr std::size_t kPieceBytes = std::size_t{8} << 20U;

/// pack_panels for panels [begin, end), a piece at a time. `target` is where panel 0 goes.
std::uint32_t pack_in_pieces(const gguf::File& file, const Matrix& source, std::uint32_t begin,
                             std::uint32_t end, std::byte* target) {
  const auto panel_bytes = PackedMatrix::panel_bytes(source.columns / kBlockColumns);
  const auto panels = std::max<std::size_t>(kPieceBytes / (kPanelRows * source.row_bytes()), 1);
  auto spoilt = kAllFinite;
  for (auto first = begin; first < end;) {
    const auto last = static_cast<std::uint32_t>(std::min<std::size_t>(end, first + panels));
    spoilt = std::min(spoilt, pack_panels(source, first, last, target + first * panel_bytes));
    const auto rows = std::min(last * kPanelRows, source.rows) - first * kPanelRows;
    file.drop_pages({source.row(first * kPanelRows), rows * source.row_bytes()});
    first = last;
  }
  return spoilt;
}

}  // namespace

CpuWeights::CpuWeights(const LoadedModel& model, ParallelPolicy& policy, const OutsideProducts* outside) {
  const auto& weights = model.weights;
  std::vector<CpuMatrix*> matrices;
  const auto adopt = [&matrices, outside](CpuMatrix& matrix, const Matrix& source) {
    matrix.source = source;
    matrix.is_outside = outside != nullptr && outside->takes(source);
    if (!matrix.is_outside && is_packable(*source.format)) matrices.push_back(&matrix);
  };
  layers_.resize(weights.layers.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    auto& layer = layers_[i];
    const auto& source = weights.layers[i];
    layer.norms = &source;
    adopt(layer.query, source.query);
    adopt(layer.key, source.key);
    adopt(layer.value, source.value);
    adopt(layer.attention_output, source.attention_output);
    adopt(layer.gate, source.gate);
    adopt(layer.up, source.up);
    adopt(layer.down, source.down);
  }
  adopt(lm_head_, weights.lm_head);

  std::uint64_t total = 0;
  for (auto* matrix : matrices) {
    matrix->packed.rows = matrix->source.rows;
    matrix->packed.columns = matrix->source.columns;
    total += matrix->packed.total_bytes();
  }
  // The pages of a mapped file are given back as they are repacked; a file that was read stays beside its
  // copy.
  if (const auto available = available_memory(); available && total > *available) {
    throw Error(
        fmt::format("{}: the repacked weights take {} bytes, {} are available; map the file "
                    "instead of reading it (no --no-mmap), or take a smaller model",
                    quote(model.config.name), total, *available));
  }
  buffer_ = AlignedBuffer<std::byte>(total);
  ProgressLine progress(fmt::format("repacking {}", model.config.name));
  std::uint64_t done = 0;
  for (auto* matrix : matrices) {
    auto* target = buffer_.data() + done;
    auto& packed = matrix->packed;
    std::vector<std::uint32_t> spoilt(policy.threads(), kAllFinite);  // each part's first bad row
    policy.run([&](unsigned part, unsigned parts) {
      const auto share = share_of(packed.panels(), part, parts);
      spoilt[part] = pack_in_pieces(model.file, matrix->source, static_cast<std::uint32_t>(share.begin),
                                    static_cast<std::uint32_t>(share.end), target);
    });
    if (const auto row = *std::min_element(spoilt.begin(), spoilt.end()); row != kAllFinite) {
      throw Error(
          fmt::format("tensor {}: row {} has a scale that is infinite or not a number; expected finite "
                      "weights (the file is damaged, or was quantized from weights that were)",
                      quote(matrix->source.name), row));
    }
    packed.bytes = target;
    done += packed.total_bytes();
    model.file.drop_pages({matrix->source.bytes, matrix->source.total_bytes()});
    progress.update(done, total);
  }
}

}  // namespace inferno::cpu
