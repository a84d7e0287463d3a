#include "synth/synth.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <memory>
#include <system_error>
#include <thread>

#include <inferno/error.hpp>

#include "platform/cpu_budget.hpp"
#include "platform/mapped_file.hpp"
#include "synth/byte_vocabulary.hpp"
#include "synth/preset.hpp"
#include "synth/random_weights.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {
namespace {

constexpr std::uint32_t kQwenRows = 151936;
constexpr std::uint32_t kRowsMultiple = 128;
constexpr std::size_t kBytesPerThread = std::size_t{1} << 18;
constexpr std::uint32_t kQuantizationVersion = 2;

std::string read_text(const std::filesystem::path& path) {
  const InputFile file = InputFile::open(path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

Vocabulary make_vocabulary(const std::filesystem::path& tokenizer_json) {
  if (tokenizer_json.empty()) return byte_vocabulary();
  const std::filesystem::path config = tokenizer_json.parent_path() / "tokenizer_config.json";
  const std::string config_text = std::filesystem::exists(config) ? read_text(config) : std::string();
  const std::string text = read_text(tokenizer_json);
  try {
    return vocabulary_from_json(text, config_text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", tokenizer_json.string(), error.what()));
  }
}

// A small shape takes a large tokenizer by growing its embedding, to Qwen's number of rows if that is enough.
std::uint32_t embedding_rows(const ModelConfig& shape, std::size_t tokens) {
  if (tokens <= shape.vocab_size) return shape.vocab_size;
  if (tokens <= kQwenRows) return kQwenRows;
  return static_cast<std::uint32_t>((tokens + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple);
}

// The numbers of llama.cpp's file types: "mostly" this tensor type.
std::uint32_t file_type(quant::TensorType type) {
  switch (type) {
    case quant::TensorType::f32:
      return 0;
    case quant::TensorType::f16:
      return 1;
    case quant::TensorType::q4_0:
      return 2;
    case quant::TensorType::q8_0:
      return 7;
    case quant::TensorType::q5_0:
      return 8;
    case quant::TensorType::bf16:
      return 32;
  }
  return 1024;  // "guessed"
}

// Splits whole rows among threads; the bytes do not depend on how.
void fill_in_parallel(const RandomMatrix& matrix, const quant::Format& format, std::size_t row_bytes,
                      std::uint32_t threads, std::uint64_t first_row, std::span<std::byte> target) {
  const std::size_t rows = target.size() / row_bytes;
  const std::size_t parts =
      std::clamp<std::size_t>(target.size() / kBytesPerThread, 1, std::min<std::size_t>(threads, rows));
  std::vector<std::thread> workers;
  std::vector<std::exception_ptr> failures(parts);
  const auto fill_part = [&](std::size_t part) {
    const std::size_t begin = rows * part / parts;
    const std::size_t end = rows * (part + 1) / parts;
    try {
      matrix.fill(format, first_row + begin, target.subspan(begin * row_bytes, (end - begin) * row_bytes));
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  for (std::size_t part = 1; part < parts; ++part) workers.emplace_back(fill_part, part);
  fill_part(0);
  for (std::thread& worker : workers) worker.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

// Declares the tensors of one model and knows their size.
class ModelBuilder {
 public:
  ModelBuilder(const SynthOptions& options, const ModelConfig& config, gguf::Writer& writer)
      : options_(options),
        config_(config),
        writer_(writer),
        threads_(options.threads == 0 ? cpu_budget().threads : options.threads) {}

  // Every weight keeps the size of what passes through: 1 / columns. Embedding and head are larger, so that
  // logits have a deviation of about 3, as a trained model's; and yet what the layers add outgrows the
  // embedding, or a tied head would repeat the last token.
  void add_tensors() {
    const std::uint32_t d = config_.hidden_size;
    const std::uint32_t query = config_.query_width();
    const std::uint32_t kv = config_.kv_width();
    add_matrix("token_embd.weight", config_.vocab_size, d, 9.0);
    add_norm("output_norm.weight", d);
    if (!config_.tied_head) add_matrix("output.weight", config_.vocab_size, d, 9.0);
    for (std::uint32_t layer = 0; layer < config_.layers; ++layer) {
      const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}.weight", layer, part); };
      add_norm(name("attn_norm"), d);
      add_matrix(name("attn_q"), query, d);
      add_matrix(name("attn_k"), kv, d);
      add_matrix(name("attn_v"), kv, d);
      add_norm(name("attn_q_norm"), config_.head_dim);
      add_norm(name("attn_k_norm"), config_.head_dim);
      add_matrix(name("attn_output"), d, query);
      add_norm(name("ffn_norm"), d);
      add_matrix(name("ffn_gate"), config_.ffn_size, d);
      add_matrix(name("ffn_up"), config_.ffn_size, d);
      add_matrix(name("ffn_down"), d, config_.ffn_size);
    }
  }

  std::uint64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  void add_matrix(const std::string& name, std::uint32_t rows, std::uint32_t columns, double size = 1.0) {
    const quant::Format& format = quant::format_of(options_.type);
    const RandomMatrix matrix(options_.seed, name, columns, size / columns);
    const std::size_t row_bytes = std::size_t{columns} / format.block_elements * format.block_bytes;
    tensor_bytes_ += std::uint64_t{rows} * row_bytes;
    writer_.add_tensor(
        name, options_.type, {columns, rows},
        [=, threads = threads_, &format](std::uint64_t first_row, std::span<std::byte> target) {
          fill_in_parallel(matrix, format, row_bytes, threads, first_row, target);
        });
  }

  void add_norm(const std::string& name, std::uint32_t size) {
    const auto values = std::make_shared<std::vector<float>>(size);
    fill_norm(options_.seed, name, *values);
    tensor_bytes_ += std::uint64_t{size} * sizeof(float);
    writer_.add_tensor(name, quant::TensorType::f32, {size},
                       [values](std::uint64_t, std::span<std::byte> target) {
                         std::memcpy(target.data(), values->data(), target.size());
                       });
  }

  const SynthOptions& options_;
  const ModelConfig& config_;
  gguf::Writer& writer_;
  std::uint32_t threads_;
  std::uint64_t tensor_bytes_ = 0;
};

void add_metadata(const SynthOptions& options, const Preset& preset, const ModelConfig& config,
                  gguf::Writer& writer) {
  writer.add("general.architecture", std::string("qwen3"));
  writer.add("general.type", std::string("model"));
  writer.add("general.name", fmt::format("random {} (seed {})", preset.name, options.seed));
  writer.add("general.description",
             std::string("Random weights in a Qwen3 shape, for tests and measurements"));
  writer.add("general.size_label", std::string(preset.size_label));
  writer.add("general.file_type", file_type(options.type));
  writer.add("general.quantization_version", kQuantizationVersion);
  writer.add("qwen3.block_count", config.layers);
  writer.add("qwen3.context_length", config.context_length);
  writer.add("qwen3.embedding_length", config.hidden_size);
  writer.add("qwen3.feed_forward_length", config.ffn_size);
  writer.add("qwen3.attention.head_count", config.heads);
  writer.add("qwen3.attention.head_count_kv", config.kv_heads);
  writer.add("qwen3.attention.key_length", config.head_dim);
  writer.add("qwen3.attention.value_length", config.head_dim);
  writer.add("qwen3.attention.layer_norm_rms_epsilon", config.rms_epsilon);
  writer.add("qwen3.rope.freq_base", config.rope_base);
}

void check_room(const std::filesystem::path& path, std::uint64_t needed) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code failed;
  const std::filesystem::space_info space = std::filesystem::space(folder, failed);
  if (failed || space.available >= needed)
    return;  // what is wrong with the folder, opening the file will tell
  throw Error(
      fmt::format("{}: the model takes {} bytes, the disk has {} free; choose a smaller --preset or "
                  "--type, or another place",
                  path.string(), needed, space.available));
}

}  // namespace

void synthesize(const SynthOptions& options, const std::filesystem::path& path,
                const gguf::Writer::Progress& progress) {
  const Preset& preset = find_preset(options.preset);
  Vocabulary vocabulary = make_vocabulary(options.tokenizer_json);
  ModelConfig config = preset.config;
  config.vocab_size = embedding_rows(config, vocabulary.tokens.size());
  if (options.pad_vocabulary) pad_vocabulary(vocabulary, config.vocab_size);

  gguf::Writer writer;
  add_metadata(options, preset, config, writer);
  add_to_gguf(vocabulary, writer);
  ModelBuilder builder(options, config, writer);
  builder.add_tensors();
  check_room(path, builder.tensor_bytes());
  writer.write(path, progress);
}

}  // namespace inferno
