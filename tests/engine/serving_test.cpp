// The serving engine's promise: what a request gets does not depend on the others, on the cache, or on
// pauses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/engine.hpp>

#include "engine/model_parts.hpp"
#include "engine/serving_fixture.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;

ServingOptions small(std::string backend = "pool") {
  ServingOptions options;
  options.backend = std::move(backend);
  options.context = 512;
  options.max_rows = 33;
  options.step_tokens = 64;
  return options;
}

/// Requests as different as they come; the same ones for the same count.
std::vector<ServingRequest> varied(std::size_t count) {
  std::vector<ServingRequest> requests(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto& request = requests[i];
    request.prompt_ids = tiny_prompt(1 + i * 7 % 120, i % 5);  // some begin with the same tokens
    request.max_tokens = 5 + i * 5 % 31;
    if (i % 3 == 1) {
      request.sampling.temperature = 1.0F;
      request.sampling.top_p = 0.9F;
      request.sampling.seed = i;
    }
    if (i % 4 == 2) {
      request.sampling.repetition_penalty = 1.3F;
      request.sampling.frequency_penalty = 0.2F;
    }
    if (i % 5 == 3) request.sampling.logit_bias = {{static_cast<TokenId>(i), 5.0F}};
    if (i % 2 == 0) request.logprobs = i % 6;
    if (i % 8 == 5) request.prompt_logprobs = 2;
    if (i % 11 == 7) request.kind = i % 2 == 0 ? RequestKind::embed_mean : RequestKind::embed_last_token;
  }
  return requests;
}

std::vector<Answer> alone(const Model& model, const ServingOptions& options,
                          const std::vector<ServingRequest>& requests) {
  auto without_cache = options;
  without_cache.prefix_cache = false;
  ServingEngine engine(model, without_cache);
  std::vector<Answer> answers;
  for (const auto& request : requests) {
    auto stream = engine.submit(request);
    answers.push_back(read_all(stream));
  }
  return answers;
}

std::vector<Answer> together(ServingEngine& engine, std::vector<ServingRequest> requests) {
  auto streams = engine.submit(std::move(requests));
  return read_all(streams);
}

TEST(Serving, AnswersLikeTheSingleEngine) {
  Engine single(tale(), {.backend = "pool"});
  ServingEngine serving(tale(), {.backend = "pool"});
  for (const char* prompt : {"Once upon a time", "The little dog was sad because"}) {
    Request request{.prompt = prompt, .max_tokens = 40};
    request.stop = {"gi"};
    const auto expected = single.generate(request);
    const TextSpan text{prompt, true};
    ServingRequest served;
    served.prompt_spans = {text};
    served.max_tokens = 40;
    served.stop = {"gi"};
    auto stream = serving.submit(served);
    const auto answer = read_all(stream);
    EXPECT_EQ(answer.text, expected.text);
    EXPECT_EQ(answer.ids, expected.ids);
    EXPECT_EQ(request_end_name(answer.end), finish_reason_name(expected.finish_reason));
    EXPECT_EQ(stream.prompt_tokens(), expected.prompt_ids.size());
  }
}

class Backends : public testing::TestWithParam<const char*> {};

TEST_P(Backends, AnswersDoNotDependOnTheCompany) {
  const auto requests = varied(33);
  const auto expected = alone(tiny(), small(GetParam()), requests);
  ServingEngine engine(tiny(), small(GetParam()));
  EXPECT_EQ(together(engine, requests), expected);
  // Again, with all of it in the cache.
  EXPECT_EQ(together(engine, requests), expected);
  EXPECT_GT(settled(engine).cache_hits, 50U);
}

