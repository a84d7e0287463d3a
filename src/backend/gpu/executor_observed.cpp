#include <algorithm>
#include <array>

#include "arith/portable.hpp"
#include "backend/cpu/stages.hpp"
#include "backend/gpu/executor.hpp"

namespace inferno::gpu {

/// A step stage by stage, each submitted and waited for by itself, in the stages' own order, with what each
/// leaves read back if it is asked for.
class GpuExecutor::Observed {
 public:
  Observed(GpuExecutor& executor, const StepWork& work, const StepShape& shape)
      : own_(executor), work_(work), shape_(shape), stages_(work.observer) {}

  void run(HeadConsumer& head) {
    const Matrix& embedding = own_.model_.weights.embedding;
    stage({-1, Stage::embedding, shape_.tokens * embedding.row_bytes(), 0},
          [this](StepEncoder& encoder) { encoder.embed(shape_.tokens); });
    show_hidden({-1, Stage::embedding});
    for (std::size_t layer = 0; layer < own_.weights_.layers().size(); ++layer) {
      run_attention(layer);
      run_ffn(layer);
    }
    run_head(head);
  }

 private:
  template <typename Encode>
  void stage(const StageEvent& event, const Encode& encode) {
    stages_.begin(event);
    run_once(encode);
    stages_.end(event);
  }

  template <typename Encode>
  void run_once(const Encode& encode) {
    own_.device_->run_once([&](Recorder& recorder) {
      StepEncoder encoder = own_.encoder(recorder);
      encode(encoder);
    });
  }

  /// Shows columns [column, column + width) of the tokens' rows of a buffer.
  void show(const StageEvent& event, const Buffer& buffer, std::size_t rows, std::size_t stride,
            std::size_t column, std::size_t width) {
    if (!stages_.wants_values()) return;
    const auto values = read(buffer, rows * stride);
    std::vector<float> shown;
    for (std::size_t row = 0; row < rows; ++row) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * stride + column);
      shown.insert(shown.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    stages_.values(event, shown, width);
  }

  void show_hidden(const StageEvent& event) {
    show(event, *own_.buffers_->hidden, shape_.tokens, own_.buffers_->normed.stride, 0,
         own_.config_.hidden_size);
  }

