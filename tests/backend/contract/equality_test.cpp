// One arithmetic: every contract executor gives the same bits as the plain reference, whatever kernels and
// threads it has, however the prompt is cut and whoever else is in the batch.

#include <algorithm>
#include <gtest/gtest.h>
#include <iostream>

#include "../runner.hpp"
#include "backend/cpu/contract/executor.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "backend/registry.hpp"
#include "support/random_model.hpp"

namespace inferno::test {
namespace {

class Equality : public testing::TestWithParam<const char*> {
 protected:
  LoadedModel model_{model_path(GetParam())};
  std::size_t length_ = std::string(GetParam()) == "tale" ? 70 : 300;  // odd models: more than one split
  Ids ids_ = random_ids(length_, model_.config.vocab_size, 11);
  Logits expected_ = [this] {
    const auto reference = create_executor("reference", model_);
    return run_rows(*reference, model_, {ids_}, length_);
  }();

  std::unique_ptr<Executor> make(const cpu::KernelSet& kernels, unsigned threads) const {
    return std::make_unique<cpu::CpuExecutor>("test", model_, kernels,
                                              cpu::make_pool_policy(threads, threads));
  }
};

TEST_P(Equality, OfEveryKernelSet) {
  for (const auto* kernels : cpu::kernel_sets()) {
    if (!kernels->supported()) {
      std::cout << "skipped: " << kernels->name << " needs " << kernels->needs << "\n";
      continue;
    }
    const auto executor = make(*kernels, 1);
    EXPECT_EQ(run_rows(*executor, model_, {ids_}, length_), expected_) << kernels->name;
  }
}

TEST_P(Equality, AtAnyThreadCount) {
  for (const unsigned threads : {1U, 2U, 3U, 7U, 64U}) {
    const auto executor = make(cpu::best_kernel_set(), threads);
    EXPECT_EQ(run_rows(*executor, model_, {ids_}, length_), expected_) << threads;
    const auto spawning = create_executor("parallel", model_, {.device = 0, .threads = threads});
    EXPECT_EQ(run_rows(*spawning, model_, {ids_}, length_), expected_) << threads << ", spawned";
  }
}

TEST_P(Equality, HoweverThePromptIsCut) {
  const auto executor = make(cpu::best_kernel_set(), 2);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{3}, std::size_t{16}, std::size_t{512}}) {
    EXPECT_EQ(run_rows(*executor, model_, {ids_}, chunk), expected_) << chunk;
  }
}

TEST_P(Equality, InAnyCompany) {
  const auto executor = make(cpu::best_kernel_set(), 2);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{16}}) {
    EXPECT_EQ(run_rows(*executor, model_, std::vector<Ids>(8, ids_), chunk), expected_)
        << "8 equal, chunk " << chunk;
    std::vector<Ids> rows = {ids_};
    for (std::uint64_t seed = 1; seed < 8; ++seed)
      rows.push_back(random_ids(length_, model_.config.vocab_size, seed));
    EXPECT_EQ(run_rows(*executor, model_, rows, chunk), expected_) << "8 different, chunk " << chunk;
  }
}

TEST_P(Equality, InBlocksOfAnySize) {
  const auto executor = make(cpu::best_kernel_set(), 2);
  for (const std::uint32_t block_size : {1U, 2U, 16U, 128U, 256U}) {
    EXPECT_EQ(run_rows(*executor, model_, {ids_}, 64, block_size), expected_) << block_size;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Equality,
                         testing::Values("tale", "odd-mqa-q8_0", "odd-tied-f16", "odd-group3-f32"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Formats mixed within a layer, so that one input is needed quantized and as floats at once.
TEST(MixedFormats, AreEqual) {
  const TemporaryFile file(mixed_formats());
  const LoadedModel model(file.path());
  const auto ids = random_ids(40, model.config.vocab_size, 3);
  const auto reference = create_executor("reference", model);
  const auto expected = run_rows(*reference, model, {ids}, 40);
  for (const auto* kernels : cpu::kernel_sets()) {
    if (!kernels->supported()) continue;
    cpu::CpuExecutor executor("test", model, *kernels, cpu::make_pool_policy(2, 2));
    EXPECT_EQ(run_rows(executor, model, {ids}, 7), expected) << kernels->name;
  }
}

/// A scale that is not finite would make kernels differ: such a file is refused by tensor and row.
TEST(SpoiltWeights, AreRefusedByName) {
  expect_spoilt_weights_are_refused([](const LoadedModel& model) { create_executor("pool", model); });
}

/// Blocks that one contract backend wrote are read by another: the same bits go on.
TEST(ExportedBlocks, MoveBetweenContractBackends) {
  const LoadedModel model(shipped_model());
  expect_blocks_move(*create_executor("reference", model), *create_executor("pool", model), model);
}

}  // namespace
}  // namespace inferno::test
