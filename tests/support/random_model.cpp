#include "support/random_model.hpp"

#include <atomic>
#include <cmath>
#include <fmt/format.h>
#include <random>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace inferno::test {
namespace {

using Shape = std::vector<std::uint64_t>;

/// FNV-1a, so that a tensor's values do not depend on the standard library's hash.
std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t value = 14695981039346656037ULL ^ seed;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

/// Numbers in (-1, 1) from a generator whose output the standard fixes.
class Uniform {
 public:
  explicit Uniform(std::uint64_t seed) : generator_(seed) {}
  float operator()() { return static_cast<float>(static_cast<double>(generator_() >> 11U) * 0x1p-52 - 1.0); }

 private:
  std::mt19937_64 generator_;
};

enum class Kind : std::uint8_t { norm, matrix, embedding, head };

std::vector<float> draw(const std::string& name, const Shape& shape, Kind kind, std::uint64_t seed) {
  std::uint64_t count = 1;
  for (const auto dimension : shape) count *= dimension;
  Uniform uniform(hash(name, seed));
  std::vector<float> values(count);
  // Uniform numbers of variance 1 / columns keep the size of what passes through.
  const float scale = kind == Kind::embedding ? 1.0F : std::sqrt(3.0F / static_cast<float>(shape[0]));
  for (float& value : values) value = kind == Kind::norm ? 1.0F + 0.25F * uniform() : scale * uniform();
  return values;
}

class Builder {
 public:
  explicit Builder(const RandomModel& model) : model_(model) {}

  void write(const std::filesystem::path& path) {
    add_metadata();
    add_tensors();
    for (auto& [tensor, bytes] : tensors_) {
      writer_.add_tensor(tensor.name, tensor.type, tensor.shape, std::span<const std::byte>(bytes));
    }
    writer_.write(path);
  }

 private:
  struct Tensor {
    std::string name;
    quant::TensorType type;
    Shape shape;
  };

  void key(const std::string& name, gguf::Value value) {
    if (model_.without_keys.count(name) != 0) return;
    for (const auto& [other, ignored] : model_.metadata) {
      if (other == name) return;
    }
    writer_.add(name, std::move(value));
  }

  void add_metadata() {
    key("general.architecture", std::string("qwen3"));
    key("general.name", std::string("random"));
    key("qwen3.block_count", model_.layers);
    key("qwen3.context_length", model_.context_length);
    key("qwen3.embedding_length", model_.hidden_size);
    key("qwen3.feed_forward_length", model_.ffn_size);
    key("qwen3.attention.head_count", model_.heads);
    key("qwen3.attention.head_count_kv", model_.kv_heads);
    key("qwen3.attention.key_length", model_.head_dim);
    key("qwen3.attention.value_length", model_.head_dim);
    key("qwen3.attention.layer_norm_rms_epsilon", model_.rms_epsilon);
    key("qwen3.rope.freq_base", model_.rope_base);
    for (const auto& [name, value] : model_.metadata) {
      if (model_.without_keys.count(name) == 0) writer_.add(name, value);
    }
  }

  void add_tensors() {
    const RandomModel& m = model_;
    const std::uint64_t query = std::uint64_t{m.heads} * m.head_dim;
    const std::uint64_t key_value = std::uint64_t{m.kv_heads} * m.head_dim;
    add("token_embd.weight", {m.hidden_size, m.vocab_size}, Kind::embedding);
    for (std::uint32_t i = 0; i < m.layers; ++i) {
      const auto name = [i](std::string_view part) { return fmt::format("blk.{}.{}.weight", i, part); };
      add(name("attn_norm"), {m.hidden_size}, Kind::norm);
      add(name("attn_q"), {m.hidden_size, query}, Kind::matrix);
      add(name("attn_k"), {m.hidden_size, key_value}, Kind::matrix);
      add(name("attn_v"), {m.hidden_size, key_value}, Kind::matrix);
      add(name("attn_q_norm"), {m.head_dim}, Kind::norm);
      add(name("attn_k_norm"), {m.head_dim}, Kind::norm);
      add(name("attn_output"), {query, m.hidden_size}, Kind::matrix);
      add(name("ffn_norm"), {m.hidden_size}, Kind::norm);
      add(name("ffn_gate"), {m.hidden_size, m.ffn_size}, Kind::matrix);
      add(name("ffn_up"), {m.hidden_size, m.ffn_size}, Kind::matrix);
      add(name("ffn_down"), {m.ffn_size, m.hidden_size}, Kind::matrix);
    }
    add("output_norm.weight", {m.hidden_size}, Kind::norm);
    if (!m.tied_head) add("output.weight", {m.hidden_size, m.vocab_size}, Kind::head);
    for (const auto& [name, shape] : m.extra_tensors) add(name, shape, Kind::matrix);
  }

  void add(const std::string& name, Shape shape, Kind kind) {
    if (model_.without_tensors.count(name) != 0) return;
    if (const auto other = model_.shapes.find(name); other != model_.shapes.end()) shape = other->second;
    const bool copies = kind == Kind::head && model_.head_copies_embedding;
    auto values = copies ? draw("token_embd.weight", shape, Kind::embedding, model_.seed)
                         : draw(name, shape, kind, model_.seed);
    if (model_.change) model_.change(name, values);
    const quant::Format& format = quant::format_of(type_of(name, kind));
    const std::size_t blocks = values.size() / format.block_elements;
    std::vector<std::byte> bytes(blocks * format.block_bytes);
    format.encode(values.data(), blocks, bytes.data());
    tensors_.emplace_back(Tensor{name, format.type, std::move(shape)}, std::move(bytes));
  }

  quant::TensorType type_of(const std::string& name, Kind kind) const {
    if (const auto found = model_.formats.find(name); found != model_.formats.end()) return found->second;
    switch (kind) {
      case Kind::norm:
        return model_.norm_format;
      case Kind::matrix:
        return model_.matrix_format;
      case Kind::embedding:
        return model_.embedding_format;
      case Kind::head:
        return model_.head_format;
    }
    return quant::TensorType::f32;
  }

  const RandomModel& model_;
  gguf::Writer writer_;
  std::vector<std::pair<Tensor, std::vector<std::byte>>> tensors_;
};

}  // namespace

void RandomModel::write(const std::filesystem::path& path) const {
  Builder(*this).write(path);
}

TemporaryFile::TemporaryFile(const std::string& suffix) {
  static std::atomic<unsigned> count{0};
  path_ = std::filesystem::temp_directory_path() /
          fmt::format("inferno-test-{}-{}{}", ::getpid(), count.fetch_add(1), suffix);
}

TemporaryFile::TemporaryFile(const RandomModel& model) : TemporaryFile(".gguf") {
  model.write(path_);
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

std::vector<std::int32_t> random_ids(std::size_t count, std::uint32_t vocab_size, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::int32_t> ids(count);
  for (auto& id : ids) id = static_cast<std::int32_t>(generator() % vocab_size);
  return ids;
}

}  // namespace inferno::test
