#include <gtest/gtest.h>
#include <random>

#include "backend/runner.hpp"
#include "support/random_model.hpp"

namespace inferno {
namespace {

using test::RandomModel;
using test::Runner;
using test::TemporaryFile;

/// Several sequences of different lengths, fed in random chunks in batches of random company, with more
/// outputs than one piece of the head holds: each gets the bits that it gets alone.
TEST(Invariance, CompanyChunksAndBlocksChangeNoBit) {
  RandomModel model;
  model.tied_head = false;
  model.matrix_format = quant::TensorType::q8_0;
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());

  constexpr std::uint32_t kRows = 5;
  constexpr std::uint32_t kBlock = 4;
  constexpr std::uint32_t kContext = 80;
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<test::Logits> alone;
  for (std::uint32_t row = 0; row < kRows; ++row) {
    ids.push_back(test::random_ids(20 + 13 * row, 100, row));
    alone.push_back(Runner(loaded).logits(ids[row], ids[row].size()));
  }

  Runner runner(loaded);  // for its executor only
  Limits limits;
  limits.max_rows = kRows;
  limits.max_tokens = 400;
  limits.max_outputs = 400;
  limits.max_context = kContext;
  limits.block_size = kBlock;
  limits.blocks = kRows * kContext / kBlock;
  runner.executor().reserve(limits);
  std::mt19937 random(7);
  std::vector<std::uint32_t> order(limits.blocks);
  for (std::uint32_t i = 0; i < limits.blocks; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);

  std::vector<test::Logits> together(kRows);
  while (true) {
    StepBatch batch;
    std::vector<std::uint32_t> row_of_output;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const std::size_t done = together[row].size();
      const std::size_t left = ids[row].size() - done;
      const std::size_t count = std::min<std::size_t>(left, random() % 25);
      if (count == 0) continue;
      std::vector<TokenInput> tokens;
      for (std::size_t i = 0; i < count; ++i) tokens.push_back(TokenInput::of(ids[row][done + i]));
      const auto first = order.begin() + row * (kContext / kBlock);
      batch.add_row(tokens, static_cast<std::uint32_t>(done), {first, first + kContext / kBlock});
      for (std::uint32_t i = 0; i < count; ++i) {
        batch.add_output_at(i, OutputKind::logits);
        row_of_output.push_back(row);
      }
    }
    if (batch.rows() == 0) {
      bool all = true;
      for (std::uint32_t row = 0; row < kRows; ++row) all = all && together[row].size() == ids[row].size();
      if (all) break;
      continue;
    }
    auto result = runner.executor().wait(runner.executor().submit(batch));
    for (std::size_t i = 0; i < row_of_output.size(); ++i) {
      together[row_of_output[i]].push_back(std::move(result.values[i]));
    }
  }
  for (std::uint32_t row = 0; row < kRows; ++row) EXPECT_TRUE(together[row] == alone[row]) << row;
}

/// Hidden states and logits asked of the same and of other tokens, in one batch.
TEST(Invariance, OutputsDoNotDependOnWhatElseIsAsked) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  const auto ids = test::random_ids(40, 100, 5);
  const auto alone = Runner(loaded).logits(ids, 40);
  Runner runner(loaded);
  StepBatch batch;
  std::vector<TokenInput> tokens;
  for (const auto id : ids) tokens.push_back(TokenInput::of(id));
  batch.add_row(tokens, 0, runner.blocks());
  for (std::uint32_t i = 0; i < 40; ++i) {
    if (i % 3 != 1) batch.add_output_at(i, OutputKind::hidden);
    if (i % 3 != 0) batch.add_output_at(i, OutputKind::logits);
  }
  const auto result = runner.executor().wait(runner.executor().submit(batch));
  for (std::size_t i = 0; i < batch.outputs.size(); ++i) {
    const Output& output = batch.outputs[i];
    if (output.kind == OutputKind::logits) {
      EXPECT_EQ(result.values[i], alone[output.token]) << i;
    } else {
      EXPECT_EQ(result.values[i].size(), 64U);
    }
  }
}

/// A weight that is not a number spoils the rows that use it and no others.
TEST(Invariance, ABrokenEmbeddingRowFailsItsRowAlone) {
  RandomModel model;
  model.tied_head = false;
  model.change = [](const std::string& name, std::vector<float>& values) {
    if (name == "token_embd.weight") values[64 * 7] = std::numeric_limits<float>::quiet_NaN();
  };
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  Runner runner(loaded);
  Limits limits = runner.executor().limits();
  limits.max_rows = 2;
  runner.executor().reserve(limits);
  StepBatch batch;
  batch.add_row({TokenInput::of(7)}, 0, {0});
  batch.add_output(OutputKind::token);
  batch.add_row({TokenInput::of(8)}, 0, {1});
  batch.add_output(OutputKind::token);
  const auto result = runner.executor().wait(runner.executor().submit(batch));
  EXPECT_EQ(result.status[0], RowStatus::failed);
  EXPECT_FALSE(result.errors[0].empty());
  EXPECT_EQ(result.status[1], RowStatus::ok);
  const std::vector<std::int32_t> other = {8};
  EXPECT_EQ(result.ids[1], Runner(loaded).greedy(other, 1, 1));
}

}  // namespace
}  // namespace inferno
