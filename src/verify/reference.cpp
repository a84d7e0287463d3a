#include "verify/reference.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <numeric>
#include <thread>

#include <inferno/error.hpp>

#include "verify/independent_decode.hpp"

namespace inferno::verify {
namespace {

/// n vectors of one width, row-major: [n][width].
struct Rows {
  std::size_t count = 0;
  std::size_t width = 0;
  std::vector<double> values;

  Rows(std::size_t rows, std::size_t columns) : count(rows), width(columns), values(rows * columns) {}
  double* row(std::size_t i) { return values.data() + i * width; }
  const double* row(std::size_t i) const { return values.data() + i * width; }
};

void decode_row(const Matrix& matrix, std::uint32_t row, double* target) {
  for (std::size_t i = 0; i < matrix.columns; ++i) {
    const auto value = decode_element(matrix.format->type, matrix.row(row), i);
    if (!value) {
      throw Error(fmt::format("verify: src/verify has no independent definition of {}", matrix.format->name));
    }
    target[i] = *value;
  }
}

/// Four sums side by side so that the processor need not wait for each addition; in double precision their
/// order does not matter for what is compared.
double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

constexpr std::size_t kRoundedBlock = 32;

/// Rounds each block of 32 to multiples of its largest magnitude / 127, half to even. A stretch of `width`
/// values begins a new block; its last one may be shorter.
void round_to_int8(std::vector<double>& values, std::size_t width) {
  for (std::size_t stretch = 0; stretch < values.size(); stretch += width) {
    for (std::size_t begin = 0; begin < width; begin += kRoundedBlock) {
      auto* const block = values.data() + stretch + begin;
      const auto count = std::min(kRoundedBlock, width - begin);
      double largest = 0;
      for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(block[i]));
      if (largest == 0) continue;
      const double step = largest / 127;
      for (std::size_t i = 0; i < count; ++i) block[i] = std::nearbyint(block[i] / step) * step;
    }
  }
}

/// The model's state while a sequence of n tokens goes through it.
class Reference {
 public:
  Reference(const LoadedModel& model, Roundings roundings, std::uint32_t threads)
      : config_(model.config),
        weights_(model.weights),
        roundings_(roundings),
        threads_(std::max(threads, 1U)) {}

