#include "verify/verify.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include <inferno/error.hpp>

#include "support/forwarding_executor.hpp"
#include "support/random_model.hpp"
#include "support/temporary_folder.hpp"
#include "verify/block_formats.hpp"
#include "verify/reference.hpp"
#include "verify/step_rungs.hpp"

namespace inferno::verify {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const fs::path kGolden = fs::path(INFERNO_TEST_DATA) / "golden";
const fs::path kTale = fs::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf";

std::vector<std::string> failed(const Report& report) {
  std::vector<std::string> names;
  for (const auto& rung : report.rungs) {
    if (!rung.passed) names.push_back(rung.name);
  }
  return names;
}

const Rung& rung_of(const Report& report, std::string_view name) {
  const auto found = std::find_if(report.rungs.begin(), report.rungs.end(),
                                  [&](const Rung& rung) { return rung.name == name; });
  if (found == report.rungs.end()) throw Error("no rung " + std::string(name));
  return *found;
}

Options scalar_only() {
  Options options;
  options.backends = {"scalar"};
  return options;
}

TEST(Verify, TheShippedModelPasses) {
  const LoadedModel model(kTale);
  const auto report = run(model, scalar_only());
  EXPECT_THAT(failed(report), IsEmpty());
  EXPECT_TRUE(report.passed());
  EXPECT_THAT(report.skipped, IsEmpty());
  // The goldens beside the model were found and its texts compared.
  EXPECT_THAT(rung_of(report, "float64 goldens").note, HasSubstr("361 greedy tokens compared"));
  EXPECT_GT(rung_of(report, "float64 goldens").max_abs_diff, 0);
  EXPECT_THAT(rung_of(report, "kinds of cache").note, HasSubstr("basic and none"));
}

TEST(Verify, OddModelsPass) {
  for (const std::string name : {"odd-group3-f32", "odd-mqa-q8_0", "odd-tied-f16"}) {
    const LoadedModel model(kGolden / (name + ".gguf"));
    auto options = scalar_only();
    options.goldens = kGolden / (name + ".json");
    EXPECT_THAT(failed(run(model, options)), IsEmpty()) << name;
  }
}

TEST(Verify, EveryAvailableBackendPasses) {
  const LoadedModel model(kGolden / "odd-mqa-q8_0.gguf");
  const auto report = run(model, {});
  EXPECT_THAT(failed(report), IsEmpty());
  // What is not available is told, and does not fail.
  for (const auto& status : list_backends()) {
    if (status.available || status.name == "gpu" || status.name == "metal") continue;
    const auto skipped = [&](const Skipped& entry) { return entry.backend == status.name; };
    EXPECT_TRUE(std::any_of(report.skipped.begin(), report.skipped.end(), skipped)) << status.name;
  }
}

TEST(Verify, ACorruptedModelFails) {
  const test::TemporaryFolder folder;
  const auto original = kGolden / "odd-mqa-q8_0.gguf";
  auto bytes = test::read_file(original);
  std::size_t offset = 0;
  std::size_t size = 0;
  {
    const LoadedModel model(original);
    const auto matrix = model.weights.layers.back().up;
    const auto whole = model.file.data(*model.file.find_tensor(matrix.name));
    // Where the tensor lies in the file: its bytes are found again there.
    const std::string_view needle(reinterpret_cast<const char*>(whole.data()), 256);
    offset = bytes.find(needle);
    size = whole.size();
  }
  ASSERT_NE(offset, std::string::npos);
  // One weight in a thousand, never a scale.
  for (std::size_t i = 2; i < size; i += 34 * 30) bytes[offset + i] ^= 0x40;
  const auto path = folder.write("spoiled.gguf", bytes);
  fs::copy_file(kGolden / "odd-mqa-q8_0.json", folder / "spoiled.golden.json");

  const LoadedModel model(path);
  const auto report = run(model, scalar_only());
  EXPECT_FALSE(report.passed());
  // Scalar computes the corrupted model as well as the sound one: only the goldens know better.
  EXPECT_THAT(failed(report), ElementsAre("float64 goldens"));
  const auto& rung = rung_of(report, "float64 goldens");
  EXPECT_GT(rung.max_abs_diff, rung.bound);
}

TEST(Verify, UnknownBackendsAreRefusedBeforeAnyWork) {
  const LoadedModel model(kGolden / "odd-tied-f16.gguf");
  auto options = scalar_only();
  options.backends.emplace_back("sclar");
  int rungs = 0;
  try {
    run(model, options, [&](const Rung&) { ++rungs; });
    FAIL() << "an unknown name was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sclar"));
    EXPECT_THAT(error.what(), HasSubstr("scalar, "));
  }
  EXPECT_EQ(rungs, 0);
}

