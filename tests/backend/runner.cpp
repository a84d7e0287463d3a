#include "backend/runner.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "backend/registry.hpp"
#include "platform/available_memory.hpp"

namespace inferno::test {

Runner::Runner(const LoadedModel& model, const RunnerOptions& options)
    : executor_(create_executor(options.backend, model)), vocab_size_(model.config.vocab_size) {
  Limits limits;
  limits.max_tokens = std::max(512U, options.context);
  limits.max_outputs = limits.max_tokens;
  limits.max_context = options.context;
  limits.block_size = options.block_size;
  const std::uint32_t needed = (options.context + options.block_size - 1) / options.block_size;
  limits.blocks = 2 * needed;
  executor_->reserve(limits);
  blocks_.resize(needed);
  for (std::uint32_t i = 0; i < needed; ++i) {
    // Every other block from the back: descending, with gaps.
    blocks_[i] = options.layout == Layout::contiguous ? i : limits.blocks - 1 - 2 * i;
  }
}

StepResult Runner::feed(std::span<const std::int32_t> ids, std::size_t first_position, OutputKind kind,
                        bool all) {
  StepBatch batch;
  std::vector<TokenInput> tokens;
  for (const auto id : ids) tokens.push_back(TokenInput::of(id));
  batch.add_row(tokens, static_cast<std::uint32_t>(first_position), blocks_);
  for (std::size_t i = all ? 0 : ids.size() - 1; i < ids.size(); ++i) {
    batch.add_output_at(static_cast<std::uint32_t>(i), kind);
  }
  auto result = executor_->wait(executor_->submit(batch));
  EXPECT_EQ(result.status, std::vector{RowStatus::ok}) << result.errors.at(0);
  return result;
}

Logits Runner::logits(std::span<const std::int32_t> ids, std::size_t chunk) {
  Logits all;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    for (auto& values : feed(part, first, OutputKind::logits, true).values) all.push_back(std::move(values));
  }
  return all;
}

Logits Runner::logits_recomputed(std::span<const std::int32_t> ids) {
  Logits all;
  for (std::size_t length = 1; length <= ids.size(); ++length) {
    all.push_back(std::move(feed(ids.first(length), 0, OutputKind::logits, false).values.at(0)));
  }
  return all;
}

std::vector<float> Runner::last_logits(std::span<const std::int32_t> ids, std::size_t chunk) {
  StepResult result;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    result = feed(part, first, OutputKind::logits, false);
  }
  return std::move(result.values.at(0));
}

std::vector<std::int32_t> Runner::greedy(std::span<const std::int32_t> prompt, std::size_t count,
                                         std::size_t chunk) {
  std::vector<std::int32_t> chosen;
  std::size_t position = 0;
  for (; position < prompt.size(); position += chunk) {
    const auto part = prompt.subspan(position, std::min(chunk, prompt.size() - position));
    chosen = feed(part, position, OutputKind::token, false).ids.at(0);
  }
  position = prompt.size();
  while (chosen.size() < count) {
    const std::int32_t last = chosen.back();
    chosen.push_back(feed({&last, 1}, position++, OutputKind::token, false).ids.at(0).at(0));
  }
  return chosen;
}

Logits run_rows(Executor& executor, const LoadedModel& model, const std::vector<Ids>& rows, std::size_t chunk,
                std::uint32_t block_size) {
  const std::size_t length = rows[0].size();
  const auto blocks_per_row = static_cast<std::uint32_t>((length + block_size - 1) / block_size);
  Limits limits;
  limits.max_rows = static_cast<std::uint32_t>(rows.size());
  limits.max_tokens = static_cast<std::uint32_t>(rows.size() * chunk);
  limits.max_outputs = limits.max_tokens;
  limits.block_size = block_size;
  limits.blocks = blocks_per_row * limits.max_rows;
  limits.max_context = blocks_per_row * block_size;
  executor.reserve(limits);
  Logits logits;
  for (std::size_t first = 0; first < length; first += chunk) {
    const auto count = std::min(chunk, length - first);
    StepBatch batch;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::vector<TokenInput> inputs;
      for (std::size_t i = 0; i < count; ++i) inputs.push_back(TokenInput::of(rows[row][first + i]));
      std::vector<std::uint32_t> blocks;  // interleaved with those of the other rows
      for (std::uint32_t b = 0; b < blocks_per_row; ++b) {
        blocks.push_back(b * limits.max_rows + static_cast<std::uint32_t>(row));
      }
      batch.add_row(inputs, static_cast<std::uint32_t>(first), blocks);
      if (row > 0) continue;
      for (std::size_t i = 0; i < count; ++i)
        batch.add_output_at(static_cast<std::uint32_t>(i), OutputKind::logits);
    }
    const auto result = executor.wait(executor.submit(batch, {}));
    EXPECT_EQ(result.status[0], RowStatus::ok);
    for (const auto& values : result.values) logits.push_back(values);
  }
  EXPECT_EQ(logits[0].size(), model.config.vocab_size);
  return logits;
}

