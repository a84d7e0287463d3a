#include "backend/gpu/weight_upload.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "platform/quote.hpp"

namespace inferno::gpu {
namespace {

/// One allocation of the device for many matrices; a matrix that is larger gets one of its own.
constexpr std::uint64_t kArenaBytes = std::uint64_t{256} << 20U;
/// What is packed on the host before it goes over.
constexpr std::uint64_t kPackBytes = std::uint64_t{8} << 20U;
/// Pieces of a matrix have a multiple of this many panels, so that each begins where a binding may.
constexpr std::uint32_t kPiecePanels = 32;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kOffsetAlignment - 1) / kOffsetAlignment * kOffsetAlignment;
}

/// Whether `second` can lie behind `first` as if both were one matrix.
bool can_join(const Matrix& first, const Matrix& second) {
  const PackedShape shape = packed_shape(first);
  return shape.kind == packed_shape(second).kind && first.rows % kPanel == 0 &&
         shape.bytes() % kOffsetAlignment == 0;
}

}  // namespace

std::uint64_t packed_bytes(const Matrix& matrix) {
  return aligned(packed_shape(matrix).bytes());
}

std::uint64_t norm_bytes(const std::vector<float>& weight) {
  return aligned(pad_up(static_cast<std::uint32_t>(weight.size()), kPadColumns) * sizeof(float));
}

bool Projection::reads_quants() const {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const WeightPiece& piece) { return piece.kind == WeightKind::q8; });
}

bool Projection::reads_floats() const {
  return std::any_of(pieces.begin(), pieces.end(),
                     [](const WeightPiece& piece) { return piece.kind != WeightKind::q8; });
}

WeightUpload::WeightUpload(Device& device, const gguf::File& file, std::string_view model_name,
                           std::uint64_t total)
    : device_(device), file_(file), total_(total), progress_(fmt::format("uploading {}", model_name)) {
  if (const std::uint64_t free = device.free_bytes(); total > free) {
    throw Error(fmt::format("the weights of {} need {} bytes, but {} of {} are free on {}", model_name, total,
                            free, device.capabilities().memory_bytes, device.capabilities().name));
  }
}

Slice WeightUpload::norm(const std::vector<float>& weight) {
  std::vector<float> padded(pad_up(static_cast<std::uint32_t>(weight.size()), kPadColumns));
  std::copy(weight.begin(), weight.end(), padded.begin());
  const Slice slice = place(padded.size() * sizeof(float));
  device_.upload(slice, std::as_bytes(std::span(padded)));
  return slice;
}

Projection WeightUpload::project(std::initializer_list<const Matrix*> matrices) {
  Projection result;
  result.columns = (*matrices.begin())->columns;
  std::uint32_t out = 0;
  for (const Matrix* matrix : matrices) {
    result.offsets.push_back(out);
    result.bytes.push_back(matrix->total_bytes());
    out += pad_up(matrix->rows, kPanel);
  }
  result.out_stride = pad_up(out, kPadColumns);

  // Runs of matrices that can be joined are placed together.
  for (const auto* first = matrices.begin(); first != matrices.end();) {
    const auto* end = first + 1;
    while (end != matrices.end() && can_join(*end[-1], **end)) ++end;
    std::uint64_t bytes = 0;
    for (const auto* matrix = first; matrix != end; ++matrix) bytes += packed_shape(**matrix).bytes();
    const Slice run = place(bytes);
    std::uint64_t at = 0;
    std::uint32_t rows = 0;
    for (const auto* matrix = first; matrix != end; ++matrix) {
      const auto index = static_cast<std::size_t>(matrix - matrices.begin());
      const PackedShape shape = packed_shape(**matrix);
      const Slice own(*run.buffer, run.offset + at, shape.bytes());
      pack(**matrix, own);
      result.parts.push_back(cut(shape, own, result.offsets[index], (*matrix)->name));
      at += shape.bytes();
      rows += (*matrix)->rows;
    }
    const auto first_index = static_cast<std::size_t>(first - matrices.begin());
    const PackedShape joined{packed_shape(**first).kind, rows, (*first)->columns};
    const auto pieces = cut(joined, run, result.offsets[first_index], (*first)->name);
    result.pieces.insert(result.pieces.end(), pieces.begin(), pieces.end());
    first = end;
  }
  return result;
}