TEST(Verify, ABackendAskedForAndNotAvailableFails) {
  const auto backends = list_backends();
  const auto missing =
      std::find_if(backends.begin(), backends.end(), [](const auto& status) { return !status.available; });
  if (missing == backends.end()) GTEST_SKIP() << "every backend is available here";
  const LoadedModel model(kGolden / "odd-tied-f16.gguf");
  Options options;
  options.backends = {missing->name};
  const auto report = run(model, options);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(rung_of(report, "backend").backend, missing->name);
  EXPECT_THAT(rung_of(report, "backend").note, HasSubstr(missing->reason));
}

TEST(Verify, GoldensThatCannotBeReadAreAnError) {
  const LoadedModel model(kGolden / "odd-tied-f16.gguf");
  auto options = scalar_only();
  options.goldens = "/nowhere/x.json";
  EXPECT_THROW(run(model, options), Error);
}

TEST(Verify, AModelWhoseLogitsAreAllZeroPasses) {
  test::RandomModel flat;
  flat.change = [](const std::string& name, std::vector<float>& values) {
    if (name == "token_embd.weight") std::fill(values.begin(), values.end(), 0.0F);
  };
  const test::TemporaryFile file(flat);
  Options options;
  options.backends = {"scalar", "simd"};
  const auto report = run(LoadedModel(file.path()), options);
  EXPECT_THAT(failed(report), IsEmpty());
}

TEST(Verify, JsonHasTheFixedFields) {
  const LoadedModel model(kGolden / "odd-tied-f16.gguf");
  std::vector<std::string> told;
  const auto report = run(model, scalar_only(), [&](const Rung& rung) { told.push_back(rung.name); });
  const auto json = to_json(report);
  EXPECT_EQ(json.at("passed"), true);
  ASSERT_EQ(json.at("rungs").size(), told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    const auto& rung = json.at("rungs").at(i);
    EXPECT_EQ(rung.at("name"), told[i]);
    EXPECT_EQ(rung.at("model"), model.config.name);
    EXPECT_TRUE(rung.at("backend").is_string());
    EXPECT_TRUE(rung.at("max_abs_diff").is_number());
    EXPECT_TRUE(rung.at("bound").is_number());
    EXPECT_TRUE(rung.at("passed").is_boolean());
    EXPECT_TRUE(rung.at("note").is_string());
    EXPECT_LE(rung.at("max_abs_diff"), rung.at("bound"));
  }
  // No golden file lies beside this model.
  EXPECT_EQ(json.at("skipped").at(0).at("name"), "float64 goldens");
}

TEST(Verify, UnmeasuredIsNullInJson) {
  Report report;
  report.rungs.emplace_back();
  EXPECT_TRUE(to_json(report).at("rungs").at(0).at("max_abs_diff").is_null());
  EXPECT_FALSE(report.passed());
}

/// What is done to the results of a submission.
using Spoil = std::function<void(const StepBatch&, const SubmitOptions&, StepResult&)>;

class SpoiledExecutor : public test::ForwardingExecutor {
 public:
  SpoiledExecutor(std::unique_ptr<Executor> inner, Spoil spoil)
      : ForwardingExecutor(std::move(inner)), spoil_(std::move(spoil)) {}

  Ticket submit(const StepBatch& batch, const SubmitOptions& options) override {
    batch_ = batch;
    options_ = options;
    return ForwardingExecutor::submit(batch, options);
  }
  StepResult wait(Ticket ticket) override {
    auto result = ForwardingExecutor::wait(ticket);
    spoil_(batch_, options_, result);
    return result;
  }

 private:
  Spoil spoil_;
  StepBatch batch_;
  SubmitOptions options_;
};

void one_bit(StepResult& result) {
  for (auto& values : result.values) {
    if (!values.empty()) values[0] = std::nextafter(values[0], std::numeric_limits<float>::infinity());
  }
}

/// A model and the answers to be expected, made once.
class SpoiledTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    test::RandomModel random;
    random.context_length = 64;
    file_ = std::make_unique<test::TemporaryFile>(random);
    model_ = std::make_unique<LoadedModel>(file_->path());
    questions_ = std::make_unique<Questions>(choose_questions(*model_, {}));
    questions_->reference = reference_logits(*model_, questions_->sequence, {}, 2);
  }
  static void TearDownTestSuite() {
    questions_.reset();
    model_.reset();
    file_.reset();
  }

  Report climb(const Spoil& spoil) {
    SpoiledExecutor executor(create_executor("scalar", *model_), spoil);
    change_(executor.change_capabilities());
    Report report;
    RungWriter rungs(report, {}, "random");
    answers_ = climb_steps(executor, *questions_, rungs);
    return report;
  }

  static std::unique_ptr<test::TemporaryFile> file_;
  static std::unique_ptr<LoadedModel> model_;
  static std::unique_ptr<Questions> questions_;
  std::function<void(Capabilities&)> change_ = [](Capabilities&) {};
  Answers answers_;
};
std::unique_ptr<test::TemporaryFile> SpoiledTest::file_;
std::unique_ptr<LoadedModel> SpoiledTest::model_;
std::unique_ptr<Questions> SpoiledTest::questions_;

