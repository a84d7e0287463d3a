// Whole steps on a Vulkan device: the same bits as the CPU, however a prompt is cut and whoever else is in
// the batch; and no more asking of the device than once per step.

#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/gpu/executor.hpp"
#include "backend/registry.hpp"
#include "backend/runner.hpp"
#include "backend/vulkan/open_device.hpp"
#include "backend/vulkan/test_device.hpp"
#include "platform/fault.hpp"
#include "support/random_model.hpp"
#include "synth/synth.hpp"

// LeakSanitizer asks for this: the validation layer leaks a few kilobytes of its own.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libVkLayer_khronos_validation\n";
}

namespace inferno::test {
namespace {

std::unique_ptr<gpu::GpuExecutor> make(const LoadedModel& model, const TestDeviceOptions& options = {}) {
  return std::make_unique<gpu::GpuExecutor>("vulkan", model, open_test_device(options));
}

class VulkanSteps : public testing::TestWithParam<const char*> {
 protected:
  LoadedModel model_{model_path(GetParam())};
  std::size_t length_ = std::string(GetParam()) == "tale" ? 70 : 300;  // odd models: more than one split
  Ids ids_ = random_ids(length_, model_.config.vocab_size, 11);
  Logits expected_ = [this] {
    const auto simd = create_executor("simd", model_);
    return run_rows(*simd, model_, {ids_}, length_);
  }();
};

TEST_P(VulkanSteps, EqualTheCpuHoweverThePromptIsCut) {
  const auto executor = make(model_);
  for (const std::size_t chunk : {std::size_t{512}, std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
    EXPECT_EQ(run_rows(*executor, model_, {ids_}, chunk), expected_) << chunk;
  }
}

TEST_P(VulkanSteps, EqualTheCpuInAnyCompany) {
  const auto executor = make(model_);
  std::vector<Ids> rows = {ids_};
  for (std::uint64_t seed = 1; seed < 5; ++seed)
    rows.push_back(random_ids(length_, model_.config.vocab_size, seed));
  EXPECT_EQ(run_rows(*executor, model_, rows, 16), expected_);
  EXPECT_EQ(run_rows(*executor, model_, rows, 5, 16), expected_);
}

TEST_P(VulkanSteps, EqualTheCpuWithIntegerDotProducts) {
  const auto executor = make(model_, {.integer_dot = true});
  EXPECT_EQ(run_rows(*executor, model_, {ids_}, 64), expected_);
  EXPECT_EQ(run_rows(*executor, model_, {ids_}, 3), expected_);
}

/// Matrices larger than what can be bound at once are bound in pieces, logits come in pieces.
TEST_P(VulkanSteps, EqualTheCpuInPieces) {
  const auto executor = make(model_, {.max_range = std::uint64_t{1} << 20U});
  EXPECT_EQ(run_rows(*executor, model_, {ids_}, 32), expected_);
}

TEST_P(VulkanSteps, ChooseWhatTheCpuChooses) {
  const auto executor = make(model_);
  const auto simd = create_executor("simd", model_);
  const auto greedy = [this](Executor& on) {
    on.reserve({.max_context = 512, .block_size = 64, .blocks = 8});
    Ids ids;
    StepBatch batch;
    std::vector<TokenInput> prompt;
    for (std::size_t i = 0; i < 20; ++i) prompt.push_back(TokenInput::of(ids_[i]));
    std::uint32_t position = 0;
    while (ids.size() < 60) {
      batch.clear();
      batch.add_row(prompt, position, {0, 1, 2, 3});
      batch.add_output(OutputKind::token);
      ids.push_back(on.wait(on.submit(batch)).ids.at(0).at(0));
      position += static_cast<std::uint32_t>(prompt.size());
      prompt = {TokenInput::of(ids.back())};
    }
    return ids;
  };
  EXPECT_EQ(greedy(*executor), greedy(*simd));
}

INSTANTIATE_TEST_SUITE_P(Models, VulkanSteps,
                         testing::Values("tale", "odd-mqa-q8_0", "odd-tied-f16", "odd-group3-f32"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Formats mixed within a layer, so that one input is needed quantized and as floats at once.
TEST(VulkanStep, MixesFormats) {
  const TemporaryFile file(mixed_formats());
  const LoadedModel model(file.path());
  const auto ids = random_ids(40, model.config.vocab_size, 3);
  const auto simd = create_executor("simd", model);
  const auto expected = run_rows(*simd, model, {ids}, 40);
  const auto executor = make(model);
  EXPECT_EQ(run_rows(*executor, model, {ids}, 7), expected);
  EXPECT_EQ(run_rows(*executor, model, {ids}, 40), expected);
}

/// Sums the stages of steps.
class StageCounter : public StageObserver {
 public:
  void begin(const StageEvent& event) override { stages += event.stage == Stage::embedding ? 0 : 1; }
  std::uint64_t stages = 0;
};

TEST(VulkanStep, AsksTheDeviceOncePerToken) {
  RandomModel random;  // as many layers as Qwen3-0.6B
  random.layers = 28;
  random.matrix_format = quant::TensorType::q8_0;
  const TemporaryFile file(random);
  const LoadedModel model(file.path());
  const auto executor = make(model);
  executor->reserve({.max_context = 256, .block_size = 64, .blocks = 4});
  std::uint32_t position = 0;
  std::uint64_t dispatches = 0;
  const auto step = [&](StageObserver* observer) {
    StepBatch batch;
    batch.add_row({TokenInput::of(3)}, position++, {0, 1, 2, 3});
    batch.add_output(OutputKind::token);
    SubmitOptions options;
    options.observer = observer;
    const auto result = executor->wait(executor->submit(batch, options));
    EXPECT_EQ(result.status.at(0), RowStatus::ok);
    dispatches = result.dispatches;
  };
  step(nullptr);  // records
  for (int i = 0; i < 3; ++i) {
    const auto before = executor->device().counters();
    step(nullptr);
    const auto& after = executor->device().counters();
    EXPECT_EQ(after.submissions - before.submissions, 1U);
    EXPECT_EQ(after.waits - before.waits, 1U);
    EXPECT_EQ(after.bytes_read - before.bytes_read, 4U);
    EXPECT_EQ(after.allocations - before.allocations, 0U);
    EXPECT_EQ(after.dispatches - before.dispatches, dispatches);
  }
  // Ten a layer; the norms inside products save three, attention at once saves two (docs/vulkan.md says
  // which).
  const gpu::Device& device = executor->device();
  const unsigned layer = 10U - (device.has(gpu::Kernel::norm_matvec_q8) ? 3U : 0U) -
                         (device.has(gpu::Kernel::attend_one) ? 2U : 0U);
  EXPECT_EQ(dispatches, 28U * layer + 5U);
  StageCounter counter;
  step(&counter);
  EXPECT_EQ(counter.stages, 507U);
}

#ifndef INFERNO_SANITIZED
/// The shape of the real one: its head is larger than lavapipe binds at once.
TEST(VulkanStep, EqualsTheCpuInTheShapeOfQwen3) {
  if (const auto reason = no_room_for_large_model(); !reason.empty()) GTEST_SKIP() << reason;
  const TemporaryFile file;
  synthesize(SynthOptions(), file.path());  // 0.6B
  const LoadedModel model(file.path());
  const auto executor = make(model);
  const auto simd = create_executor("simd", model);
  const auto ids = random_ids(3, model.config.vocab_size, 5);
  EXPECT_EQ(run_rows(*executor, model, {ids}, 3), run_rows(*simd, model, {ids}, 3)) << "prompt";
  const auto greedy = [&ids](Executor& on) {
    on.reserve(
        {.max_rows = 1, .max_tokens = 4, .max_outputs = 2, .max_context = 64, .block_size = 64, .blocks = 1});
    StepBatch batch;
    std::vector<TokenInput> inputs;
    for (const auto id : ids) inputs.push_back(TokenInput::of(id));
    Ids chosen;
    std::uint32_t position = 0;
    for (int step = 0; step < 3; ++step) {
      batch.clear();
      batch.add_row(inputs, position, {0});
      batch.add_output(OutputKind::token);
      chosen.push_back(on.wait(on.submit(batch)).ids.at(0).at(0));
      position += static_cast<std::uint32_t>(inputs.size());
      inputs = {TokenInput::of(chosen.back())};
    }
    return chosen;
  };
  EXPECT_EQ(greedy(*executor), greedy(*simd));
}
#endif

constexpr Limits kTwoRows{.max_rows = 2, .max_steps = 8, .max_context = 256, .block_size = 64, .blocks = 8};

StepBatch two_rows() {
  StepBatch batch;
  batch.add_row({TokenInput::of(3)}, 0, {0, 1});
  batch.add_output(OutputKind::token);
  batch.add_row({TokenInput::of(99)}, 0, {2, 3});
  batch.add_output(OutputKind::token);
  return batch;
}

/// K steps are one submission, one wait, and one read of K ids for each row.
TEST(VulkanStep, AsksTheDeviceOncePerChain) {
  const LoadedModel model(shipped_model());
  const auto executor = make(model);
  const auto simd = create_executor("simd", model);
  const StepBatch batch = two_rows();
  SubmitOptions options;
  options.max_steps = 8;
  simd->reserve(kTwoRows);
  const auto expected = simd->wait(simd->submit(batch, options));
  executor->reserve(kTwoRows);
  executor->wait(executor->submit(batch, options));  // records
  const auto before = executor->device().counters();
  const auto result = executor->wait(executor->submit(batch, options));
  const auto& after = executor->device().counters();
  EXPECT_EQ(result.ids, expected.ids);
  EXPECT_EQ(result.steps, 8U);
  EXPECT_EQ(after.submissions - before.submissions, 1U);
  EXPECT_EQ(after.waits - before.waits, 1U);
  EXPECT_EQ(after.bytes_read - before.bytes_read, 8U * 2U * 4U);
  EXPECT_EQ(after.allocations - before.allocations, 0U);
  EXPECT_EQ(after.dispatches - before.dispatches, result.dispatches);
}

/// The first row chooses its stop id in the third step: the other goes on, and nothing more of the first is
/// stored.
TEST(VulkanStep, HeedsStopIdsWithinAChain) {
  const LoadedModel model(shipped_model());
  const StepBatch batch = two_rows();
  SubmitOptions options;
  options.max_steps = 8;
  const auto run = [&](Executor& executor, const StopIds& stop_ids) {
    executor.reserve(kTwoRows);
    options.stop_ids = stop_ids;
    auto result = executor.wait(executor.submit(batch, options));
    return std::pair(std::move(result), executor.export_blocks(std::vector<std::uint32_t>{0, 1, 2, 3}));
  };
  const auto executor = make(model);
  const auto simd = create_executor("simd", model);
  const auto free = run(*simd, {}).first;
  const StopIds stop_ids{{free.ids[0][2]}, {0, 1, 1}};
  const auto [expected, expected_cache] = run(*simd, stop_ids);
  const auto [result, cache] = run(*executor, stop_ids);
  EXPECT_EQ(result.ids, expected.ids);
  EXPECT_EQ(result.status, expected.status);
  EXPECT_EQ(cache, expected_cache);
}

/// Memory that cannot be had is said in one line, wherever that is, and leaves nothing behind.
TEST(VulkanStep, SurvivesEveryFailedAllocation) {
  if (!fault::kCompiledIn) GTEST_SKIP() << "this build has no fault switches (INFERNO_FAULTS)";
  const TemporaryFile file{RandomModel{}};
  const LoadedModel model(file.path());
  int failures = 0;
  for (int k = 1; k < 200; ++k) {
    fault::arm(fmt::format("alloc:{}", k));
    try {
      const auto executor = make(model);
      executor->reserve(
          {.max_tokens = 16, .max_outputs = 16, .max_context = 64, .block_size = 16, .blocks = 4});
      break;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("bytes"));
      ++failures;
    }
  }
  fault::arm("");
  EXPECT_GT(failures, 20);
  EXPECT_LT(failures, 199) << "the last attempt was to succeed";
}

/// Core and synchronization validation have nothing to say about prompts, batches, chains and moving blocks,
/// with whatever kernels.
TEST(VulkanStep, ValidationLayersAreSilent) {
  // Stays, so that LeakSanitizer can tell whose leaks these are: see below.
  dlopen("libVkLayer_khronos_validation.so", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  const TemporaryFile file{RandomModel{}};
  const LoadedModel model(file.path());
  for (const bool integer_dot : {false, true}) {
    const auto executor = make(model, {.integer_dot = integer_dot, .validation = true});
    const auto ids = random_ids(20, model.config.vocab_size, 5);
    run_rows(*executor, model, {ids, ids}, 20);
    run_rows(*executor, model, {ids}, 1);
    executor->reserve({.max_steps = 4, .max_context = 256, .block_size = 64, .blocks = 4});
    StepBatch batch;
    batch.add_row({TokenInput::of(3)}, 0, {0, 1});
    batch.add_output(OutputKind::token);
    SubmitOptions options;
    options.max_steps = 4;
    executor->wait(executor->submit(batch, options));
    executor->copy_blocks(std::vector<BlockCopy>{{0, 2}});
    executor->import_blocks(std::vector<std::uint32_t>{1},
                            executor->export_blocks(std::vector<std::uint32_t>{2}));
    StageCounter counter;
    options = {};
    options.observer = &counter;
    executor->wait(executor->submit(batch, options));
  }
  EXPECT_EQ(vulkan::validation_messages(), 0U);
}

/// Products asked for one by one give the same bits as well.
TEST(Hybrid, EqualsTheCpu) {
  const LoadedModel model(shipped_model());
  const auto ids = random_ids(40, model.config.vocab_size, 5);
  const auto simd = create_executor("simd", model);
  const auto hybrid = create_executor("hybrid", model, {.device = 0, .threads = 2});
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{16}, std::size_t{40}}) {
    EXPECT_EQ(run_rows(*hybrid, model, {ids}, chunk), run_rows(*simd, model, {ids}, chunk)) << chunk;
  }
}

TEST(VulkanStep, RefusesScalesThatAreNotFinite) {
  expect_spoilt_weights_are_refused([](const LoadedModel& model) { make(model); });
}

/// A block that one contract backend wrote is read by another: the same bits go on.
TEST(VulkanStep, ExchangesCacheBlocksWithTheCpu) {
  const LoadedModel model(shipped_model());
  expect_blocks_move(*create_executor("simd", model), *make(model), model);
}

}  // namespace
}  // namespace inferno::test