/// A place for `bytes` on the device.
Slice WeightUpload::place(std::uint64_t bytes) {
  const std::uint64_t size = aligned(bytes);
  if (buffers_.empty() || used_ + size > buffers_.back()->bytes()) {
    const std::uint64_t left = total_ - placed_;
    const std::uint64_t arena = std::max(size, std::min(kArenaBytes, left));
    buffers_.push_back(device_.create_buffer(arena, Memory::device, "weights"));
    used_ = 0;
  }
  const Slice slice(*buffers_.back(), used_, bytes);
  used_ += size;
  placed_ += size;
  return slice;
}

void WeightUpload::pack(const Matrix& matrix, const Slice& target) {
  const PackedShape shape = packed_shape(matrix);
  const auto step = static_cast<std::uint32_t>(std::max<std::uint64_t>(kPackBytes / shape.panel_bytes(), 1));
  const auto mapped = target.buffer->mapped();
  for (std::uint32_t panel = 0; panel < shape.panels(); panel += step) {
    const std::uint32_t end = std::min(panel + step, shape.panels());
    const std::uint64_t bytes = (end - panel) * shape.panel_bytes();
    const std::uint64_t offset = target.offset + panel * shape.panel_bytes();
    // Where the host reaches the device's memory the weights are packed in place.
    std::span<std::byte> packed;
    if (mapped.empty()) {
      packed_.resize(bytes);
      packed = packed_;
    } else {
      packed = mapped.subspan(offset, bytes);
    }
    const std::uint32_t bad_row = pack_panels(matrix, panel, end, packed.data());
    if (bad_row != kAllFinite) {
      throw Error(
          fmt::format("tensor {}: row {} has a scale that is infinite or not a number; expected finite "
                      "weights (the file is damaged, or was quantized from weights that were)",
                      quote(matrix.name), bad_row));
    }
    if (mapped.empty()) device_.upload({*target.buffer, offset, bytes}, packed);
    done_ += bytes;
    progress_.update(done_, total_);
  }
  file_.drop_pages({matrix.bytes, matrix.total_bytes()});
}

/// Cuts a placed matrix into pieces that the device can bind.
std::vector<WeightPiece> WeightUpload::cut(const PackedShape& shape, const Slice& whole,
                                           std::uint32_t first_out, std::string_view name) const {
  const std::uint64_t limit = device_.capabilities().max_range;
  std::uint64_t step = shape.panels();
  if (whole.bytes > limit) {
    step = limit / shape.panel_bytes() / kPiecePanels * kPiecePanels;
    if (step == 0) {
      throw Error(fmt::format("tensor {}: {} rows take {} bytes, but {} binds at most {} bytes", quote(name),
                              kPiecePanels * kPanel, kPiecePanels * shape.panel_bytes(),
                              device_.capabilities().name, limit));
    }
  }
  std::vector<WeightPiece> pieces;
  for (std::uint64_t panel = 0; panel < shape.panels(); panel += step) {
    const std::uint64_t end = std::min<std::uint64_t>(panel + step, shape.panels());
    const auto first_row = static_cast<std::uint32_t>(panel * kPanel);
    const auto end_row = static_cast<std::uint32_t>(std::min<std::uint64_t>(end * kPanel, shape.rows));
    const Slice bytes(*whole.buffer, whole.offset + panel * shape.panel_bytes(),
                      (end - panel) * shape.panel_bytes());
    pieces.push_back({shape.kind, bytes, end_row - first_row, first_out + first_row});
  }
  return pieces;
}

}  // namespace inferno::gpu