TEST_F(SpoiledTest, SoundExecutorPasses) {
  EXPECT_THAT(failed(climb([](auto&, auto&, auto&) {})), IsEmpty());
}

TEST_F(SpoiledTest, OneBitInABatchIsFound) {
  const auto report = climb([](const auto& batch, const auto&, auto& result) {
    if (batch.rows() == 3) one_bit(result);
  });
  EXPECT_THAT(failed(report), ElementsAre("alone and in a batch"));
  EXPECT_GT(rung_of(report, "alone and in a batch").max_abs_diff, 0);
}

TEST_F(SpoiledTest, OneBitInALaterChunkIsFound) {
  const auto report = climb([](const auto& batch, const auto&, auto& result) {
    if (batch.rows() == 1 && batch.tokens.size() > 1 && batch.positions[0] > 0) one_bit(result);
  });
  EXPECT_THAT(failed(report), Contains("prefill in chunks"));
  EXPECT_THAT(failed(report), Not(Contains("prefill by decode")));
}

TEST_F(SpoiledTest, OneBitInDecodeIsFound) {
  const auto report = climb([](const auto& batch, const auto& options, auto& result) {
    if (batch.tokens.size() == 1 && batch.positions[0] == 6 && options.max_steps == 1) one_bit(result);
  });
  EXPECT_THAT(failed(report), Contains("prefill by decode"));
  EXPECT_THAT(failed(report), Not(Contains("prefill in chunks")));
}

TEST_F(SpoiledTest, OneBitInChainedStepsIsFound) {
  const auto report = climb([](const auto&, const auto& options, auto& result) {
    if (options.max_steps > 1) one_bit(result);
  });
  EXPECT_THAT(failed(report), ElementsAre("chained steps"));
}

TEST_F(SpoiledTest, ASignedZeroIsFound) {
  const auto report = climb([](const auto& batch, const auto&, auto& result) {
    // The reference run gets +0, the others -0: no distance, other bits.
    for (auto& values : result.values) {
      if (!values.empty()) values[1] = batch.tokens.size() > 17 ? 0.0F : -0.0F;
    }
  });
  EXPECT_THAT(failed(report), Contains("prefill by decode"));
  EXPECT_EQ(rung_of(report, "prefill by decode").max_abs_diff, 0);
}

TEST_F(SpoiledTest, ANanIsFound) {
  const auto report = climb([](const auto& batch, const auto&, auto& result) {
    if (batch.rows() == 3) result.values[0][0] = std::numeric_limits<float>::quiet_NaN();
  });
  EXPECT_THAT(failed(report), ElementsAre("alone and in a batch"));
  EXPECT_GT(rung_of(report, "alone and in a batch").max_abs_diff, 1e300);
}

TEST_F(SpoiledTest, ConsistentErrorIsFoundByTheReference) {
  const auto report = climb([](const auto&, const auto&, auto& result) {
    for (auto& values : result.values) {
      for (auto& value : values) value *= 1.001F;
    }
  });
  EXPECT_THAT(failed(report), ElementsAre("float64 reference"));
  const auto& rung = rung_of(report, "float64 reference");
  EXPECT_GT(rung.max_abs_diff, rung.bound);
}

TEST_F(SpoiledTest, AFailingRowIsAFailedRungNotTheEnd) {
  const auto report = climb([](const auto& batch, const auto&, auto& result) {
    if (batch.rows() != 3) return;
    result.status[1] = RowStatus::failed;
    result.errors[1] = "the device caught fire";
  });
  EXPECT_THAT(failed(report), ElementsAre("alone and in a batch"));
  EXPECT_THAT(rung_of(report, "alone and in a batch").note, HasSubstr("the device caught fire"));
}

