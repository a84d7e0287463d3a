// One arithmetic in the shape of the real Qwen3-0.6B: 28 layers, 151,936 rows in the head. The other tests of
// equality have models that are small enough to try more.

#include <gtest/gtest.h>
#include <memory>

#include "backend/cpu/contract/executor.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "backend/registry.hpp"
#include "backend/runner.hpp"
#include "support/temporary_folder.hpp"
#include "synth/synth.hpp"

namespace inferno::test {
namespace {

TEST(LargeModel, GivesTheSameBitsOnEveryKernelSetThreadCountChunkAndInCompany) {
  if (const auto reason = no_room_for_large_model(); !reason.empty()) GTEST_SKIP() << reason;
  const TemporaryFolder folder;
  const auto path = folder / "0.6b.gguf";
  SynthOptions options;
  options.preset = "0.6b";
  synthesize(options, path);
  const LoadedModel model(path);
  constexpr std::size_t kLength = 9;
  const auto ids = random_ids(kLength, model.config.vocab_size, 11);
  const auto expected = [&] {
    const auto reference = create_executor("reference", model);
    return run_rows(*reference, model, {ids}, kLength);
  }();

  for (const auto* kernels : cpu::kernel_sets()) {
    if (!kernels->supported()) continue;
    cpu::CpuExecutor executor("test", model, *kernels, cpu::make_pool_policy(2, 2));
    EXPECT_EQ(run_rows(executor, model, {ids}, kLength), expected) << kernels->name;
  }
  for (const unsigned threads : {1U, 2U, 3U, 7U, 64U}) {
    cpu::CpuExecutor pool("test", model, cpu::best_kernel_set(), cpu::make_pool_policy(threads, threads));
    EXPECT_EQ(run_rows(pool, model, {ids}, 4), expected) << threads << " threads";
    cpu::CpuExecutor parallel("test", model, cpu::best_kernel_set(), cpu::make_spawning_policy(threads));
    EXPECT_EQ(run_rows(parallel, model, {ids}, kLength), expected) << threads << " threads, spawned";
  }
  const auto simd = create_executor("simd", model);
  EXPECT_EQ(run_rows(*simd, model, {ids}, 1), expected) << "one by one";
  EXPECT_EQ(run_rows(*simd, model, std::vector<Ids>(8, ids), 3), expected) << "8 equal";
  std::vector<Ids> rows = {ids};
  for (std::uint64_t seed = 1; seed < 8; ++seed)
    rows.push_back(random_ids(kLength, model.config.vocab_size, seed));
  EXPECT_EQ(run_rows(*simd, model, rows, 1), expected) << "8 different";
}

}  // namespace
}  // namespace inferno::test
