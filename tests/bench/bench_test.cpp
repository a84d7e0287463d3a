#include "bench/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>

#include <inferno/error.hpp>

#include "backend/registry.hpp"
#include "bench/device_machine.hpp"
#include "bench/ladder.hpp"
#include "bench/report.hpp"
#include "engine/trace.hpp"
#include "support/forwarding_executor.hpp"
#include "support/random_model.hpp"

namespace inferno::bench {
namespace {

using ::testing::HasSubstr;

/// Keeps what was submitted.
class Recorder : public test::ForwardingExecutor {
 public:
  using ForwardingExecutor::ForwardingExecutor;

  Ticket submit(const StepBatch& batch, const SubmitOptions& options) override {
    batches.push_back(batch);
    return ForwardingExecutor::submit(batch, options);
  }
  StepResult wait(Ticket ticket) override {
    auto result = ForwardingExecutor::wait(ticket);
    result.dispatches = dispatches_per_submission;
    return result;
  }
  void copy_blocks(std::span<const BlockCopy> copies) override {
    copied += copies.size();
    ForwardingExecutor::copy_blocks(copies);
  }

  std::vector<StepBatch> batches;
  std::size_t copied = 0;
  std::uint64_t dispatches_per_submission = 0;
};

constexpr std::uint32_t kContext = 600;
constexpr std::uint32_t kLayers = 2;
constexpr std::uint32_t kKvWidth = 64;

/// A machine that is the same every time.
struct FixedMachine : Machine {
  double read_gb_per_second() override { return 10; }
  MachineLimits limits() override {
    MachineLimits limits;
    limits.read_gb_per_second = 10;
    limits.int8_gops = 800;
    limits.fp32_gflops = 200;
    return limits;
  }
};

class BenchTest : public ::testing::Test {
 protected:
  static test::RandomModel shape() {
    test::RandomModel model;
    model.context_length = kContext;
    return model;
  }

  Result bench(const Workload& workload) { return bench(workload, machine_); }
  Result bench(const Workload& workload, Machine& machine) {
    prepare(model_, recorder_, workload);
    return run(model_, recorder_, workload, machine);
  }
  std::string refusal(const Workload& workload) {
    try {
      bench(workload);
    } catch (const UsageError& error) {
      EXPECT_TRUE(recorder_.batches.empty()) << "refused only after work was done";
      return error.what();
    }
    return "nothing was refused";
  }

