// One arithmetic: every contract executor gives the same bits as the plain reference, whatever kernels and
// threads it has, however the prompt is cut and whoever else is in the batch.

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>

#include "../runner.hpp"
#include "backend/cpu/contract/executor.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "backend/registry.hpp"
#include "support/random_model.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using Ids = std::vector<std::int32_t>;

/// One sequence in any number of equal or different companions, chunk by chunk; the logits of every position
/// of row 0.
Logits run(Executor& executor, const LoadedModel& model, const std::vector<Ids>& rows, std::size_t chunk,
           std::uint32_t block_size = 64) {
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

std::filesystem::path model_path(const std::string& name) {
  return name == "tale" ? shipped_model() : golden(name + ".gguf");
}

class Equality : public testing::TestWithParam<const char*> {
 protected:
  LoadedModel model_{model_path(GetParam())};
  std::size_t length_ = std::string(GetParam()) == "tale" ? 70 : 300;  // odd models: more than one split
  Ids ids_ = random_ids(length_, model_.config.vocab_size, 11);
  Logits expected_ = [this] {
    const auto reference = create_executor("reference", model_);
    return run(*reference, model_, {ids_}, length_);
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
    EXPECT_EQ(run(*executor, model_, {ids_}, length_), expected_) << kernels->name;
  }
}

TEST_P(Equality, AtAnyThreadCount) {
  for (const unsigned threads : {1U, 2U, 3U, 7U, 64U}) {
    const auto executor = make(cpu::best_kernel_set(), threads);
    EXPECT_EQ(run(*executor, model_, {ids_}, length_), expected_) << threads;
  }
  const auto spawning = create_executor("parallel", model_, {.device = 0, .threads = 3});
  EXPECT_EQ(run(*spawning, model_, {ids_}, length_), expected_);
}

TEST_P(Equality, HoweverThePromptIsCut) {
  const auto executor = make(cpu::best_kernel_set(), 2);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{3}, std::size_t{16}, std::size_t{512}}) {
    EXPECT_EQ(run(*executor, model_, {ids_}, chunk), expected_) << chunk;
  }
}

TEST_P(Equality, InAnyCompany) {
  const auto executor = make(cpu::best_kernel_set(), 2);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{16}}) {
    EXPECT_EQ(run(*executor, model_, std::vector<Ids>(8, ids_), chunk), expected_)
        << "8 equal, chunk " << chunk;
    std::vector<Ids> rows = {ids_};
    for (std::uint64_t seed = 1; seed < 8; ++seed)
      rows.push_back(random_ids(length_, model_.config.vocab_size, seed));
    EXPECT_EQ(run(*executor, model_, rows, chunk), expected_) << "8 different, chunk " << chunk;
  }
}

TEST_P(Equality, InBlocksOfAnySize) {
  const auto executor = make(cpu::best_kernel_set(), 2);
  for (const std::uint32_t block_size : {1U, 2U, 16U, 128U, 256U}) {
    EXPECT_EQ(run(*executor, model_, {ids_}, 64, block_size), expected_) << block_size;
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
  const TemporaryFile file(random);
  const LoadedModel model(file.path());
  const auto ids = random_ids(40, model.config.vocab_size, 3);
  const auto reference = create_executor("reference", model);
  const auto expected = run(*reference, model, {ids}, 40);
  for (const auto* kernels : cpu::kernel_sets()) {
    if (!kernels->supported()) continue;
    cpu::CpuExecutor executor("test", model, *kernels, cpu::make_pool_policy(2, 2));
    EXPECT_EQ(run(executor, model, {ids}, 7), expected) << kernels->name;
  }
}

/// A scale that is not finite would make kernels differ: such a file is refused by tensor and row.
TEST(SpoiltWeights, AreRefusedByName) {
  RandomModel random;
  random.formats = {{"blk.1.ffn_up.weight", quant::TensorType::q8_0}};
  const TemporaryFile file(random);
  std::size_t offset = 0;
  {
    const LoadedModel whole(file.path());
    const auto& matrix = whole.weights.layers[1].up;
    const auto all = read_file(file.path());
    const std::string row(reinterpret_cast<const char*>(matrix.row(17)), matrix.row_bytes());
    offset = all.find(row);
    ASSERT_NE(offset, std::string::npos);
  }
  {
    std::fstream bytes(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(offset));
    bytes.write("\x00\x7C", 2);  // infinity as a float16
  }
  const LoadedModel model(file.path());
  try {
    create_executor("pool", model);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("blk.1.ffn_up.weight"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("row 17"), std::string::npos) << error.what();
  }
}

/// Blocks that one contract backend wrote are read by another: the same bits go on.
TEST(ExportedBlocks, MoveBetweenContractBackends) {
  const LoadedModel model(shipped_model());
  const auto ids = random_ids(40, model.config.vocab_size, 5);
  const auto reference = create_executor("reference", model);
  const auto expected = run(*reference, model, {ids}, 40, 16);
  const auto exported = reference->export_blocks(std::vector<std::uint32_t>{0, 1});
  const auto pool = create_executor("pool", model);
  run(*pool, model, {ids}, 40, 16);
  EXPECT_EQ(pool->export_blocks(std::vector<std::uint32_t>{0, 1}), exported);
  pool->import_blocks(std::vector<std::uint32_t>{2, 0}, exported);
  StepBatch batch;
  std::vector<TokenInput> rest;
  for (std::size_t i = 32; i < 40; ++i) rest.push_back(TokenInput::of(ids[i]));
  batch.add_row(rest, 32, {2, 0, 1});
  batch.add_output(OutputKind::logits);
  const auto result = pool->wait(pool->submit(batch, {}));
  EXPECT_EQ(result.values[0], expected.back());
}

}  // namespace
}  // namespace inferno::test
