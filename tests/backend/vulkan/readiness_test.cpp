// What an executor says and does before its first step holds for all that follow: kernels are compiled,
// memory is what it was said to be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backends.hpp"
#include "backend/gpu/executor.hpp"
#include "backend/gpu/hybrid_products.hpp"
#include "backend/runner.hpp"
#include "backend/vulkan/test_device.hpp"
#include "backend/vulkan/watching_device.hpp"
#include "step/slots.hpp"
#include "support/random_model.hpp"

namespace inferno::test {
namespace {

using gpu::Kernel;

std::set<std::string_view> names(const std::set<Kernel>& kernels) {
  std::set<std::string_view> result;
  for (const Kernel kernel : kernels) result.insert(gpu::kernel_name(kernel));
  return result;
}

/// Every way of making a step: long and short prompts, companions, chains, sampling, an observer.
void run_everything(Executor& executor, const LoadedModel& model) {
  const auto ids = random_ids(40, model.config.vocab_size, 7);
  for (const std::size_t chunk : {std::size_t{40}, std::size_t{5}, std::size_t{1}}) {
    run_rows(executor, model, {ids, ids}, chunk);
    run_rows(executor, model, {ids}, chunk);
  }
  class Observer : public StageObserver {
  } observer;
  executor.reserve({.max_steps = 4, .max_context = 256, .block_size = 64, .blocks = 4});
  for (const float temperature : {0.0F, 1.0F}) {
    SlotState slot;
    slot.settings.temperature = temperature;
    executor.set_slot(0, slot);
    StepBatch batch;
    batch.add_row({TokenInput::of(3)}, 0, {0, 1}, 0);
    batch.add_output(OutputKind::token);
    SubmitOptions options;
    executor.wait(executor.submit(batch, options));
    options.max_steps = 4;
    executor.wait(executor.submit(batch, options));
    options = {};
    options.observer = &observer;
    executor.wait(executor.submit(batch, options));
  }
}

class Readiness : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<TemporaryFile> mixed_ =
      GetParam() == "mixed" ? std::make_unique<TemporaryFile>(mixed_formats()) : nullptr;
  LoadedModel model_{mixed_ ? mixed_->path() : model_path(GetParam())};
  Watched watched_;

  std::unique_ptr<gpu::Device> device(const TestDeviceOptions& options = {}) {
    return std::make_unique<WatchingDevice>(open_test_device(options), watched_);
  }
};

TEST_P(Readiness, EveryKernelIsCompiledBeforeTheFirstStep) {
  for (const std::uint64_t max_range : {std::uint64_t{0}, std::uint64_t{1} << 20U}) {
    watched_ = {};
    gpu::GpuExecutor executor("vulkan", model_, device({.max_range = max_range}));
    const auto prepared = watched_.prepared;
    run_everything(executor, model_);
    EXPECT_GT(watched_.recorded.size(), 8U);
    EXPECT_THAT(names(watched_.recorded), testing::IsSubsetOf(names(prepared)));
  }
}

TEST_P(Readiness, EveryKernelOfHybridToo) {
  auto products = std::make_unique<gpu::HybridProducts>(model_, device());
  const auto prepared = watched_.prepared;
  const auto executor = cpu::create_hybrid("hybrid", model_, {.threads = 2}, std::move(products)).executor;
  run_everything(*executor, model_);
  EXPECT_THAT(names(watched_.recorded), testing::IsSubsetOf(names(prepared)));
}

INSTANTIATE_TEST_SUITE_P(Models, Readiness,
                         testing::Values("tale", "odd-mqa-q8_0", "odd-tied-f16", "odd-group3-f32", "mixed"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// One that the driver refuses is found out when the offer is made.
TEST(Ready, ARefusedKernelIsFoundOutAtOnce) {
  const TemporaryFile file{mixed_formats()};
  const LoadedModel model(file.path());
  for (const Kernel kernel : {Kernel::norm, Kernel::advance, Kernel::matvec_q8}) {
    Watched watched;
    watched.refused = kernel;
    auto device = std::make_unique<WatchingDevice>(open_test_device(), watched);
    EXPECT_THROW(gpu::GpuExecutor("vulkan", model, std::move(device)), Error) << gpu::kernel_name(kernel);
  }
}

TEST(Ready, FreeMemoryIsWhatTheDeviceDoesNotHold) {
  const auto device = open_test_device({.memory_budget = false});
  const auto all = device->free_bytes();
  EXPECT_LE(all, device->capabilities().memory_bytes);
  {
    const auto buffer = device->create_buffer(std::uint64_t{10} << 20U, gpu::Memory::device, "a test");
    EXPECT_LE(device->free_bytes(), all - buffer->bytes());
    EXPECT_GT(device->free_bytes(), all - 2 * buffer->bytes());
  }
  EXPECT_EQ(device->free_bytes(), all);
}

/// What `reserve` takes is what was said: neither is counted by another list than the other.
TEST(Ready, MemoryNeedIsWhatIsTaken) {
  const TemporaryFile odd{mixed_formats()};
  for (const auto& path : {shipped_model(), odd.path(), model_path("odd-group3-f32")}) {
    const LoadedModel model(path);
    gpu::GpuExecutor executor("vulkan", model, open_test_device({.memory_budget = false}));
    const gpu::Device& device = executor.device();
    if (!device.capabilities().unified_memory) GTEST_SKIP() << "some of it is the host's memory";
    const auto before = device.free_bytes();
    for (const Limits& limits :
         {Limits{}, Limits{.max_rows = 1, .max_tokens = 1, .max_outputs = 1, .max_context = 256, .blocks = 1},
          Limits{.max_rows = 7,
          .max_tokens = 33,
          .max_outputs = 40,
          .max_steps = 5,
          .max_context = 900,
          .block_size = 16,
          .blocks = 150,
          .slots = 3},
          Limits{.max_rows = 2,
          .max_tokens = 64,
          .max_outputs = 2,
          .max_context = 4096,
          .blocks = 32,
          .slots = 0}}) {
      const auto need = executor.memory_need(limits);
      const auto allocations = device.counters().allocations;
      executor.reserve(limits);
      const auto count = device.counters().allocations - allocations;
      const auto taken = before - device.free_bytes();
      // The slots' histories are the host's.
      const auto expected =
          need.cache_bytes + need.scratch_bytes - SlotTable::bytes(limits.slots, model.config.vocab_size);
      EXPECT_GE(taken, expected);
      EXPECT_LT(taken, expected + count * gpu::kOffsetAlignment);
    }
  }
}

/// As many blocks as are said to have room have it.
TEST(Ready, RoomForBlocksIsRoom) {
  const LoadedModel model(shipped_model());
  constexpr std::uint64_t kRange = std::uint64_t{4} << 20U;
  gpu::GpuExecutor executor("vulkan", model, open_test_device({.max_range = kRange}));
  Limits limits{.max_context = 256, .block_size = 16, .blocks = 1};
  const BlockRoom room = executor.block_room(limits);
  EXPECT_THAT(room.bound, testing::HasSubstr("binds at most 4194304 bytes"));
  limits.blocks = static_cast<std::uint32_t>(room.blocks);
  executor.reserve(limits);
  ++limits.blocks;
  EXPECT_THROW(executor.reserve(limits), Error);
}

}  // namespace
}  // namespace inferno::test