  test::TemporaryFile file_{shape()};
  LoadedModel model_{file_.path()};
  Recorder recorder_{create_executor("scalar", model_)};
  FixedMachine machine_;
};

/// A device that is the same every time.
struct FixedMeter : DeviceMeter {
  double read_gb_per_second() override { return 4000; }
  DeviceLimits limits() override {
    return {.buffer_bytes = 1024,
            .read_gb_per_second = 4000,
            .int8_gops = 100000,
            .fp32_gflops = 50000,
            .int8_kernel = "some",
            .fp32_kernel = "others"};
  }
};

TEST_F(BenchTest, ADeviceIsItsOwnMachine) {
  const Workload workload{.prompt = 20, .gen = 4, .repeats = 1};
  DeviceMachine device(std::make_unique<FixedMeter>());
  const auto measured = bench(workload, device);
  const auto json = to_json(measured);
  EXPECT_EQ(json.at("machine").at("read_gb_per_second"), 4000);
  EXPECT_EQ(json.at("machine").at("fp32_gflops"), 50000);
  EXPECT_EQ(json.at("machine").at("threads"), 0);
  EXPECT_DOUBLE_EQ(measured.decode_share, measured.decode_gb_per_second / 4000);
  EXPECT_THAT(to_text(measured), HasSubstr("machine  the device: read 4000.0 GB/s"));
}

TEST_F(BenchTest, WhatIsNotKnownOfADeviceIsNotCompared) {
  DeviceMachine device(nullptr);
  const auto unknown = bench({.prompt = 20, .gen = 4, .repeats = 1}, device);
  EXPECT_GT(unknown.decode_tokens_per_second.median, 0);
  const auto json = to_json(unknown);
  EXPECT_TRUE(json.at("machine").at("read_gb_per_second").is_null());
  EXPECT_TRUE(json.at("decode_share").is_null());
  EXPECT_TRUE(json.at("prefill_share").is_null());
  const auto text = to_text(unknown);
  EXPECT_THAT(text, HasSubstr("whose limits this backend cannot measure"));
  EXPECT_EQ(text.find('%'), std::string::npos);
}

TEST_F(BenchTest, JsonHasTheFixedFieldsAndTheirArithmetic) {
  const auto json = to_json(bench({.rows = 3, .prompt = 20, .gen = 6, .depth = 30, .repeats = 3}));
  EXPECT_EQ(json.at("backend"), "scalar");
  EXPECT_FALSE(json.at("device").get<std::string>().empty());
  EXPECT_EQ(json.at("model"), model_.config.name);
  EXPECT_EQ(json.at("rows"), 3);
  EXPECT_EQ(json.at("machine").at("read_gb_per_second"), 10);
  EXPECT_EQ(json.at("machine").at("int8_gops"), 800);
  EXPECT_EQ(json.at("machine").at("fp32_gflops"), 200);
  EXPECT_EQ(json.at("submissions_per_token"), 1);
  EXPECT_EQ(json.at("stages_per_token"), 18 * kLayers + 3);
  EXPECT_EQ(json.at("dispatches_per_token"), 18 * kLayers + 3);

  // By hand: hidden 64, ffn 96, query 128, K/V 64 wide, 100 tokens, all F32, tied head.
  constexpr double kMatrices = 64 * 128 + 2 * 64 * 64 + 128 * 64 + 3 * 64 * 96;
  constexpr double kWeights = kLayers * (kMatrices + 2 * 64 + 2 * 32) + 64 + 100 * 64;
  EXPECT_EQ(json.at("weight_bytes_per_step"), kWeights * 4);
  // Positions 30 .. 35 see 31 .. 36 positions, in three rows; keys and values of two layers.
  constexpr double kCache = 3 * 33.5 * 2 * kLayers * kKvWidth * 4;
  EXPECT_DOUBLE_EQ(json.at("cache_bytes_per_step").get<double>(), kCache);

  const double decode = json.at("decode_tokens_per_second");
  ASSERT_GT(decode, 0);
  EXPECT_NEAR(json.at("decode_share").get<double>(), (kWeights * 4 + kCache) * decode / 3 / 10e9, 1e-12);
  const double prefill = json.at("prefill_tokens_per_second");
  ASSERT_GT(prefill, 0);
  constexpr double kOperations = 2 * (kLayers * kMatrices * 60 + 100 * 64 * 3);
  EXPECT_NEAR(json.at("prefill_share").get<double>(), kOperations * prefill / 60 / 200e9, 1e-12);
  for (const auto* spread : {"prefill_spread", "decode_spread"}) {
    EXPECT_LE(json.at(spread).at("min"), json.at(spread).at("median"));
    EXPECT_LE(json.at(spread).at("median"), json.at(spread).at("max"));
  }
}

TEST_F(BenchTest, BytesAreThoseThatTheStagesReport) {
  const auto result = bench({.prompt = 0, .gen = 1, .depth = 100, .repeats = 1});
  StageTrace trace;
  const auto batch = recorder_.batches.back();  // one decode step at depth 100
  SubmitOptions options;
  options.observer = &trace;
  recorder_.wait(recorder_.submit(batch, options));
  EXPECT_EQ(trace.of(Stage::attention).bytes, result.cache_bytes_per_step);
  std::uint64_t bytes = 0;
  for (int i = 0; i < kStageCount; ++i) bytes += trace.of(static_cast<Stage>(i)).bytes;
  // The head is the embedding here, and the row that the embedding stage reads is part of it.
  bytes -= trace.of(Stage::embedding).bytes + trace.of(Stage::attention).bytes;
  EXPECT_EQ(bytes, result.weight_bytes_per_step);
}

TEST_F(BenchTest, PrefillFeedsAllRowsTogetherInChunks) {
  bench({.rows = 2, .prompt = 10, .gen = 0, .repeats = 1, .prefill_chunk = 8});
  // Four tokens of each row in a submission, warm-up and one repeat.
  ASSERT_EQ(recorder_.batches.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto& batch = recorder_.batches[i];
    EXPECT_EQ(batch.rows(), 2U);
    EXPECT_EQ(batch.positions.front(), 4 * (i % 3));
    EXPECT_EQ(batch.tokens.size(), i % 3 == 2 ? 4U : 8U);
    EXPECT_EQ(batch.outputs.size(), i % 3 == 2 ? 2U : 0U) << "the prompt's end chooses a token for each row";
  }
}

TEST_F(BenchTest, DecodeStartsAtTheDepth) {
  for (const std::uint32_t depth : {0U, 1U, 5U, 300U}) {
    recorder_.batches.clear();
    bench({.rows = 2, .prompt = 5, .gen = 3, .depth = depth, .repeats = 1});
    std::set<std::uint32_t> decoded;
    for (const auto& batch : recorder_.batches) {
      if (batch.tokens.size() == 2 && batch.rows() == 2) decoded.insert(batch.positions.front());
    }
    EXPECT_EQ(decoded, (std::set<std::uint32_t>{depth, depth + 1, depth + 2})) << depth;
  }
}

TEST_F(BenchTest, DepthDefaultsToThePrompt) {
  const auto result = bench({.prompt = 12, .gen = 2, .repeats = 1});
  EXPECT_EQ(to_json(result).at("depth"), 12);
  EXPECT_DOUBLE_EQ(result.cache_bytes_per_step, 13.5 * 2 * kLayers * kKvWidth * 4);
  EXPECT_EQ(recorder_.copied, 0U) << "the prompt has filled the cache already";
}

TEST_F(BenchTest, DeepCachesAreFilledOnceAndCopied) {
  bench({.rows = 3, .prompt = 4, .gen = 2, .depth = 300, .repeats = 4});
  std::size_t filling = 0;
  for (const auto& batch : recorder_.batches) filling += batch.rows() == 1 ? batch.tokens.size() : 0;
  EXPECT_EQ(filling, 300U);
  EXPECT_EQ(recorder_.copied, 2U * 2U) << "two blocks of 256 positions to each of two rows";
}

TEST_F(BenchTest, DecodingFeedsBackWhatWasChosen) {
  bench({.prompt = 0, .gen = 4, .depth = 0, .repeats = 2});
  // Greedy from the same token: every repeat decodes the same ids.
  std::vector<std::vector<std::int32_t>> by_position(4);
  for (const auto& batch : recorder_.batches) {
    by_position.at(batch.positions.front()).push_back(batch.tokens.front().id);
  }
  for (const auto& ids : by_position) {
    EXPECT_GE(ids.size(), 2U);
    EXPECT_EQ(std::set<std::int32_t>(ids.begin(), ids.end()).size(), 1U);
  }
}

TEST_F(BenchTest, ChainedStepsTakeFewerSubmissions) {
  const auto result = bench({.prompt = 0, .gen = 8, .depth = 3, .repeats = 2, .steps_per_submit = 4});
  EXPECT_EQ(result.submissions_per_token, 0.25);
  EXPECT_EQ(result.stages_per_token, 18 * kLayers + 3);
  const auto uneven = bench({.prompt = 0, .gen = 6, .depth = 3, .repeats = 2, .steps_per_submit = 4});
  EXPECT_DOUBLE_EQ(uneven.submissions_per_token, 2.0 / 6);
}

TEST_F(BenchTest, EveryKindOfCache) {
  for (const auto kind : {KvKind::none, KvKind::basic, KvKind::paged}) {
    const auto result = bench({.rows = 2, .prompt = 6, .gen = 3, .repeats = 1, .kv = kind});
    EXPECT_GT(result.decode_tokens_per_second.median, 0) << kv_kind_name(kind);
    EXPECT_GT(result.prefill_tokens_per_second.median, 0) << kv_kind_name(kind);
    EXPECT_EQ(result.cache_bytes_per_step == 0, kind == KvKind::none);
  }
  // Without a cache every step computes the whole sequence.
  recorder_.batches.clear();
  bench({.prompt = 0, .gen = 3, .depth = 7, .repeats = 1, .kv = KvKind::none});
  for (const auto& batch : recorder_.batches) {
    EXPECT_EQ(batch.positions.front(), 0U);
    EXPECT_GE(batch.tokens.size(), 8U);
  }
}

TEST_F(BenchTest, DispatchesAreTheBackendsOwnCount) {
  recorder_.dispatches_per_submission = 7;
  EXPECT_EQ(bench({.prompt = 0, .gen = 2, .depth = 0, .repeats = 1}).dispatches_per_token, 7);
}

TEST_F(BenchTest, WhatIsNotMeasuredIsZero) {
  const auto decode_only = bench({.prompt = 0, .gen = 2, .repeats = 1});
  EXPECT_EQ(decode_only.prefill_tokens_per_second.median, 0);
  EXPECT_EQ(decode_only.prefill_share, 0);
  EXPECT_GT(decode_only.decode_share, 0);
  const auto prefill_only = bench({.prompt = 4, .gen = 0, .repeats = 1});
  EXPECT_GT(prefill_only.prefill_share, 0);
  EXPECT_EQ(prefill_only.decode_tokens_per_second.median, 0);
  EXPECT_EQ(prefill_only.cache_bytes_per_step, 0);
}

TEST_F(BenchTest, LimitsThatDoNotFitAreNamed) {
  EXPECT_THAT(refusal({.prompt = 601, .gen = 0}), HasSubstr("--prompt 601"));
  EXPECT_THAT(refusal({.prompt = 601, .gen = 0}), HasSubstr("600"));
  const auto deep = refusal({.prompt = 1, .gen = 101, .depth = 500});
  EXPECT_THAT(deep, HasSubstr("--gen 101 at depth 500 needs 601 positions"));
  EXPECT_THAT(deep, HasSubstr("the model's context holds 600"));
  EXPECT_THAT(refusal({.prompt = 40, .gen = 30, .context = 64}), HasSubstr("--ctx holds 64"));
  EXPECT_THAT(refusal({.prompt = 1, .gen = 4294967295U, .depth = 4294967295U}), HasSubstr("8589934590"));
  EXPECT_THAT(refusal({.prompt = 0, .gen = 0}), HasSubstr("nothing to measure"));
  EXPECT_THAT(refusal({.rows = 0}), HasSubstr("--rows"));
  EXPECT_THAT(refusal({.repeats = 0}), HasSubstr("--repeats"));
  EXPECT_THAT(refusal({.steps_per_submit = 0}), HasSubstr("--steps-per-submit"));
  EXPECT_THAT(refusal({.prefill_chunk = 0}), HasSubstr("--prefill-chunk"));
  EXPECT_THAT(refusal({.steps_per_submit = 2, .kv = KvKind::none}), HasSubstr("need a cache"));
  recorder_.change_capabilities().multi_step = false;
  EXPECT_THAT(refusal({.steps_per_submit = 2}), HasSubstr("does not chain"));
}

TEST_F(BenchTest, TheWholeContextCanBeUsed) {
  EXPECT_GT(bench({.prompt = 0, .gen = 2, .depth = 598, .repeats = 1}).decode_tokens_per_second.median, 0);
}

TEST_F(BenchTest, TextHasSharesBesideTheFigures) {
  const auto text = to_text(bench({.prompt = 4, .gen = 2, .repeats = 1}));
  EXPECT_THAT(text, HasSubstr("% of 200.0 float GFLOP/s"));
  EXPECT_THAT(text, HasSubstr("% of 10.0 GB/s read"));
}

TEST_F(BenchTest, LadderShowsBackendsSideBySideAndReasonsForTheRest) {
  const std::vector<std::string> backends = {"scalar", "vulkan"};
  const auto ladder = run_ladder(backends, model_, {.threads = 1}, {.prompt = 4, .gen = 2, .repeats = 1});
  ASSERT_EQ(ladder.size(), 2U);
  ASSERT_TRUE(ladder[0].result);
  const auto json = to_json(std::span<const LadderEntry>(ladder));
  EXPECT_EQ(json.at("ladder").at(0).at("backend"), "scalar");
  EXPECT_GT(json.at("ladder").at(0).at("decode_tokens_per_second"), 0);
  EXPECT_GT(json.at("machine").at("read_gb_per_second"), 0);
  if (!ladder[1].result) {
    EXPECT_EQ(json.at("ladder").at(1).at("available"), false);
    EXPECT_FALSE(json.at("ladder").at(1).at("reason").get<std::string>().empty());
    EXPECT_THAT(to_text(std::span<const LadderEntry>(ladder)), HasSubstr("not available"));
  }
  EXPECT_THROW(run_ladder(backends, model_, {}, {.rows = 0}), UsageError);
}

TEST(Ladder, HasTheFourRungs) {
  EXPECT_EQ(ladder_backends(), (std::vector<std::string>{"scalar", "simd", "parallel", "pool"}));
}

}  // namespace
}  // namespace inferno::bench
