// The persistent kernels: whole steps of up to eight rows as one launch, the same bits as the CPU, at any
// depth. (That the graph path gives them is tested with the tests that are shared with Vulkan.)

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>

#include "backend/cuda/executor.hpp"
#include "backend/cuda/library.hpp"
#include "backend/registry.hpp"
#include "backend/runner.hpp"
#include "support/random_model.hpp"

namespace inferno::test {
namespace {

std::unique_ptr<cuda::CudaExecutor> make(const LoadedModel& model) {
  return std::make_unique<cuda::CudaExecutor>(model, cuda::open_device(*cuda::library().module, 0), true);
}

Limits limits(std::uint32_t context) {
  return {.max_tokens = 512,
          .max_outputs = 4,
          .max_context = context,
          .block_size = 256,
          .blocks = context / 256};
}

struct Decoded {
  Ids ids;
  Logits logits;
};

/// Feeds `prompt` and decodes `count` tokens one by one, with their logits.
Decoded decode(Executor& executor, const Ids& prompt, std::size_t count) {
  const std::uint32_t context = static_cast<std::uint32_t>((prompt.size() + count) / 256 + 1) * 256;
  executor.reserve(limits(context));
  std::vector<std::uint32_t> blocks;
  for (std::uint32_t i = context / 256; i > 0; --i) blocks.push_back(i - 1);
  Decoded result;
  std::vector<TokenInput> tokens;
  std::uint32_t position = 0;
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    tokens.push_back(TokenInput::of(prompt[i]));
    if (tokens.size() < 512 && i + 1 < prompt.size()) continue;
    if (i + 1 == prompt.size()) break;
    StepBatch batch;
    batch.add_row(tokens, position, blocks);
    executor.wait(executor.submit(batch));
    position += static_cast<std::uint32_t>(tokens.size());
    tokens.clear();
  }
  while (result.ids.size() < count) {
    StepBatch batch;
    batch.add_row(tokens, position, blocks);
    batch.add_output(OutputKind::token);
    batch.add_output(OutputKind::logits);
    const auto step = executor.wait(executor.submit(batch));
    EXPECT_EQ(step.status.at(0), RowStatus::ok) << step.errors.at(0);
    if (step.status.at(0) != RowStatus::ok) break;
    result.ids.push_back(step.ids.at(0).at(0));
    result.logits.push_back(step.values.at(1));
    position += static_cast<std::uint32_t>(tokens.size());
    tokens = {TokenInput::of(result.ids.back())};
  }
  return result;
}

void expect_equal(const LoadedModel& model, std::size_t depth, std::size_t count) {
  const auto prompt = random_ids(depth, model.config.vocab_size, 7 + depth);
  const auto executor = make(model);
  const auto mine = decode(*executor, prompt, count);
  EXPECT_GE(executor->persistent_rows(), 1U);
  const auto pool = create_executor("pool", model);
  const auto expected = decode(*pool, prompt, count);
  EXPECT_EQ(mine.ids, expected.ids);
  EXPECT_EQ(mine.logits, expected.logits);
}

class PersistentSteps : public testing::TestWithParam<std::size_t> {};

TEST_P(PersistentSteps, EqualTheCpuOnTheShippedModel) {
  expect_equal(LoadedModel(shipped_model()), GetParam(), 12);
}

// The first position, one split, its end, two splits, more splits than blocks of a KV head.
INSTANTIATE_TEST_SUITE_P(Depths, PersistentSteps, testing::Values(1, 2, 100, 250, 505, 1000, 4000),
                         testing::PrintToStringParamName());

/// The shape of a 0.6B layer, two of them: every product has the number of rounds that it has there.
RandomModel qwen3_small() {
  RandomModel random;
  random.layers = 2;
  random.hidden_size = 1024;
  random.ffn_size = 3072;
  random.heads = 16;
  random.kv_heads = 8;
  random.head_dim = 128;
  random.vocab_size = 4001;
  random.matrix_format = random.embedding_format = random.head_format = quant::TensorType::q8_0;
  return random;
}

TEST(PersistentStep, EqualsTheCpuOnTheShapeOfQwen3Small) {
  const TemporaryFile file(qwen3_small());
  const LoadedModel model(file.path());
  for (const std::size_t depth : {1U, 255U, 700U, 1100U, 2300U, 4095U}) expect_equal(model, depth, 6);
}

/// Larger shapes, a layer of each: vectors that a warp takes in several chunks, panels longer than the ring
/// is deep, groups of more than two query heads.
TEST(PersistentStep, EqualsTheCpuOnTheShapesOfLargerModels) {
  struct Shape {
    std::uint32_t hidden_size, ffn_size, heads;
  };
  for (const Shape shape : {Shape{2048, 6144, 16}, Shape{2560, 9728, 32}, Shape{4096, 12288, 32}}) {
    RandomModel random;
    random.layers = 1;
    random.hidden_size = shape.hidden_size;
    random.ffn_size = shape.ffn_size;
    random.heads = shape.heads;
    random.kv_heads = 8;
    random.head_dim = 128;
    random.vocab_size = 1000;
    random.matrix_format = random.embedding_format = random.head_format = quant::TensorType::q8_0;
    const TemporaryFile file(random);
    const LoadedModel model(file.path());
    for (const std::size_t depth : {1U, 300U, 1500U}) expect_equal(model, depth, 3);
  }
}

/// Steps chained in one launch choose what single steps choose, and end with a stop id.
TEST(PersistentStep, ChainsSteps) {
  const LoadedModel model(shipped_model());
  const auto prompt = random_ids(20, model.config.vocab_size, 3);
  const auto pool = create_executor("pool", model);
  const auto expected = decode(*pool, prompt, 41).ids;
  const auto executor = make(model);
  auto reserved = limits(256);
  reserved.max_steps = 40;
  executor->reserve(reserved);
  const auto run = [&](std::vector<TokenInput> tokens, std::uint32_t position, const SubmitOptions& options) {
    StepBatch batch;
    batch.add_row(tokens, position, {0});
    batch.add_output(OutputKind::token);
    return executor->wait(executor->submit(batch, options));
  };
  std::vector<TokenInput> tokens;
  for (const auto id : prompt) tokens.push_back(TokenInput::of(id));
  const auto first = run(tokens, 0, {}).ids.at(0).at(0);
  EXPECT_EQ(first, expected.at(0));
  SubmitOptions options;
  options.max_steps = 40;
  const auto whole = run({TokenInput::of(first)}, 20, options);
  EXPECT_EQ(whole.ids.at(0), Ids(expected.begin() + 1, expected.end()));
  EXPECT_EQ(whole.status.at(0), RowStatus::ok);

  options.stop_ids.ids = {expected.at(7)};
  const auto end = std::find(expected.begin() + 1, expected.end(), expected.at(7)) + 1;
  const auto stopped = run({TokenInput::of(first)}, 20, options);
  EXPECT_EQ(stopped.ids.at(0), Ids(expected.begin() + 1, end));
  EXPECT_EQ(stopped.status.at(0), RowStatus::stopped);
}

/// Notes what is chosen, and has enough after the third.
class Enough : public OutputSink {
 public:
  void take(std::uint32_t /*output*/, std::uint32_t /*step*/, std::span<const float> /*values*/) override {}
  void take_token(std::uint32_t /*output*/, std::uint32_t /*step*/, std::int32_t id) override {
    ids.push_back(id);
    if (ids.size() == 3) cancelled = true;
  }
  Ids ids;
  std::atomic<bool> cancelled = false;
};

/// What a chain chooses is known while it runs, so that it can be ended.
TEST(PersistentStep, SaysWhatItChoosesWhileItRuns) {
  const LoadedModel model(shipped_model());
  const auto executor = make(model);
  auto reserved = limits(1024);
  reserved.max_steps = 900;
  executor->reserve(reserved);
  Enough sink;
  SubmitOptions options;
  options.max_steps = 900;
  options.sink = &sink;
  options.cancelled = &sink.cancelled;
  StepBatch batch;
  batch.add_row({TokenInput::of(5)}, 0, {0, 1, 2, 3});
  batch.add_output(OutputKind::token);
  const auto result = executor->wait(executor->submit(batch, options));
  EXPECT_EQ(result.status.at(0), RowStatus::cancelled);
  EXPECT_EQ(sink.ids, result.ids.at(0));
  EXPECT_GE(result.steps, 3U);
  EXPECT_LT(result.steps, 900U);
}

/// Sequences side by side: prompts of these depths, then steps of one token for each.
class Rows {
 public:
  Rows(Executor& executor, const LoadedModel& model, const std::vector<std::size_t>& depths,
       std::size_t count, std::uint32_t max_steps)
      : executor_(executor) {
    const std::size_t deepest = *std::max_element(depths.begin(), depths.end());
    const auto row_blocks = static_cast<std::uint32_t>((deepest + count) / 256 + 1);
    const auto rows = static_cast<std::uint32_t>(depths.size());
    executor.reserve({.max_rows = rows,
                      .max_tokens = 512,
                      .max_outputs = 2 * rows,
                      .max_steps = max_steps,
                      .max_context = row_blocks * 256,
                      .block_size = 256,
                      .blocks = row_blocks * rows});
    for (std::uint32_t r = 0; r < rows; ++r) {
      // Blocks in an order of their own, so that no row stands where another would.
      auto& blocks = blocks_.emplace_back();
      for (std::uint32_t i = row_blocks; i > 0; --i) blocks.push_back((i - 1) * rows + r);
      const auto prompt = random_ids(depths[r], model.config.vocab_size, 11 + r + depths[r]);
      positions_.push_back(0);
      for (std::size_t i = 0; i + 1 < prompt.size(); i += 512) {
        std::vector<TokenInput> tokens;
        for (std::size_t k = i; k < std::min(i + 512, prompt.size() - 1); ++k)
          tokens.push_back(TokenInput::of(prompt[k]));
        StepBatch batch;
        batch.add_row(tokens, positions_[r], blocks);
        executor.wait(executor.submit(batch));
        positions_[r] += static_cast<std::uint32_t>(tokens.size());
      }
      next_.push_back(prompt.back());
    }
  }