INSTANTIATE_TEST_SUITE_P(Names, Backends, testing::Values("scalar", "reference", "pool"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(Serving, AnswersDoNotDependOnHowStepsAreFormed) {
  const auto requests = varied(33);
  const auto expected = alone(tiny(), small(), requests);
  struct Way {
    std::uint32_t rows, tokens, block_size, threads;
    double stretch;
  };
  for (const auto& way :
       {Way{2, 3, 16, 1, 0}, Way{33, 33, 256, 2, 2.5}, Way{5, 512, 1, 3, 0}, Way{8, 17, 32, 7, 1.1}}) {
    auto options = small();
    options.max_rows = way.rows;
    options.step_tokens = way.tokens;
    options.block_size = way.block_size;
    options.threads = way.threads;
    options.step_stretch = way.stretch;
    ServingEngine engine(tiny(), options);
    EXPECT_EQ(together(engine, requests), expected) << way.rows << " rows, " << way.tokens << " tokens";
  }
}

TEST(Serving, AnswersDoNotDependOnPauses) {
  const auto requests = varied(33);
  const auto expected = alone(tiny(), small(), requests);
  for (const bool cache : {true, false}) {
    auto options = small();
    options.kv_blocks = 16;  // 256 positions: two or three of them at a time
    options.lookahead = 0;
    options.prefix_cache = cache;
    ServingEngine engine(tiny(), options);
    EXPECT_EQ(together(engine, requests), expected);
    const auto metrics = settled(engine);
    EXPECT_GT(metrics.pauses, 0U);
    EXPECT_EQ(metrics.blocks_in_use, 0U);
    EXPECT_EQ(metrics.blocks_free + metrics.blocks_cached, 16U);
  }
}

/// Every prompt length around a block, then what conversations do: go on, change the end, change the
/// beginning.
TEST(Serving, AnswersDoNotDependOnTheCache) {
  std::vector<std::vector<TokenId>> prompts;
  ServingEngine without(tiny(), [] {
    auto options = small();
    options.prefix_cache = false;
    return options;
  }());
  ServingEngine with(tiny(), small());
  const auto ask = [](ServingEngine& engine, const std::vector<TokenId>& prompt, bool twice) {
    ServingRequest request;
    request.prompt_ids = prompt;
    request.max_tokens = 8;
    request.logprobs = 1;
    std::vector<ServingRequest> requests(twice ? 2 : 1, request);
    auto streams = engine.submit(std::move(requests));
    auto answers = read_all(streams);
    EXPECT_EQ(answers.front(), answers.back());
    EXPECT_LT(answers[0].outcome.usage.cached_tokens, prompt.size());
    return answers[0];
  };
  for (std::size_t length = 1; length <= 70; ++length) {
    auto prompt = tiny_prompt(length, length);
    const auto expected = ask(without, prompt, false);
    EXPECT_EQ(ask(with, prompt, true), expected) << length;
    const auto repeated = ask(with, prompt, false);
    EXPECT_EQ(repeated, expected) << length;
    EXPECT_EQ(repeated.outcome.usage.cached_tokens, (length - 1) / 16 * 16);

    auto longer = prompt;
    longer.insert(longer.end(), expected.ids.begin(), expected.ids.end());
    const auto more = tiny_prompt(5, 99);
    longer.insert(longer.end(), more.begin(), more.end());
    EXPECT_EQ(ask(with, longer, false), ask(without, longer, false)) << length;
    prompt.back() = 201;
    EXPECT_EQ(ask(with, prompt, false), ask(without, prompt, false)) << length;
    prompt.front() = 202;
    EXPECT_EQ(ask(with, prompt, false), ask(without, prompt, false)) << length;
  }
}

TEST(Serving, WhatWasGeneratedIsCachedToo) {
  ServingEngine engine(tiny(), small());
  ServingRequest request;
  request.prompt_ids = tiny_prompt(10, 1);
  request.max_tokens = 60;
  request.ignore_end_tokens = true;
  auto stream = engine.submit(request);
  const auto answer = read_all(stream);
  request.prompt_ids.insert(request.prompt_ids.end(), answer.ids.begin(), answer.ids.end());
  request.prompt_ids.push_back(3);
  stream = engine.submit(request);
  // 70 tokens, of which the last generated one was never run: 69 / 16 blocks.
  EXPECT_EQ(read_all(stream).outcome.usage.cached_tokens, 64U);
}

TEST(Serving, NamespacesShareNothing) {
  ServingEngine engine(tiny(), small());
  const auto cached = [&](std::string name, bool use) {
    ServingRequest request;
    request.prompt_ids = tiny_prompt(50, 1);
    request.max_tokens = 2;
    request.cache_namespace = std::move(name);
    request.use_prefix_cache = use;
    auto stream = engine.submit(request);
    return read_all(stream).outcome.usage.cached_tokens;
  };
  EXPECT_EQ(cached("a", false), 0U);
  EXPECT_EQ(cached("a", true), 0U);
  EXPECT_EQ(cached("b", true), 0U);
  EXPECT_EQ(cached("a", true), 48U);
  EXPECT_EQ(cached("b", true), 48U);
  EXPECT_EQ(cached("a", false), 0U);
}

TEST(Serving, ChoicesOfOnePromptRunItOnce) {
  ServingEngine engine(tiny(), small());
  std::vector<ServingRequest> choices(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    choices[i].prompt_ids = tiny_prompt(200, 1);
    choices[i].max_tokens = 4;
    choices[i].sampling.temperature = 5.0F;
    choices[i].sampling.seed = choice_seed(7, i);
  }
  const auto answers = together(engine, choices);
  EXPECT_NE(answers[0].ids, answers[1].ids);
  EXPECT_NE(answers[1].ids, answers[2].ids);
  EXPECT_EQ(answers[0].outcome.usage.cached_tokens, 0U);
  EXPECT_EQ(answers[1].outcome.usage.cached_tokens, 192U);
  EXPECT_EQ(settled(engine).prefilled_tokens, 200U + 2 * 8);
  EXPECT_EQ(together(engine, choices)[2], answers[2]);
}

/// Also where one token of a prompt is all that is run in a step.
TEST(Serving, EveryTokenOfAPromptIsCountedAsRunOrCached) {
  for (const std::uint32_t prompt : {1U, 2U, 16U, 17U, 33U}) {
    ServingEngine engine(tiny(), small());
    together(engine, std::vector<ServingRequest>(12, asking(prompt, 3)));
    const auto counts = settled(engine);
    EXPECT_EQ(counts.prompt_tokens, 12U * prompt);
    EXPECT_EQ(counts.recomputed_tokens, 0U);
    EXPECT_EQ(counts.prefilled_tokens + counts.cached_prompt_tokens, counts.prompt_tokens) << prompt;
  }
}

TEST(Serving, LogprobsAreOfTheWholeDistribution) {
  ServingEngine engine(scripted({}), small());
  ServingRequest request;
  request.prompt_ids = {5, 6, 7};
  request.max_tokens = 4;
  request.logprobs = 5;
  request.prompt_logprobs = 2;
  request.sampling.temperature = 0.3F;
  request.sampling.top_k = 1;
  request.sampling.logit_bias = {{9, 50.0F}};
  auto stream = engine.submit(request);
  const auto answer = read_all(stream);
  const auto each = static_cast<float>(-std::log(300.0));
  EXPECT_EQ(answer.ids, (std::vector<TokenId>(4, 9)));
  EXPECT_THAT(answer.logprobs, testing::Each(testing::FloatNear(each, 1e-5F)));
  EXPECT_EQ(answer.top_ids.front(), (std::vector<TokenId>{0, 1, 2, 3, 4}));
  ASSERT_EQ(answer.prompt_logprobs.size(), 3U);
  EXPECT_EQ(answer.prompt_logprobs[0], 0.0F);
  EXPECT_FLOAT_EQ(answer.prompt_logprobs[2], each);
}

/// Echo with max_tokens 0: the prompt's log-probabilities and nothing else.
TEST(Serving, APromptCanBeScoredWithoutGenerating) {
  ServingEngine engine(tiny(), small());
  ServingRequest request;
  request.prompt_ids = tiny_prompt(90, 4);
  request.max_tokens = 30;
  request.prompt_logprobs = 1;
  auto stream = engine.submit(request);
  const auto expected = read_all(stream);
  EXPECT_EQ(expected.prompt_logprobs.size(), 90U);
  request.max_tokens = 0;
  for (int i = 0; i < 2; ++i) {
    stream = engine.submit(request);
    const auto scored = read_all(stream);
    EXPECT_EQ(scored.prompt_logprobs, expected.prompt_logprobs);
    EXPECT_EQ(scored.outcome.usage.cached_tokens, 0U);
    EXPECT_TRUE(scored.ids.empty());
    EXPECT_EQ(scored.end, RequestEnd::length);
  }
}

TEST(Serving, EmbeddingsAreMeansOrLastStates) {
  const auto prompt = tiny_prompt(100, 8);
  const auto embed = [&](RequestKind kind, std::uint32_t step_tokens, bool normalize, bool warm) {
    auto options = small();
    options.step_tokens = step_tokens;
    ServingEngine engine(tiny(), options);
    ServingRequest request;
    request.kind = kind;
    request.prompt_ids = prompt;
    request.normalize = normalize;
    if (warm) {
      auto first = engine.submit(request);
      read_all(first);
    }
    auto stream = engine.submit(request);
    auto answer = read_all(stream);
    EXPECT_EQ(answer.end, RequestEnd::length);
    EXPECT_EQ(answer.embedding.size(), tiny().hidden_size());
    return answer.embedding;
  };
  for (const auto kind : {RequestKind::embed_mean, RequestKind::embed_last_token}) {
    const auto expected = embed(kind, 512, true, false);
    EXPECT_EQ(embed(kind, 33, true, false), expected);
    EXPECT_EQ(embed(kind, 512, true, true), expected);
    double squares = 0;
    for (const float value : expected) squares += static_cast<double>(value) * static_cast<double>(value);
    EXPECT_NEAR(squares, 1.0, 1e-5);
    EXPECT_NE(embed(kind, 512, false, false), expected);
  }
  EXPECT_NE(embed(RequestKind::embed_mean, 512, true, false),
            embed(RequestKind::embed_last_token, 512, true, false));
}

TEST(Serving, RefusesWhatMakesNoSense) {
  ServingEngine engine(tiny(), small());
  const auto refusal = [&](auto change) {
    ServingRequest request;
    request.prompt_ids = {1, 2};
    change(request);
    try {
      engine.submit(std::move(request));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(refusal([](auto& r) { r.prompt_ids = {512}; }), HasSubstr("512"));
  EXPECT_THAT(refusal([](auto& r) { r.prompt_ids = {-1}; }), HasSubstr("-1"));
  EXPECT_THAT(refusal([](auto& r) { r.stop_ids = {512}; }), HasSubstr("512"));
  EXPECT_THAT(refusal([](auto& r) { r.stop = {"x", ""}; }), HasSubstr("stop string is empty"));
  EXPECT_THAT(refusal([](auto& r) { r.logprobs = 21; }), HasSubstr("21"));
  EXPECT_THAT(refusal([](auto& r) { r.prompt_logprobs = 21; }), HasSubstr("21"));
  EXPECT_THAT(refusal([](auto& r) { r.sampling.temperature = -1; }), HasSubstr("temperature"));
  EXPECT_THAT(refusal([](auto& r) { r.sampling.logit_bias = {{999, 1.0F}}; }), HasSubstr("999"));
  EXPECT_EQ(engine.metrics().submitted, 0U);
  const auto option = [](auto change) {
    auto options = small();
    change(options);
    EXPECT_THROW(ServingEngine(tiny(), options), UsageError);
  };
  option([](auto& o) { o.max_rows = 0; });
  option([](auto& o) { o.step_tokens = 32; });
  option([](auto& o) { o.block_size = 48; });
  option([](auto& o) { o.step_stretch = 0.5; });
  option([](auto& o) { o.buffered_tokens = 0; });
  option([](auto& o) { o.backend = "abacus"; });
}

}  // namespace
}  // namespace inferno::test