  /// Shows what a norm means: the weighted values times 1 / rms.
  void show_normed(const StageEvent& event, std::size_t rows) {
    if (!stages_.wants_values()) return;
    const Activations& normed = own_.buffers_->normed;
    const auto values = read(*normed.floats, rows * normed.stride);
    const auto factors = read(*own_.buffers_->factors, rows);
    std::vector<float> shown;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < normed.columns; ++i) {
        shown.push_back(arith::multiply(values[row * normed.stride + i], factors[row]));
      }
    }
    stages_.values(event, shown, normed.columns);
  }

  std::vector<float> read(const Buffer& buffer, std::size_t count) {
    std::vector<float> values(count);
    own_.device_->read({buffer, 0, count * sizeof(float)}, std::as_writable_bytes(std::span(values)));
    return values;
  }

  void norm(Stage name, std::size_t layer, const Slice& weight, const Projection& reader) {
    const StageEvent event{static_cast<int>(layer), name, own_.config_.hidden_size * sizeof(float),
                           cpu::kNormOperations * shape_.tokens * own_.config_.hidden_size};
    const std::uint32_t forms = forms_for(reader) | (stages_.wants_values() ? kWriteFloats : 0U);
    stage(event,
          [&](StepEncoder& encoder) { encoder.norm(*own_.buffers_->hidden, weight, shape_.tokens, forms); });
    show_normed(event, shape_.tokens);
  }

  /// One matrix of a projection; `y` has the projection's layout.
  void product(Stage name, std::size_t layer, const Projection& projection, std::size_t part,
               const Activations& x, bool scaled, const Buffer& y) {
    const auto& pieces = projection.parts[part];
    std::uint64_t rows = 0;
    for (const WeightPiece& piece : pieces) rows += piece.rows;
    const StageEvent event{static_cast<int>(layer), name, projection.bytes[part],
                           2 * rows * projection.columns * shape_.tokens};
    stage(event, [&](StepEncoder& encoder) {
      encoder.project(pieces, x, shape_.tokens, scaled, y, projection.out_stride, false);
    });
    show(event, y, shape_.tokens, projection.out_stride, projection.offsets[part], rows);
  }

  void heads(Stage name, std::size_t layer, std::uint32_t parts, bool keys, std::uint64_t operations) {
    const ModelConfig& config = own_.config_;
    const Projection& qkv = own_.weights_.layers()[layer].qkv;
    const std::size_t width = keys ? config.kv_width() : config.query_width();
    const StageEvent event{static_cast<int>(layer), name, 0, operations * shape_.tokens * width};
    // Query and key heads are one kernel's work: it runs in the query's stage.
    stages_.begin(event);
    if (!keys || parts == kHeadStore) {
      run_once([&](StepEncoder& encoder) { encoder.prepare_heads(layer, shape_.tokens, parts); });
    }
    stages_.end(event);
    if (parts == kHeadStore) return;
    show(event, *own_.buffers_->qkv, shape_.tokens, qkv.out_stride, keys ? qkv.offsets[1] : 0, width);
  }

  void residual(Stage name, std::size_t layer) {
    const StageEvent event{static_cast<int>(layer), name, 0,
                           std::uint64_t{shape_.tokens} * own_.config_.hidden_size};
    stage(event, [&](StepEncoder& encoder) { encoder.add_branch(shape_.tokens); });
    show_hidden(event);
  }

  void run_attention(std::size_t layer) {
    const DeviceLayer& weights = own_.weights_.layers()[layer];
    const StepBuffers& buffers = *own_.buffers_;
    norm(Stage::attention_norm, layer, weights.attention_norm, weights.qkv);
    product(Stage::query, layer, weights.qkv, 0, buffers.normed, true, *buffers.qkv);
    product(Stage::key, layer, weights.qkv, 1, buffers.normed, true, *buffers.qkv);
    product(Stage::value, layer, weights.qkv, 2, buffers.normed, true, *buffers.qkv);
    heads(Stage::query_norm, layer, kHeadNorm | kHeadFloats, false, cpu::kNormOperations);
    heads(Stage::key_norm, layer, kHeadNorm | kHeadFloats, true, cpu::kNormOperations);
    heads(Stage::rope_query, layer, kHeadRotate | kHeadFloats, false, cpu::kRopeOperations);
    heads(Stage::rope_key, layer, kHeadRotate | kHeadFloats, true, cpu::kRopeOperations);
    heads(Stage::append_kv, layer, kHeadStore, true, 0);

    const StageEvent event = attention_event(static_cast<int>(layer));
    const std::uint32_t forms =
        forms_for(weights.attention_output) | (stages_.wants_values() ? kWriteFloats : 0U);
    stage(event, [&](StepEncoder& encoder) { encoder.attend(layer, shape_, forms); });
    show(event, *buffers.mixed.floats, shape_.tokens, buffers.mixed.stride, 0, buffers.mixed.columns);
    product(Stage::attention_output, layer, weights.attention_output, 0, buffers.mixed, false,
            *buffers.branch);
    residual(Stage::attention_residual, layer);
  }

  void run_ffn(std::size_t layer) {
    const DeviceLayer& weights = own_.weights_.layers()[layer];
    const StepBuffers& buffers = *own_.buffers_;
    norm(Stage::ffn_norm, layer, weights.ffn_norm, weights.gate_up);
    product(Stage::gate, layer, weights.gate_up, 0, buffers.normed, true, *buffers.gate_up);
    product(Stage::up, layer, weights.gate_up, 1, buffers.normed, true, *buffers.gate_up);
    const StageEvent event{static_cast<int>(layer), Stage::swiglu, 0,
                           cpu::kSwigluOperations * shape_.tokens * own_.config_.ffn_size};
    const std::uint32_t forms = forms_for(weights.down) | (stages_.wants_values() ? kWriteFloats : 0U);
    stage(event, [&](StepEncoder& encoder) { encoder.swiglu(layer, shape_.tokens, forms); });
    show(event, *buffers.activated.floats, shape_.tokens, buffers.activated.stride, 0,
         buffers.activated.columns);
    product(Stage::down, layer, weights.down, 0, buffers.activated, false, *buffers.branch);
    residual(Stage::ffn_residual, layer);
  }

  void run_head(HeadConsumer& head) {
    const std::uint32_t rows = shape_.heads;
    if (rows == 0) return;
    const StepBuffers& buffers = *own_.buffers_;
    const std::size_t width = own_.config_.hidden_size;
    const StageEvent norm_event{-1, Stage::final_norm, width * sizeof(float),
                                cpu::kNormOperations * rows * width};
    stage(norm_event, [&](StepEncoder& encoder) { encoder.encode_head(rows, true, false, nullptr); });
    show_normed(norm_event, rows);
    if (!shape_.lm_head) return own_.hand_over(0, rows, head);

    const Projection& matrix = own_.weights_.lm_head();
    const StageEvent event{-1, Stage::lm_head, matrix.bytes[0],
                           std::uint64_t{2} * own_.config_.vocab_size * width * rows};
    stages_.begin(event);
    const std::uint32_t piece = buffers.logits_rows();
    for (std::uint32_t first = 0; first < rows; first += piece) {
      const std::uint32_t count = std::min(piece, rows - first);
      own_.buffers_->fill_head_map(std::span(work_.plan.head_tokens).subspan(first, count));
      run_once([&](StepEncoder& encoder) { encoder.encode_head(count, true, true, nullptr); });
      if (first + count == rows) stages_.end(event);
      show_logits(event, first, count, head);
      own_.hand_over(first, count, head);
    }
  }

  /// The logits of those rows of a piece that anybody wants.
  void show_logits(const StageEvent& event, std::uint32_t first, std::uint32_t count,
                   const HeadConsumer& head) {
    if (!stages_.wants_values()) return;
    const std::size_t width = own_.config_.vocab_size;
    const std::size_t stride = own_.buffers_->logits_stride();
    const auto values = read(*own_.buffers_->logits, count * stride);
    std::vector<float> shown;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!head.wants_logits(first + i)) continue;
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i * stride);
      shown.insert(shown.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    stages_.values(event, shown, width);
  }

  StageEvent attention_event(int layer) const {
    StageEvent event{layer, Stage::attention};
    const cpu::BlockLayout& layout = own_.cache_->layout();
    for (const RowPlan& row : work_.plan.rows) {
      const auto positions = std::uint64_t{row.first_position} + row.tokens;
      event.bytes += positions * layout.kv_heads * (layout.head_bytes() / layout.block_size);
    }
    for (const auto position : work_.plan.positions) {
      event.operations += (std::uint64_t{position} + 1) * 4 * own_.config_.query_width();
    }
    return event;
  }

  GpuExecutor& own_;
  const StepWork& work_;
  const StepShape& shape_;
  cpu::Stages stages_;
};

void GpuExecutor::run_observed(const StepWork& work, const StepShape& shape, HeadConsumer& head) {
  Observed(*this, work, shape).run(head);
}

}  // namespace inferno::gpu
