#include "model/weights.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <string_view>
#include <unordered_set>

#include <inferno/error.hpp>

#include "gguf/refusal.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

constexpr std::size_t kNamesInMessage = 10;
constexpr std::string_view kLayersKey = "qwen3.block_count";

/// A dimension with the metadata it follows from, so that a disagreement can be told with both sides.
struct Dimension {
  std::uint32_t size;
  std::string_view meaning;
};

/// Dimensions without trailing ones: {256, 1} and {256} are the same tensor.
std::vector<std::uint64_t> trimmed(std::vector<std::uint64_t> shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

/// Binds tensors by name, remembers which were asked for and which are missing.
class Binder {
 public:
  Binder(const gguf::File& file, const ModelConfig& config) : file_(file), config_(config) {}

  Matrix matrix(const std::string& name, Dimension rows, Dimension columns) {
    const gguf::TensorInfo* tensor = find(name);
    if (tensor == nullptr) return {};
    check_shape(*tensor, {columns.size, rows.size},
                fmt::format("{} columns ({}) and {} rows ({})", columns.size, columns.meaning, rows.size,
                            rows.meaning));
    Matrix matrix{tensor->format, rows.size, columns.size, file_.data(*tensor).data(), tensor->name};
    if (columns.size % tensor->format->block_elements != 0 || matrix.total_bytes() != tensor->bytes) {
      gguf::refuse_tensor(file_, *tensor, "data",
                          fmt::format("{} bytes for {} rows of {} {} elements", matrix.total_bytes(),
                                      rows.size, columns.size, tensor->format->name),
                          fmt::format("{}", tensor->bytes));
    }
    return matrix;
  }

  std::vector<float> vector(const std::string& name, Dimension size) {
    const gguf::TensorInfo* tensor = find(name);
    if (tensor == nullptr) return {};
    check_shape(*tensor, {size.size}, fmt::format("{} elements ({})", size.size, size.meaning));
    std::vector<float> values(size.size);
    tensor->format->decode(file_.data(*tensor).data(), size.size / tensor->format->block_elements,
                           values.data());
    return values;
  }

  /// Throws if a tensor was missing, or one is left over that would have changed the result.
  void finish() const {
    if (!missing_.empty()) {
      const std::size_t shown = std::min(missing_.size(), kNamesInMessage);
      throw Error(fmt::format(
          "{}: tensors: expected the {} that {} asks for, found {} missing: {}{}",
          gguf::name_for_messages(file_.path()), bound_.size() + missing_.size(),
          gguf::key_with_value(file_, kLayersKey), missing_.size(),
          fmt::join(missing_.begin(), missing_.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
          shown < missing_.size() ? ", ..." : ""));
    }
    refuse_left_over();
  }

 private:
  const gguf::TensorInfo* find(const std::string& name) {
    const gguf::TensorInfo* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      missing_.push_back(name);
      return nullptr;
    }
    bound_.insert(tensor->name);
    if (tensor->format == nullptr) {
      gguf::refuse_tensor(file_, *tensor, "type", fmt::format("one of {}", quant::accepted_formats()),
                          fmt::format("{} ({}); convert the model to one of these", tensor->layout->name,
                                      tensor->layout->type_id));
    }
    return tensor;
  }

  void check_shape(const gguf::TensorInfo& tensor, const std::vector<std::uint64_t>& expected,
                   const std::string& meaning) const {
    if (trimmed(tensor.shape) == trimmed(expected)) return;
    gguf::refuse_tensor(file_, tensor, "shape", fmt::format("[{}], {},", fmt::join(expected, ", "), meaning),
                        fmt::format("[{}]", fmt::join(tensor.shape, ", ")));
  }

  /// A tensor that Qwen3 does not know. Biases, rotary factors, further norms and the like belong to the
  /// computation of other models; what stands outside of the decoder (a classifier's head) is only reported.
  void refuse_left_over() const {
    std::vector<std::string> others;
    for (const gguf::TensorInfo& tensor : file_.tensors()) {
      if (bound_.contains(tensor.name)) continue;
      const std::string_view name = tensor.name;
      const auto starts = [&](std::string_view prefix) {
        return name.compare(0, prefix.size(), prefix) == 0;
      };
      if (starts("blk.")) {
        std::uint64_t layer = 0;
        const auto digits = name.substr(4);
        const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
        if (parsed.ec == std::errc() && layer >= config_.layers) {
          gguf::refuse_tensor(file_, tensor, "name",
                              fmt::format("a layer below {}", gguf::key_with_value(file_, kLayersKey)),
                              fmt::format("layer {}", layer));
        }
      }
      if (starts("blk.") || starts("rope") || starts("output") || starts("token_")) {
        gguf::refuse_tensor(file_, tensor, "name", "a part of a qwen3 model",
                            "one that is not; inferno will not ignore it, the result would be wrong");
      }
      others.push_back(quote(name));
    }
    if (others.empty()) return;
    const std::size_t shown = std::min(others.size(), kNamesInMessage);
    log().warn("{}: {} unknown {} not used: {}{}", gguf::name_for_messages(file_.path()), others.size(),
               others.size() == 1 ? "tensor is" : "tensors are",
               fmt::join(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
               shown < others.size() ? ", ..." : "");
  }

  const gguf::File& file_;
  const ModelConfig& config_;
  std::vector<std::string> missing_;
  std::unordered_set<std::string_view> bound_;
};

}  // namespace

ModelWeights bind_weights(const gguf::File& file, const ModelConfig& config) {
  Binder bind(file, config);
  const Dimension hidden{config.hidden_size, "embedding_length"};
  const Dimension ffn{config.ffn_size, "feed_forward_length"};
  const Dimension head{config.head_dim, "key_length"};
  const Dimension query{config.query_width(), "head_count x key_length"};
  const Dimension key_value{config.kv_width(), "head_count_kv x key_length"};
  const Dimension vocabulary{config.vocab_size, "rows of token_embd.weight"};

  ModelWeights weights;
  weights.embedding = bind.matrix("token_embd.weight", vocabulary, hidden);
  weights.layers.resize(config.layers);
  for (std::uint32_t i = 0; i < config.layers; ++i) {
    const auto name = [i](std::string_view part) { return fmt::format("blk.{}.{}.weight", i, part); };
    LayerWeights& layer = weights.layers[i];
    layer.attention_norm = bind.vector(name("attn_norm"), hidden);
    layer.query = bind.matrix(name("attn_q"), query, hidden);
    layer.key = bind.matrix(name("attn_k"), key_value, hidden);
    layer.value = bind.matrix(name("attn_v"), key_value, hidden);
    layer.query_norm = bind.vector(name("attn_q_norm"), head);
    layer.key_norm = bind.vector(name("attn_k_norm"), head);
    layer.attention_output = bind.matrix(name("attn_output"), hidden, query);
    layer.ffn_norm = bind.vector(name("ffn_norm"), hidden);
    layer.gate = bind.matrix(name("ffn_gate"), ffn, hidden);
    layer.up = bind.matrix(name("ffn_up"), ffn, hidden);
    layer.down = bind.matrix(name("ffn_down"), hidden, ffn);
  }
  weights.final_norm = bind.vector("output_norm.weight", hidden);
  weights.lm_head = config.tied_head ? weights.embedding : bind.matrix("output.weight", vocabulary, hidden);
  bind.finish();
  return weights;
}

}  // namespace inferno
