#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include <inferno/engine.hpp>
#include <inferno/error.hpp>

#include "engine/model_parts.hpp"
#include "platform/fault.hpp"

namespace inferno {
namespace {

using testing::HasSubstr;

const Model& tale() {
  static const Model model = Model::load(Model::default_path());
  return model;
}

/// The text of what `act` throws.
template <typename Thrown>
std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Thrown& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

struct Way {
  std::string backend;
  std::string kv;
  std::uint32_t steps_per_submit = 1;
  std::uint32_t prefill_chunk = 512;
};

class Ways : public testing::TestWithParam<Way> {};

/// Transcripts do not depend on the kind of cache, on chained steps or on how the prompt is cut; those of the
/// oracle are the goldens'.
TEST_P(Ways, LeadToTheSameTranscript) {
  const auto& way = GetParam();
  EngineOptions options;
  options.backend = way.backend;
  options.kv = way.kv;
  options.steps_per_submit = way.steps_per_submit;
  options.prefill_chunk = way.prefill_chunk;
  Engine engine(tale(), options);
  EngineOptions plain;
  plain.backend = way.backend;
  Engine expected(tale(), plain);
  for (const char* prompt : {"Once upon a time", "The little dog was sad because"}) {
    Request request{.prompt = prompt, .max_tokens = 20};
    request.hash_logits = true;
    const auto a = engine.generate(request);
    const auto b = expected.generate(request);
    EXPECT_EQ(a.ids, b.ids);
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.logits_hash, b.logits_hash);
    EXPECT_FALSE(a.logits_hash.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Engine, Ways,
                         testing::Values(Way{"scalar", "none"}, Way{"scalar", "basic"},
                                         Way{"scalar", "paged", 7}, Way{"scalar", "paged", 1, 3},
                                         Way{"scalar", "none", 1, 2}, Way{"pool", "none"},
                                         Way{"pool", "basic", 64}, Way{"pool", "paged", 5, 1}));

TEST(Engine, ReproducesTheGoldenTranscripts) {
  std::ifstream file(INFERNO_MODELS "/tale-12m-q8_0.golden.json");
  const auto golden = nlohmann::json::parse(file);
  EngineOptions options;
  options.backend = "scalar";
  Engine engine(tale(), options);
  for (const auto& prompt : golden["prompts"]) {
    const auto expected = prompt["greedy_ids"].get<std::vector<std::int32_t>>();
    Request request{.prompt = prompt["text"].get<std::string>()};
    request.max_tokens = static_cast<std::uint32_t>(expected.size());
    const auto generation = engine.generate(request);
    EXPECT_EQ(generation.prompt_ids, prompt["ids"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(generation.ids, expected);
  }
}

TEST(Engine, StreamsWhatItReturns) {
  Engine engine(tale());
  std::string streamed;
  const auto generation =
      engine.generate({.prompt = "Once upon a time", .max_tokens = 30}, [&](std::string_view text) {
        streamed += text;
        return true;
      });
  EXPECT_EQ(streamed, generation.text);
  EXPECT_EQ(generation.ids.size(), 30U);
  EXPECT_EQ(generation.finish_reason, FinishReason::length);
  EXPECT_EQ(generation.times.forwards, 30U);
  EXPECT_GT(generation.times.time_to_first_token_ms, 0);
  EXPECT_GT(generation.times.decode_tokens_per_second, 0);
  EXPECT_LE(generation.times.forward_min_ms, generation.times.forward_mean_ms);
  EXPECT_LE(generation.times.forward_mean_ms, generation.times.forward_max_ms);
}

TEST(Engine, SubmissionsAreCountedNotSteps) {
  EngineOptions options;
  options.steps_per_submit = 8;
  Engine engine(tale(), options);
  const auto generation = engine.generate({.prompt = "Once upon a time", .max_tokens = 33});
  EXPECT_EQ(generation.times.forwards, 1U + 32 / 8);
}

TEST(Engine, EndsWhenTheCallbackSaysSo) {
  Engine engine(tale());
  int calls = 0;
  const auto generation = engine.generate({.prompt = "Once upon a time", .max_tokens = 100},
                                          [&](std::string_view) { return ++calls < 3; });
  EXPECT_EQ(generation.finish_reason, FinishReason::cancelled);
  EXPECT_LT(generation.ids.size(), 10U);
}

TEST(Engine, EndsAtAStopString) {
  Engine engine(tale());
  const auto whole = engine.generate({.prompt = "Once upon a time", .max_tokens = 40});
  const auto at = whole.text.find(" girl");
  ASSERT_NE(at, std::string::npos);
  Request request{.prompt = "Once upon a time", .max_tokens = 40};
  request.stop = {"gi"};
  const auto stopped = engine.generate(request);
  EXPECT_EQ(stopped.text, whole.text.substr(0, at + 1));
  EXPECT_EQ(stopped.finish_reason, FinishReason::stop);
  EXPECT_LT(stopped.ids.size(), whole.ids.size());
}

/// However many steps are chained: what nobody wants any more is not computed.
class Chained : public testing::TestWithParam<const char*> {
 protected:
  static EngineOptions options() {
    EngineOptions chosen;
    chosen.backend = GetParam();
    chosen.steps_per_submit = 200;
    return chosen;
  }
  static Request request() {
    Request asked{.prompt = "Once upon a time", .max_tokens = 200};
    asked.ignore_end_tokens = true;
    return asked;
  }
};

TEST_P(Chained, EndsAtAStopString) {
  Engine engine(tale(), options());
  auto asked = request();
  asked.stop = {"gi"};
  const auto stopped = engine.generate(asked);
  EXPECT_THAT(stopped.text, testing::EndsWith(" little "));
  EXPECT_EQ(stopped.finish_reason, FinishReason::stop);
  EXPECT_EQ(stopped.steps + 1, stopped.ids.size());
  EXPECT_LT(stopped.ids.size(), 20U);
}

TEST_P(Chained, EndsWhenTheCallbackSaysSo) {
  Engine engine(tale(), options());
  int calls = 0;
  const auto ended = engine.generate(request(), [&](std::string_view) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(ended.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(ended.steps + 1, ended.ids.size());
}

TEST_P(Chained, EndsWhenItIsCancelled) {
  Engine engine(tale(), options());
  int calls = 0;
  auto asked = request();
  for (const bool hash : {false, true}) {
    asked.hash_logits = hash;
    calls = 0;
    const auto ended = engine.generate(asked, [&](std::string_view) {
      if (++calls == 3) engine.cancel();
      return true;
    });
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(ended.finish_reason, FinishReason::cancelled);
    EXPECT_EQ(ended.steps + 1, ended.ids.size());
  }
  // And goes on afterwards as if nothing had been.
  asked.max_tokens = 20;
  EXPECT_EQ(engine.generate(asked).ids, Engine(tale(), options()).generate(asked).ids);
}

TEST_P(Chained, HandsOnWhatTheCallbackThrows) {
  struct Enough {};
  Engine engine(tale(), options());
  EXPECT_THROW(engine.generate(request(), [](std::string_view) -> bool { throw Enough(); }), Enough);
  EXPECT_EQ(engine.generate(request()).ids, Engine(tale(), options()).generate(request()).ids);
}

INSTANTIATE_TEST_SUITE_P(Engine, Chained, testing::Values("scalar", "pool"));

TEST(Engine, MaxTokensZeroGeneratesNothing) {
  Engine engine(tale());
  const auto generation = engine.generate({.prompt = "Once", .max_tokens = 0});
  EXPECT_TRUE(generation.ids.empty());
  EXPECT_EQ(generation.finish_reason, FinishReason::length);
  EXPECT_EQ(generation.times.forwards, 0U);
}

TEST(Engine, AnEmptyPromptStartsAText) {
  Engine engine(tale());
  const auto generation = engine.generate({.prompt = "", .max_tokens = 5});
  EXPECT_EQ(generation.prompt_ids.size(), 1U);
  EXPECT_EQ(generation.ids.size(), 5U);
}

TEST(Engine, GoesOnAfterEndTokensIfAsked) {
  Request request{.prompt = "The end.", .max_tokens = 3};
  const auto end = tale().parts().tokenizer.end_tokens().front();
  request.sampling.logit_bias = {{end, 100.0F}};
  Engine engine(tale());
  const auto stopped = engine.generate(request);
  EXPECT_EQ(stopped.ids, (std::vector<std::int32_t>{end}));
  EXPECT_EQ(stopped.finish_reason, FinishReason::stop);
  EXPECT_EQ(stopped.text, "");
  request.ignore_end_tokens = true;
  const auto went_on = engine.generate(request);
  EXPECT_EQ(went_on.ids, (std::vector<std::int32_t>{end, end, end}));
  EXPECT_EQ(went_on.text, "");  // control tokens are markup, not text
}

TEST(Engine, FillsTheContextExactly) {
  EngineOptions options;
  options.context = 64;
  for (const std::uint32_t length : {1U, 15U, 16U, 17U, 62U, 63U}) {
    Engine engine(tale(), options);
    Request request;
    request.prompt_ids.assign(length, 300);
    request.max_tokens = 1000;
    request.ignore_end_tokens = true;
    const auto generation = engine.generate(request);
    EXPECT_EQ(generation.ids.size(), 64 - length);
    EXPECT_EQ(generation.finish_reason, FinishReason::length);
  }
}

TEST(Engine, RefusesAPromptThatFillsTheContext) {
  EngineOptions options;
  options.context = 64;
  Engine engine(tale(), options);
  for (const std::size_t length : {std::size_t{64}, std::size_t{65}, std::size_t{5000}}) {
    Request request;
    request.prompt_ids.assign(length, 300);
    EXPECT_THAT(refusal<UsageError>([&] { engine.generate(request); }),
                AllOf(HasSubstr(std::to_string(length)), HasSubstr("64")));
  }
}

TEST(Engine, RefusesIdsOutsideTheVocabulary) {
  Engine engine(tale());
  for (const std::int32_t id : {-1, 8192, 2147483647}) {
    Request request;
    request.prompt_ids = {1, id};
    EXPECT_THAT(refusal<UsageError>([&] { engine.generate(request); }),
                AllOf(HasSubstr(std::to_string(id)), HasSubstr("8192")));
  }
}

TEST(Engine, RefusesSettingsOutOfRangeAndGoesOn) {
  Engine engine(tale());
  Request request{.prompt = "Once", .max_tokens = 2};
  request.sampling.temperature = -1.0F;
  EXPECT_THROW(engine.generate(request), UsageError);
  request.sampling.temperature = 0.0F;
  request.stop = {""};
  EXPECT_THROW(engine.generate(request), UsageError);
  request.stop = {};
  EXPECT_EQ(engine.generate(request).ids.size(), 2U);
}

TEST(Engine, RefusesOptionsThatMakeNoSense) {
  const auto made_with = [](auto change) {
    EngineOptions options;
    change(options);
    return refusal<UsageError>([&] { Engine(tale(), options); });
  };
  EXPECT_THAT(made_with([](auto& o) { o.kv = "big"; }), AllOf(HasSubstr("big"), HasSubstr("paged")));
  EXPECT_THAT(made_with([](auto& o) { o.backend = "abacus"; }),
              AllOf(HasSubstr("abacus"), HasSubstr("scalar")));
  EXPECT_THAT(made_with([](auto& o) { o.steps_per_submit = 0; }), HasSubstr("0"));
  EXPECT_THAT(made_with([](auto& o) { o.prefill_chunk = 0; }), HasSubstr("0"));
  EXPECT_THAT(made_with([](auto& o) { o.kv = "none", o.steps_per_submit = 2; }), HasSubstr("cache"));
}

TEST(Engine, TheSameSeedGivesTheSameTextWhateverTheChaining) {
  Request request{.prompt = "Once upon a time", .max_tokens = 40};
  request.sampling.temperature = 1.2F;
  request.sampling.top_p = 0.95F;
  request.sampling.repetition_penalty = 1.1F;
  request.sampling.frequency_penalty = 0.3F;
  request.sampling.seed = 7;
  Engine engine(tale());
  const auto first = engine.generate(request);
  EXPECT_EQ(engine.generate(request).ids, first.ids);
  EngineOptions chained;
  chained.steps_per_submit = 16;
  EXPECT_EQ(Engine(tale(), chained).generate(request).ids, first.ids);
  request.sampling.seed = 8;
  EXPECT_NE(engine.generate(request).ids, first.ids);
}

/// A device that disappears in mid-generation costs time, not the answer: the sequence goes on elsewhere, and
/// so does the engine.
TEST(LostDevice, TheSequenceGoesOnElsewhere) {
  if (!fault::kCompiledIn) GTEST_SKIP() << "this build has no fault switches (INFERNO_FAULTS)";
  EngineOptions options;
  options.backend = "simd";
  Request request{.prompt = "Once upon a time", .max_tokens = 20};
  request.sampling.temperature = 0.8F;
  request.sampling.repetition_penalty = 1.1F;
  request.hash_logits = true;
  const auto expected = Engine(tale(), options).generate(request);
  for (const char* when : {"lost:1", "lost:2", "lost:13"}) {
    Engine engine(tale(), options);
    fault::arm(when);
    const auto generation = engine.generate(request);
    fault::arm("");
    EXPECT_EQ(generation.ids, expected.ids) << when;
    EXPECT_EQ(generation.logits_hash, expected.logits_hash) << when;
    EXPECT_EQ(engine.backend(), "pool") << when;
    EXPECT_EQ(generation.moved_from, "simd") << when;
    const auto next = engine.generate(request);
    EXPECT_EQ(next.ids, expected.ids) << when;
    EXPECT_EQ(next.moved_from, "") << when;
  }
}

/// Where nobody can go on, the request fails; the next one has an engine again.
TEST(LostDevice, AnEngineThatFoundNobodyIsUsedOn) {
  if (!fault::kCompiledIn) GTEST_SKIP() << "this build has no fault switches (INFERNO_FAULTS)";
  EngineOptions options;
  options.backend = "simd";
  const Request request{.prompt = "Once upon a time", .max_tokens = 6};
  const auto expected = Engine(tale(), options).generate(request);
  int failures = 0;
  for (int k = 1; k < 100; ++k) {  // simd's own allocations, then its successor's
    Engine engine(tale(), options);
    fault::arm("lost:3,alloc:" + std::to_string(k));
    bool failed = false;
    try {
      engine.generate(request);
    } catch (const Error&) {
      failed = true;
    }
    fault::arm("");
    EXPECT_EQ(engine.generate(request).ids, expected.ids) << k;
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 1);
  EXPECT_LT(failures, 99);
}

}  // namespace
}  // namespace inferno