  /// One submission for all rows; `with_logits` asks for those beside the ids.
  StepResult run(bool with_logits, const SubmitOptions& options = {}) {
    StepBatch batch;
    for (std::size_t r = 0; r < next_.size(); ++r) {
      batch.add_row({TokenInput::of(next_[r])}, positions_[r], blocks_[r]);
      batch.add_output(OutputKind::token);
      if (with_logits) batch.add_output(OutputKind::logits);
    }
    const auto result = executor_.wait(executor_.submit(batch, options));
    const std::size_t outputs = with_logits ? 2 : 1;
    for (std::size_t r = 0; r < next_.size(); ++r) {
      const auto& ids = result.ids.at(outputs * r);
      if (ids.empty()) continue;
      next_[r] = ids.back();
      positions_[r] += static_cast<std::uint32_t>(ids.size());
    }
    return result;
  }

 private:
  Executor& executor_;
  std::vector<std::vector<std::uint32_t>> blocks_;
  std::vector<std::uint32_t> positions_;
  Ids next_;
};

void expect_equal_rows(const LoadedModel& model, const std::vector<std::size_t>& depths, std::size_t count) {
  const auto executor = make(model);
  const auto pool = create_executor("pool", model);
  Rows mine(*executor, model, depths, count, 1);
  Rows expected(*pool, model, depths, count, 1);
  ASSERT_GE(executor->persistent_rows(), depths.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto got = mine.run(true);
    const auto wanted = expected.run(true);
    EXPECT_EQ(got.ids, wanted.ids) << "step " << i;
    EXPECT_EQ(got.values, wanted.values) << "step " << i;
    EXPECT_EQ(got.status, wanted.status) << "step " << i;
  }
}

class PersistentRows : public testing::TestWithParam<std::size_t> {};

TEST_P(PersistentRows, EqualTheCpuOnTheShippedModel) {
  const std::vector<std::size_t> depths = {1, 255, 256, 700, 33, 512, 1300, 2};
  expect_equal_rows(LoadedModel(shipped_model()), {depths.begin(), depths.begin() + GetParam()}, 5);
}

INSTANTIATE_TEST_SUITE_P(Counts, PersistentRows, testing::Values(2, 3, 4, 5, 8),
                         testing::PrintToStringParamName());

TEST(PersistentStep, EqualsTheCpuOnRowsOfQwen3Small) {
  const TemporaryFile file(qwen3_small());
  const LoadedModel model(file.path());
  expect_equal_rows(model, {511, 511, 511, 511, 511, 511, 511, 511}, 4);
  expect_equal_rows(model, {1, 256, 1030, 2, 255, 40, 600, 4095}, 4);
  expect_equal_rows(model, {9000, 3}, 3);
}

/// Rows that are chained choose what single steps choose; each ends with a stop id of its own while the
/// others go on.
TEST(PersistentStep, ChainsRows) {
  const LoadedModel model(shipped_model());
  const std::vector<std::size_t> depths = {20, 250, 3};
  constexpr std::uint32_t kSteps = 30;
  const auto pool = create_executor("pool", model);
  Rows expected(*pool, model, depths, kSteps, kSteps);
  std::vector<Ids> ids(depths.size());
  for (std::uint32_t i = 0; i < kSteps; ++i) {
    const auto step = expected.run(false);
    for (std::size_t r = 0; r < depths.size(); ++r) ids[r].push_back(step.ids.at(r).at(0));
  }
  const auto executor = make(model);
  SubmitOptions options;
  options.max_steps = kSteps;
  Rows whole(*executor, model, depths, kSteps, kSteps);
  EXPECT_EQ(whole.run(false, options).ids, ids);

  // Row 0 ends with its tenth token, row 1 with none, row 2 with its third.
  options.stop_ids.ids = {ids[0][9], ids[2][2]};
  options.stop_ids.row_offsets = {0, 1, 1, 2};
  for (const std::size_t r : {0U, 2U}) {
    const auto stop = std::find(ids[r].begin(), ids[r].end(), r == 0 ? ids[0][9] : ids[2][2]);
    ids[r].erase(stop + 1, ids[r].end());
  }
  Rows stopping(*executor, model, depths, kSteps, kSteps);
  const auto stopped = stopping.run(false, options);
  EXPECT_EQ(stopped.ids, ids);
  EXPECT_EQ(stopped.status, (std::vector<RowStatus>{RowStatus::stopped, RowStatus::ok, RowStatus::stopped}));
}

/// Formats that the kernel does not know take the other path, silently.
TEST(PersistentStep, LeavesFloatWeightsToTheGraph) {
  const LoadedModel model(golden("odd-tied-f16.gguf"));
  const auto executor = make(model);
  executor->reserve(limits(256));
  EXPECT_EQ(executor->persistent_rows(), 0U);
}

}  // namespace
}  // namespace inferno::test
