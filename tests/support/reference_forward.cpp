#include "support/reference_forward.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <stdexcept>

namespace inferno::test {

ReferenceRope reference_rope(const ReferenceRopeSettings& s) {
  const long double pi = std::acos(-1.0L);
  ReferenceRope rope;
  // YaRN counts how often a wavelength fits into the original context; the ramp lies between the pairs that
  // fit beta_fast and beta_slow times (rounded outwards to whole pairs).
  const auto correction = [&](long double turns) {
    return static_cast<long double>(s.head_dim) * std::log(s.original_context / (turns * 2 * pi)) /
           (2 * std::log(s.base));
  };
  long double low = 0;
  long double high = 0;
  if (s.type == "yarn") {
    low = std::max(std::floor(correction(s.beta_fast)), 0.0L);
    high = std::min(std::ceil(correction(s.beta_slow)), static_cast<long double>(s.head_dim - 1));
    if (low == high) high += 0.001L;
    rope.gain = s.factor <= 1 ? 1.0L : 0.1L * std::log(s.factor) + 1;
  }
  for (std::size_t i = 0; i < s.head_dim / 2; ++i) {
    const long double plain =
        1 / std::pow(s.base, 2 * static_cast<long double>(i) / static_cast<long double>(s.head_dim));
    long double frequency = plain;
    if (s.type == "linear") frequency = plain / s.factor;
    if (s.type == "yarn") {
      const long double ramp =
          std::min(std::max((static_cast<long double>(i) - low) / (high - low), 0.0L), 1.0L);
      const long double extrapolation = 1 - ramp;
      frequency = plain / s.factor * (1 - extrapolation) + plain * extrapolation;
    }
    rope.frequencies.push_back(frequency);
  }
  return rope;
}

ReferenceForward::ReferenceForward(const gguf::File& file)
    : file_(file),
      heads_(static_cast<std::size_t>(number("attention.head_count", 0))),
      kv_heads_(static_cast<std::size_t>(number("attention.head_count_kv", 0))),
      head_dim_(static_cast<std::size_t>(
          number("attention.key_length", number("embedding_length", 0) / static_cast<double>(heads_)))),
      epsilon_(number("attention.layer_norm_rms_epsilon", 0)),
      embedding_(tensor("token_embd.weight")),
      head_(file.find_tensor("output.weight") != nullptr ? tensor("output.weight") : embedding_),
      final_norm_(tensor("output_norm.weight").row(0)) {
  ReferenceRopeSettings settings;
  settings.head_dim = head_dim_;
  settings.base = number("rope.freq_base", 0);
  settings.factor = number("rope.scaling.factor", 1);
  settings.original_context = number("rope.scaling.original_context_length", 0);
  settings.beta_fast = number("rope.scaling.yarn_beta_fast", 32);
  settings.beta_slow = number("rope.scaling.yarn_beta_slow", 1);
  const gguf::Value* type = file.find("qwen3.rope.scaling.type");
  if (type != nullptr) settings.type = *type->as_string();
  auto rope = reference_rope(settings);
  frequencies_ = std::move(rope.frequencies);
  rotary_gain_ = rope.gain;

  const auto layers = static_cast<std::size_t>(number("block_count", 0));
  for (std::size_t i = 0; i < layers; ++i) {
    const auto part = [&](const char* name) { return tensor(fmt::format("blk.{}.{}.weight", i, name)); };
    layers_.push_back({part("attn_norm").row(0), part("attn_q_norm").row(0), part("attn_k_norm").row(0),
                       part("ffn_norm").row(0), part("attn_q"), part("attn_k"), part("attn_v"),
                       part("attn_output"), part("ffn_gate"), part("ffn_up"), part("ffn_down")});
  }
}

double ReferenceForward::number(const std::string& key, double otherwise) const {
  const gguf::Value* value = file_.find("qwen3." + key);
  return value == nullptr ? otherwise : value->as_number().value();
}

ReferenceForward::Weights ReferenceForward::tensor(const std::string& name) const {
  const gguf::TensorInfo* info = file_.find_tensor(name);
  if (info == nullptr) throw std::runtime_error("no tensor " + name);
  std::size_t rows = 1;
  for (std::size_t i = 1; i < info->shape.size(); ++i) rows *= info->shape[i];
  return {info->format, file_.data(*info).data(), rows, info->shape[0]};
}

ReferenceForward::Vector ReferenceForward::Weights::row(std::size_t index) const {
  std::vector<float> decoded(columns);
  const std::size_t blocks = columns / format->block_elements;
  format->decode(bytes + index * blocks * format->block_bytes, blocks, decoded.data());
  return {decoded.begin(), decoded.end()};
}

ReferenceForward::Vector ReferenceForward::Weights::times(const Vector& x) const {
  Vector y(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const Vector weights = row(i);
    for (std::size_t column = 0; column < columns; ++column) y[i] += weights[column] * x[column];
  }
  return y;
}

ReferenceForward::Vector ReferenceForward::norm(const Vector& x, const Vector& weight) const {
  Vector y(x.size());
  const std::size_t width = weight.size();
  for (std::size_t first = 0; first < x.size(); first += width) {
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += x[first + i] * x[first + i];
    const double root = std::sqrt(squares / static_cast<double>(width) + epsilon_);
    for (std::size_t i = 0; i < width; ++i) y[first + i] = x[first + i] / root * weight[i];
  }
  return y;
}

void ReferenceForward::rotate(Vector& heads, std::size_t position) const {
  const std::size_t half = head_dim_ / 2;
  for (std::size_t first = 0; first < heads.size(); first += head_dim_) {
    for (std::size_t i = 0; i < half; ++i) {
      const long double angle = static_cast<long double>(position) * frequencies_[i];
      const auto cosine = static_cast<double>(std::cos(angle) * rotary_gain_);
      const auto sine = static_cast<double>(std::sin(angle) * rotary_gain_);
      const double real = heads[first + i];
      const double imaginary = heads[first + half + i];
      heads[first + i] = real * cosine - imaginary * sine;
      heads[first + half + i] = imaginary * cosine + real * sine;
    }
  }
}

std::vector<std::vector<double>> ReferenceForward::logits(std::span<const std::int32_t> ids) const {
  std::vector<Vector> states;
  for (const auto id : ids) states.push_back(embedding_.row(static_cast<std::size_t>(id)));
  for (const Layer& layer : layers_) {
    std::vector<Vector> keys;
    std::vector<Vector> values;
    std::vector<Vector> queries;
    for (std::size_t t = 0; t < ids.size(); ++t) {
      const Vector x = norm(states[t], layer.attention_norm);
      queries.push_back(norm(layer.query.times(x), layer.query_norm));
      keys.push_back(norm(layer.key.times(x), layer.key_norm));
      values.push_back(layer.value.times(x));
      rotate(queries.back(), t);
      rotate(keys.back(), t);
    }
    for (std::size_t t = 0; t < ids.size(); ++t) {
      Vector mixed(heads_ * head_dim_, 0.0);
      for (std::size_t head = 0; head < heads_; ++head) {
        const std::size_t from = head * kv_heads_ / heads_ * head_dim_;
        Vector scores(t + 1);
        for (std::size_t u = 0; u <= t; ++u) {
          for (std::size_t i = 0; i < head_dim_; ++i) {
            scores[u] += queries[t][head * head_dim_ + i] * keys[u][from + i];
          }
          scores[u] /= std::sqrt(static_cast<double>(head_dim_));
        }
        const double largest = *std::max_element(scores.begin(), scores.end());
        double total = 0;
        for (double& score : scores) total += score = std::exp(score - largest);
        for (std::size_t u = 0; u <= t; ++u) {
          for (std::size_t i = 0; i < head_dim_; ++i) {
            mixed[head * head_dim_ + i] += scores[u] / total * values[u][from + i];
          }
        }
      }
      const Vector attended = layer.output.times(mixed);
      for (std::size_t i = 0; i < attended.size(); ++i) states[t][i] += attended[i];
      const Vector x = norm(states[t], layer.ffn_norm);
      Vector gate = layer.gate.times(x);
      const Vector up = layer.up.times(x);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      const Vector down = layer.down.times(gate);
      for (std::size_t i = 0; i < down.size(); ++i) states[t][i] += down[i];
    }
  }
  std::vector<Vector> result;
  for (const Vector& state : states) result.push_back(head_.times(norm(state, final_norm_)));
  return result;
}

}  // namespace inferno::test