TEST_F(SpoiledTest, WhatABackendLacksIsSkippedByName) {
  change_ = [](Capabilities& can) { can.multi_step = can.block_transfer = false; };
  Report report;
  SpoiledExecutor executor(create_executor("scalar", *model_), [](auto&, auto&, auto&) {});
  change_(executor.change_capabilities());
  RungWriter rungs(report, {}, "random");
  climb_steps(executor, *questions_, rungs);
  std::vector<std::string> skipped;
  for (const auto& entry : report.skipped) skipped.push_back(entry.name);
  EXPECT_THAT(skipped, ElementsAre("blocks moved", "chained steps"));
  EXPECT_THAT(failed(report), IsEmpty());
}

TEST_F(SpoiledTest, ContractBackendsMustBeEqual) {
  change_ = [](Capabilities& can) { can.contract = true; };
  climb([](auto&, auto&, auto&) {});
  const auto first = answers_;
  auto second = first;
  second.backend = "other";
  Report report;
  RungWriter rungs(report, {}, "random");
  climb_between(first, second, *questions_, rungs);
  EXPECT_THAT(failed(report), IsEmpty());
  second.logits[5] = std::nextafter(second.logits[5], 100.0F);
  second.transcript.ids.back() ^= 1;
  report = {};
  climb_between(first, second, *questions_, rungs);
  EXPECT_THAT(failed(report), ElementsAre("logits of two backends", "transcripts of two backends"));
}

TEST_F(SpoiledTest, WhereTranscriptsPartIsTold) {
  climb([](auto&, auto&, auto&) {});
  const auto first = answers_;
  auto second = first;
  second.backend = "other";
  second.contract = true;
  auto questions = *questions_;
  questions.contract_distance = 0.01;
  const std::size_t vocab_size = first.transcript.logits.size() / first.transcript.ids.size();
  // At token 2 the other backend takes another id, whose logit it finds a little higher.
  const auto chosen = first.transcript.ids[2];
  const auto other = chosen == 0 ? 1 : 0;
  auto* logits = second.transcript.logits.data() + 2 * vocab_size;
  second.transcript.ids[2] = other;
  Report report;
  RungWriter rungs(report, {}, "random");

  logits[other] = std::nextafter(logits[chosen], 100.0F);
  climb_between(first, second, questions, rungs);
  // The ids' logits were far apart in `first`: no rounding explains that.
  EXPECT_THAT(failed(report), Contains("transcripts of two backends"));

  report = {};
  auto close = first;
  close.transcript.logits[2 * vocab_size + static_cast<std::size_t>(other)] =
      std::nextafter(logits[chosen], -100.0F);
  climb_between(close, second, questions, rungs);
  const auto& rung = rung_of(report, "transcripts of two backends");
  EXPECT_TRUE(rung.passed) << rung.note;
  EXPECT_THAT(rung.note, HasSubstr("equal for 2 tokens"));
  EXPECT_THAT(rung.note, HasSubstr("other takes " + std::to_string(other)));
}

TEST(BlockFormats, AWrongDecoderIsFound) {
  const LoadedModel model(kGolden / "odd-mqa-q8_0.gguf");
  auto format = quant::format_of(quant::TensorType::q8_0);
  EXPECT_TRUE(check_format(format, model).passed);
  format.decode = [](const std::byte* source, std::size_t blocks, float* target) {
    quant::format_of(quant::TensorType::q8_0).decode(source, blocks, target);
    constexpr std::size_t kScaleOfOne = 0x3C00;  // the sample of that number has that scale
    if (blocks > kScaleOfOne) target[kScaleOfOne * 32 + 31] += 1.0F;
  };
  const auto rung = check_format(format, model);
  EXPECT_FALSE(rung.passed);
  EXPECT_THAT(rung.note, HasSubstr("differ, first"));
  format.type = static_cast<quant::TensorType>(39);
  EXPECT_THAT(check_format(format, model).note, HasSubstr("no independent definition"));
}

TEST(Questions, ShortForLargeModelsLongerForSmallOnes) {
  const LoadedModel small(kGolden / "odd-mqa-q8_0.gguf");
  const auto questions = choose_questions(small, {});
  EXPECT_GT(questions.sequence.size(), 256U) << "beyond one attention split";
  EXPECT_GT(questions.sequence.size(), questions.block_size * 3);
  for (const auto id : questions.sequence) EXPECT_LT(static_cast<std::uint32_t>(id), small.config.vocab_size);
}

TEST(Questions, StayInsideTheContext) {
  test::RandomModel random;
  for (const std::uint32_t context : {1U, 2U, 3U, 20U}) {
    random.context_length = context;
    const test::TemporaryFile file(random);
    const LoadedModel model(file.path());
    EXPECT_LE(choose_questions(model, {}).sequence.size(), context);
    EXPECT_THAT(failed(run(model, scalar_only())), IsEmpty()) << context;
  }
}

}  // namespace
}  // namespace inferno::verify
