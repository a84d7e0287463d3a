#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include "cli/program.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;

TEST(Generate, JsonHasTheFixedFields) {
  const auto json = run_inferno({"generate", "-n", "8", "--json"}).json();
  for (const char* field : {"text", "ids", "prompt_ids", "backend", "kv", "time_to_first_token_ms",
                            "decode_tokens_per_second", "per_forward_ms", "finish_reason", "logits_hash"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["ids"].size(), 8U);
  EXPECT_EQ(json["prompt_ids"], (std::vector<int>{466, 470, 258, 412}));
  EXPECT_EQ(json["per_forward_ms"]["n"], 8);
  EXPECT_LE(json["per_forward_ms"]["min"], json["per_forward_ms"]["mean"]);
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["kv"], "paged");
  EXPECT_TRUE(json["logits_hash"].is_null());
}

TEST(Generate, WithKStepsInOneSubmissionSubmissionsAreCounted) {
  const auto json = run_inferno({"generate", "-n", "9", "--steps-per-submit", "4", "--json"}).json();
  EXPECT_EQ(json["ids"].size(), 9U);
  EXPECT_EQ(json["per_forward_ms"]["n"], 3);
}

TEST(Generate, TheTextIsStreamedThenTheMetrics) {
  const auto ran = run_inferno({"generate", "-p", "Once upon a time", "-n", "6"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, testing::StartsWith("Once upon a time, there was"));
  std::size_t at = 0;
  for (const char* metric : {"backend: ", "kv: paged", "time_to_first_token_ms: ",
                             "decode_tokens_per_second: ", "per_forward_ms: min "}) {
    at = ran.out.find(metric, at);
    EXPECT_NE(at, std::string::npos) << metric;
  }
  EXPECT_THAT(ran.out, HasSubstr("(n=6)"));
}

TEST(Generate, ThePromptMayComeFromAFileOrStdin) {
  const TemporaryFolder folder;
  const auto path = folder / "prompt.txt";
  std::ofstream(path) << "The dog\n";
  const auto expected = run_inferno({"generate", "-p", "The dog", "-n", "4", "--json"}).json();
  for (const auto& ran : {run_inferno({"generate", "-f", path.string(), "-n", "4", "--json"}),
                          run_inferno({"generate", "-f", "-", "-n", "4", "--json"}, "The dog\r\n")}) {
    EXPECT_EQ(ran.json()["prompt_ids"], expected["prompt_ids"]);
    EXPECT_EQ(ran.json()["text"], expected["text"]);
  }
  const auto missing = run_inferno({"generate", "-f", "/no/such/file"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/file"));
}

TEST(Generate, ADrawnSeedIsToldAndMakesTheSameTextAgain) {
  const auto drawn = run_inferno({"generate", "-n", "12", "--temp", "1.5", "--json"}).json();
  ASSERT_TRUE(drawn["seed"].is_number_unsigned());
  const auto seed = std::to_string(drawn["seed"].get<std::uint64_t>());
  const auto again = run_inferno({"generate", "-n", "12", "--temp", "1.5", "--seed", seed});
  EXPECT_THAT(again.out, testing::StartsWith("Once upon a time" + drawn["text"].get<std::string>() + "\n"));
  EXPECT_THAT(again.out, HasSubstr("\nseed: " + seed + "\n"));
  EXPECT_TRUE(run_inferno({"generate", "-n", "2", "--seed", "7", "--json"}).json()["seed"].is_null());
}

TEST(Generate, HowManyThreadsAndWhyIsToldAtTheStart) {
  EXPECT_THAT(run_inferno({"generate", "-n", "1", "--backend", "pool"}).err, HasSubstr("affinity allows"));
  EXPECT_THAT(run_inferno({"generate", "-n", "1", "--backend", "pool", "--threads", "1"}).err,
              HasSubstr("1 thread: asked for"));
  EXPECT_EQ(run_inferno({"generate", "-n", "1", "--backend", "simd"}).err, "");
}

TEST(Generate, AModelsNameSteersNoTerminal) {
  const TemporaryFolder folder;
  const auto path = (folder / "evil.gguf").string();
  ASSERT_EQ(run_inferno({"synth", "--preset", "tiny", path}).code, 0);
  auto bytes = read_file(path);
  const auto at = bytes.find("tiny", bytes.find("general.name"));
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 3, "\x1b[\n");
  std::ofstream(path, std::ios::binary) << bytes;
  const auto ran = run_inferno({"generate", "-m", path, "--ids", "1", "-n", "1", "-v", "--ctx", "99999"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, testing::AllOf(HasSubstr(R"(\x1b[\n)"), HasSubstr("was trained on")));
  EXPECT_EQ(ran.err.find('\x1b'), std::string::npos);
}

TEST(Generate, TheHashIsThatOfTheLogitsCommand) {
  const TemporaryFolder folder;
  const auto npy = (folder / "logits.npy").string();
  for (const char* backend : {"scalar", "pool"}) {
    const auto json = run_inferno({"generate", "--ids", "466,470,258,412", "-n", "1", "--hash", "--json",
                                   "--backend", backend})
                          .json();
    ASSERT_EQ(run_inferno({"logits", "--ids", "466,470,258,412", "--out", npy, "--backend", backend}).code,
              0);
    const auto bytes = read_file(npy);
    const auto data = bytes.substr(bytes.size() - 8192 * sizeof(float));
    EXPECT_EQ(json["logits_hash"], fmt::format("{:016x}", XXH3_64bits(data.data(), data.size()))) << backend;
  }
}

TEST(Generate, TraceCountsEighteenStagesALayerAndThreeMore) {
  for (const char* backend : {"scalar", "pool"}) {
    const auto json = run_inferno({"generate", "-n", "4", "--trace", "--json", "--backend", backend}).json();
    EXPECT_EQ(json["trace"]["layers"], 10);
    EXPECT_EQ(json["trace"]["stages_per_layer"], 18);
    EXPECT_EQ(json["trace"]["decode"]["steps"], 3);
    EXPECT_EQ(json["trace"]["decode"]["stages_per_step"], 10 * 18 + 3);
    for (const auto& stage : json["trace"]["decode"]["stages"]) {
      const std::string name = stage["name"];
      const bool once = name == "embedding" || name == "final_norm" || name == "lm_head" || name == "argmax";
      EXPECT_EQ(stage["count"], 3 * (once ? 1 : 10)) << name;
    }
  }
  EXPECT_THAT(run_inferno({"generate", "-n", "3", "--trace"}).out,
              HasSubstr("2 steps of 183 stages (18 a layer x 10 layers + 3"));
}

TEST(Generate, ADecodeStepOfThe06bShapeIs507Stages) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "640 MB of weights take minutes under a sanitizer; the release build runs this";
#endif
  const TemporaryFolder folder;
  const auto path = (folder / "deep.gguf").string();
  ASSERT_EQ(run_inferno({"synth", "--preset", "0.6b", "--type", "q8_0", "--seed", "3", path}).code, 0);
  const auto json = run_inferno({"generate", "-m", path, "-p", "a", "-n", "2", "--ignore-eos", "--trace",
                                 "--json", "--backend", "pool"})
                        .json();
  EXPECT_EQ(json["trace"]["layers"], 28);
  EXPECT_EQ(json["trace"]["decode"]["stages_per_step"], 507);
}

TEST(Generate, VerboseLogsEachStepToStderr) {
  const auto ran = run_inferno({"generate", "-p", "Once upon a time", "-n", "3", "-v"});
  EXPECT_THAT(ran.err, HasSubstr("step 0 prefill id 11 \",\" probability 0."));
  EXPECT_THAT(ran.err, HasSubstr("step 1 decode id 401 "));
  EXPECT_THAT(ran.out, testing::Not(HasSubstr("step 1")));
}

TEST(Generate, ASeedFixesTheTextAndNoSeedDoesNot) {
  const std::vector<std::string> base = {"generate", "-n", "24", "--temp", "1.5", "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run_inferno(more).json()["ids"];
  };
  EXPECT_EQ(with({"--seed", "5"}), with({"--seed", "5"}));
  EXPECT_NE(with({"--seed", "5"}), with({"--seed", "6"}));
  EXPECT_NE(with({}), with({}));
}

TEST(Generate, CtrlCEndsItWithTheMetricsAndACodeOfItsOwn) {
  const TemporaryFolder folder;
  const auto model = (folder / "long.gguf").string();  // has room for more than can be written meanwhile
  ASSERT_EQ(run_inferno({"synth", "--preset", "tale", "--type", "q8_0", model}).code, 0);
  Running program({"generate", "-m", model, "-p", "Once upon a time", "-n", "8000", "--ignore-eos"},
                  STDOUT_FILENO);
  ASSERT_TRUE(program.read_until("Once upon a time"));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_THAT(program.output(), HasSubstr("generated (cancelled)"));
}

TEST(Generate, PromptsOfAnyBytesAreTaken) {
  for (const std::string& prompt :
       {std::string("\xFF\xFE"), std::string("\xF0\x9F"), std::string("\xED\xA0\x80 x")}) {
    const auto ran = run_inferno({"generate", "-p", prompt, "-n", "2", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(ran.json()["ids"].size(), 2U);
  }
}

TEST(Generate, AContextBeyondTheTrainedOneWarnsWithBothNumbers) {
  const auto ran = run_inferno({"generate", "-n", "2", "--ctx", "2048"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.err, testing::AllOf(HasSubstr("2048"), HasSubstr("1024")));
}

TEST(Generate, ReadingInsteadOfMappingGivesTheSame) {
  const auto mapped = run_inferno({"generate", "-n", "4", "--json"}).json();
  EXPECT_EQ(run_inferno({"generate", "-n", "4", "--json", "--no-mmap"}).json()["ids"], mapped["ids"]);
}

}  // namespace
}  // namespace inferno::test
