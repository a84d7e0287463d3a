#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.hpp"

namespace inferno::test {
namespace {

TEST(Bench, JsonHasTheFixedFields) {
  const auto json = run_inferno({"bench", "--prompt", "8", "--gen", "4", "--depth", "16", "--rows", "2",
                                 "--json", "--backend", "pool"})
                        .json();
  for (const char* field :
       {"backend", "device", "model", "rows", "prefill_tokens_per_second", "decode_tokens_per_second",
        "prefill_share", "decode_share", "weight_bytes_per_step", "cache_bytes_per_step", "machine",
        "submissions_per_token", "stages_per_token", "dispatches_per_token"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  for (const char* field : {"read_gb_per_second", "int8_gops", "fp32_gflops"})
    EXPECT_GT(json["machine"][field], 0) << field;
  EXPECT_EQ(json["rows"], 2);
  EXPECT_GT(json["prefill_tokens_per_second"], 0);
  EXPECT_GT(json["decode_tokens_per_second"], 0);
}

TEST(Bench, NoPromptNoPrefill) {
  const auto json =
      run_inferno({"bench", "--prompt", "0", "--gen", "3", "--depth", "0", "--rows", "1", "--json"}).json();
  EXPECT_GT(json["decode_tokens_per_second"], 0);
}

TEST(Bench, ADepthBeyondTheContextNamesTheNumbers) {
  const auto ran = run_inferno({"bench", "--prompt", "8", "--gen", "8", "--depth", "5000", "--rows", "1"});
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.err, testing::HasSubstr("1024"));
}

TEST(Verify, TheShippedModelPassesEveryRung) {
  const auto ran = run_inferno({"verify", "--json", "--backend", "scalar,pool"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto json = ran.json();
  EXPECT_EQ(json["passed"], true);
  EXPECT_GT(json["rungs"].size(), 3U);
  for (const auto& rung : json["rungs"]) {
    for (const char* field : {"name", "backend", "model", "max_abs_diff", "bound", "passed", "note"})
      EXPECT_TRUE(rung.contains(field));
    EXPECT_EQ(rung["passed"], true) << rung;
  }
}

}  // namespace
}  // namespace inferno::test