RandomModel mixed_formats() {
  RandomModel random;
  random.hidden_size = 64;
  random.ffn_size = 96;
  random.formats = {{"blk.0.attn_q.weight", quant::TensorType::q8_0},
                    {"blk.0.attn_k.weight", quant::TensorType::f16},
                    {"blk.0.attn_v.weight", quant::TensorType::q4_0},
                    {"blk.0.ffn_gate.weight", quant::TensorType::q5_0},
                    {"blk.1.ffn_down.weight", quant::TensorType::q4_0},
                    {"blk.1.ffn_up.weight", quant::TensorType::bf16},
                    {"blk.1.attn_output.weight", quant::TensorType::q5_0}};
  return random;
}

void expect_spoilt_weights_are_refused(const std::function<void(const LoadedModel& model)>& make) {
  RandomModel random;
  random.formats = {{"blk.1.ffn_up.weight", quant::TensorType::q8_0}};
  const TemporaryFile file(random);
  std::size_t offset = 0;
  {
    const LoadedModel whole(file.path());
    const auto& matrix = whole.weights.layers[1].up;
    std::ifstream bytes(file.path(), std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(bytes)), {});
    offset = all.find(std::string(reinterpret_cast<const char*>(matrix.row(17)), matrix.row_bytes()));
    ASSERT_NE(offset, std::string::npos);
  }
  {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(offset));
    bytes.write("\x00\x7C", 2);  // infinity as a float16
  }
  const LoadedModel model(file.path());
  try {
    make(model);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("blk.1.ffn_up.weight"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("row 17"), std::string::npos) << error.what();
  }
}

void expect_blocks_move(Executor& one, Executor& other, const LoadedModel& model) {
  const auto ids = random_ids(40, model.config.vocab_size, 5);
  const auto expected = run_rows(one, model, {ids}, 40, 16);
  const auto exported = one.export_blocks(std::vector<std::uint32_t>{0, 1});
  run_rows(other, model, {ids}, 40, 16);
  EXPECT_EQ(other.export_blocks(std::vector<std::uint32_t>{0, 1}), exported);
  other.import_blocks(std::vector<std::uint32_t>{2, 0}, exported);
  StepBatch batch;
  std::vector<TokenInput> rest;
  for (std::size_t i = 32; i < 40; ++i) rest.push_back(TokenInput::of(ids[i]));
  batch.add_row(rest, 32, {2, 0, 1});
  batch.add_output(OutputKind::logits);
  const auto result = other.wait(other.submit(batch, {}));
  EXPECT_EQ(result.values[0], expected.back());
}

template <typename Number>
double relative_error(std::span<const Number> expected, std::span<const float> actual) {
  if (expected.size() != actual.size() || expected.empty()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    const double here = std::abs(static_cast<double>(expected[i]) - static_cast<double>(actual[i]));
    if (!(here <= difference)) difference = here;  // NaN stays
  }
  return difference / largest;
}

template double relative_error<double>(std::span<const double>, std::span<const float>);
template double relative_error<float>(std::span<const float>, std::span<const float>);

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(INFERNO_TEST_DATA) / "golden" / name;
}

std::filesystem::path shipped_golden() {
  return std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.golden.json";
}

std::filesystem::path shipped_model() {
  return std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf";
}

std::filesystem::path model_path(const std::string& name) {
  return name == "tale" ? shipped_model() : golden(name + ".gguf");
}

std::string no_room_for_large_model() {
  constexpr std::uint64_t kDisk = 1'500'000'000;
  constexpr std::uint64_t kMemory = 4'000'000'000;
  const auto disk = std::filesystem::space(std::filesystem::temp_directory_path()).available;
  if (disk < kDisk) return fmt::format("{} bytes are free for temporary files, expected {}", disk, kDisk);
  const auto memory = available_memory().value_or(kMemory);
  if (memory < kMemory) return fmt::format("{} bytes of memory are free, expected {}", memory, kMemory);
  return {};
}

}  // namespace inferno::test