  Rows run(std::span<const std::int32_t> ids,
           const std::function<void(std::uint64_t, std::uint64_t)>& progress) const {
    Rows hidden(ids.size(), config_.hidden_size);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      decode_row(weights_.embedding, static_cast<std::uint32_t>(ids[i]), hidden.row(i));
    }
    for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
      if (progress) progress(layer, weights_.layers.size() + 1);
      attention_block(weights_.layers[layer], hidden);
      ffn_block(weights_.layers[layer], hidden);
    }
    if (progress) progress(weights_.layers.size(), weights_.layers.size() + 1);
    norm(hidden, weights_.final_norm);
    return multiply(weights_.lm_head, hidden);
  }

 private:
  /// x [n][columns] -> [n][rows].
  Rows multiply(const Matrix& matrix, Rows x) const {
    if (roundings_.activations && matrix.format->block_elements > 1) round_to_int8(x.values, x.width);
    Rows y(x.count, matrix.rows);
    const auto part = [&](std::uint32_t first, std::uint32_t end) {
      std::vector<double> weights(matrix.columns);
      for (auto row = first; row < end; ++row) {
        decode_row(matrix, row, weights.data());
        for (std::size_t i = 0; i < x.count; ++i)
          y.row(i)[row] = dot(weights.data(), x.row(i), matrix.columns);
      }
    };
    // An unknown format throws here, where it can be caught, before any thread is started.
    part(0, 1);
    std::vector<std::jthread> team;  // joins by itself, also when a thread cannot be started
    const auto share = [&](std::uint64_t index) {
      return static_cast<std::uint32_t>(1 + (matrix.rows - 1) * index / threads_);
    };
    for (std::uint32_t i = 1; i < threads_; ++i) team.emplace_back(part, share(i), share(i + 1));
    part(share(0), share(1));
    team.clear();
    return y;
  }

  /// Each stretch of weight.size() values is divided by its root mean square and multiplied by the weight:
  /// for hidden states one stretch per row, for queries and keys one per head.
  void norm(Rows& x, const std::vector<float>& weight) const {
    const auto width = weight.size();
    for (std::size_t begin = 0; begin < x.values.size(); begin += width) {
      auto* v = x.values.data() + begin;
      double squares = 0;
      for (std::size_t i = 0; i < width; ++i) squares += v[i] * v[i];
      const double scale =
          1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(config_.rms_epsilon));
      for (std::size_t i = 0; i < width; ++i) v[i] *= scale * static_cast<double>(weight[i]);
    }
  }

  /// Radians per position of pair i, and what sine and cosine are multiplied by.
  double frequency(std::uint32_t i) const {
    const auto& scaling = config_.rope_scaling;
    const double size = config_.head_dim;
    const double plain = 1.0 / std::pow(static_cast<double>(config_.rope_base), 2.0 * i / size);
    const double slowed = plain / static_cast<double>(scaling.factor);
    if (scaling.type == RopeScaling::Type::none) return plain;
    if (scaling.type == RopeScaling::Type::linear) return slowed;
    // YaRN: pairs from `first` to `last` go over from the plain frequency to the slowed one.
    const auto pair_with = [&](float rotations) {
      return size *
             std::log(scaling.original_context / (static_cast<double>(rotations) * 2 * std::numbers::pi)) /
             (2 * std::log(static_cast<double>(config_.rope_base)));
    };
    const double first = std::max(0.0, std::floor(pair_with(scaling.beta_fast)));
    const double last = std::min(size - 1, std::ceil(pair_with(scaling.beta_slow)));
    const double ramp = std::clamp((i - first) / std::max(0.001, last - first), 0.0, 1.0);
    return plain * (1 - ramp) + slowed * ramp;
  }

  double rotation_factor() const {
    const auto& scaling = config_.rope_scaling;
    if (scaling.attention_factor != 0.0F) return static_cast<double>(scaling.attention_factor);
    if (scaling.type != RopeScaling::Type::yarn) return 1.0;
    return 1.0 + 0.1 * std::log(static_cast<double>(scaling.factor));
  }

  /// Turns element i of each head's first half with element i of its second half by position x frequency.
  void rope(Rows& x) const {
    const std::uint32_t half = config_.head_dim / 2;
    const double factor = rotation_factor();
    for (std::size_t position = 0; position < x.count; ++position) {
      for (std::size_t head = 0; head < x.width; head += config_.head_dim) {
        auto* v = x.row(position) + head;
        for (std::uint32_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(position) * frequency(i);
          const double cosine = std::cos(angle) * factor;
          const double sine = std::sin(angle) * factor;
          const double a = v[i];
          const double b = v[i + half];
          v[i] = a * cosine - b * sine;
          v[i + half] = a * sine + b * cosine;
        }
      }
    }
  }

  /// What `weight` of the first `count` positions become for the `width` elements of a value from `begin` on.
  /// A product of weight and the block's step is what is rounded, in splits of 256 positions.
  static void round_weights(std::vector<double>& weight, std::size_t count, const Rows& value,
                            std::size_t begin, std::size_t width) {
    constexpr std::size_t kSplit = 256;
    constexpr double kSteps = 32767;
    for (std::size_t split = 0; split < count; split += kSplit) {
      const auto end = std::min(count, split + kSplit);
      std::vector<double> steps(end - split);
      double largest = 0;
      for (auto j = split; j < end; ++j) {
        for (std::size_t e = 0; e < width; ++e)
          steps[j - split] = std::max(steps[j - split], std::abs(value.row(j)[begin + e]));
        largest = std::max(largest, weight[j] * steps[j - split]);
      }
      for (auto j = split; j < end; ++j) {
        if (steps[j - split] == 0) continue;
        const double unit = largest / kSteps / steps[j - split];
        weight[j] = std::nearbyint(weight[j] / unit) * unit;
      }
    }
  }

  /// query [n][H, E], key and value [n][K, E] -> [n][H, E]. Each query head reads the key/value head of its
  /// group.
  Rows attend(const Rows& query, const Rows& key, const Rows& value) const {
    const std::size_t size = config_.head_dim;
    const std::size_t group = config_.heads / config_.kv_heads;
    Rows mixed(query.count, query.width);
    std::vector<double> weight(query.count);
    std::vector<double> rounded;
    for (std::size_t head = 0; head < config_.heads; ++head) {
      const auto kv_offset = head / group * size;
      for (std::size_t i = 0; i < query.count; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          weight[j] = dot(query.row(i) + head * size, key.row(j) + kv_offset, size) /
                      std::sqrt(static_cast<double>(size));
        }
        const double largest =
            *std::max_element(weight.begin(), weight.begin() + static_cast<std::ptrdiff_t>(i + 1));
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) sum += weight[j] = std::exp(weight[j] - largest);
        auto* target = mixed.row(i) + head * size;
        for (std::size_t first = 0; first < size; first += kRoundedBlock) {
          const auto end = std::min(size, first + kRoundedBlock);
          if (roundings_.attention_weights) {
            rounded = weight;
            round_weights(rounded, i + 1, value, kv_offset + first, end - first);
          }
          const auto& factor = roundings_.attention_weights ? rounded : weight;
          for (std::size_t j = 0; j <= i; ++j) {
            for (auto e = first; e < end; ++e) target[e] += factor[j] / sum * value.row(j)[kv_offset + e];
          }
        }
      }
    }
    return mixed;
  }

  static void add(Rows& hidden, const Rows& update) {
    for (std::size_t i = 0; i < hidden.values.size(); ++i) hidden.values[i] += update.values[i];
  }

  void attention_block(const LayerWeights& layer, Rows& hidden) const {
    auto normed = hidden;
    norm(normed, layer.attention_norm);
    auto query = multiply(layer.query, normed);
    auto key = multiply(layer.key, normed);
    auto value = multiply(layer.value, normed);
    norm(query, layer.query_norm);
    norm(key, layer.key_norm);
    rope(query);
    rope(key);
    if (roundings_.queries) round_to_int8(query.values, config_.head_dim);
    if (roundings_.keys) round_to_int8(key.values, config_.head_dim);
    if (roundings_.values) round_to_int8(value.values, config_.head_dim);
    add(hidden, multiply(layer.attention_output, attend(query, key, value)));
  }

  void ffn_block(const LayerWeights& layer, Rows& hidden) const {
    auto normed = hidden;
    norm(normed, layer.ffn_norm);
    auto gated = multiply(layer.gate, normed);
    const auto up = multiply(layer.up, normed);
    for (std::size_t i = 0; i < gated.values.size(); ++i) {
      const double gate = gated.values[i];
      gated.values[i] = gate / (1.0 + std::exp(-gate)) * up.values[i];
    }
    add(hidden, multiply(layer.down, gated));
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  Roundings roundings_;
  std::uint32_t threads_;
};

}  // namespace

std::vector<double> reference_logits(const LoadedModel& model, std::span<const std::int32_t> ids,
                                     Roundings roundings, std::uint32_t threads,
                                     const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  return Reference(model, roundings, threads).run(ids, progress).values;
}

}  // namespace inferno::verify
