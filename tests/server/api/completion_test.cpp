// /v1/completions: prompts in all forms, echo, log-probabilities, best_of; streamed and not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/serving_fixture.hpp"
#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr float kFlat = 5.6F;  // about ln of the flat model's vocabulary

TEST(Completions, ShapeOfAWholeAnswerAndAStream) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const auto answer = served.answer(kCompletions, {{"prompt", "x\n"}});
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["id"].get<std::string>().substr(0, 5), "cmpl-");
  EXPECT_EQ(answer["choices"],
            nlohmann::json::parse(R"([{"index":0,"text":"ok","logprobs":null,"finish_reason":"stop"}])"));
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2);
  const auto chunks =
      served.stream(kCompletions, {{"prompt", "x\n"}, {"stream_options", {{"include_usage", true}}}});
  for (const auto& chunk : chunks) EXPECT_EQ(chunk["object"], "text_completion");
  EXPECT_EQ(join(chunks).text, "ok");
  EXPECT_EQ(join(chunks).finish_reasons.front(), "stop");
  EXPECT_EQ(chunks.back()["usage"]["completion_tokens"], 3);
}

TEST(Completions, TagsAreTextAndControlTokensInThePromptAreTokens) {
  Served served(model_that_writes({"<think>", "h", "</think>", "o", "<end>"}));
  EXPECT_EQ(served.answer(kCompletions, {{"prompt", "\n"}})["choices"][0]["text"], "<think>h</think>o");
  EXPECT_EQ(served.answer(kCompletions, {{"prompt", "<|im_start|>\n"}})["usage"]["prompt_tokens"], 2);
}

TEST(Completions, PromptsInAllForms) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const auto texts = [&](const Json& prompt, const Json& more = {}) {
    Json body{{"prompt", prompt}};
    if (more.is_object()) body.update(more);
    const auto answer = served.answer(kCompletions, body);
    std::vector<std::string> result;
    for (const auto& choice : answer["choices"]) {
      EXPECT_EQ(choice["index"], result.size());
      result.push_back(choice["text"]);
    }
    const auto chunks = served.stream(kCompletions, body);
    for (std::size_t i = 0; i < result.size(); ++i)
      EXPECT_EQ(join(chunks, static_cast<int>(i)).text, result[i]);
    return result;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("\n"), Texts{"ok"});
  EXPECT_EQ(texts(Json::array({10})), Texts{"ok"});
  EXPECT_EQ(texts(Json::array({10.0})), Texts{"ok"});
  EXPECT_EQ(texts(Json::array({Json::array({65, 10}), Json::array({10})})), (Texts{"ok", "ok"}));
  EXPECT_EQ(texts({"a\n", "b\n", "\n"}, {{"n", 2}}), Texts(6, "ok"));
  EXPECT_EQ(texts(Json::array({"\n", Json::array({10})})), (Texts{"ok", "ok"}));
  EXPECT_EQ(texts(std::vector<std::string>(300, "\n"), {{"max_tokens", 1}}).size(), 300U);
  // An empty prompt starts a text, as after <|endoftext|>.
  EXPECT_EQ(served.answer(kCompletions, {{"prompt", ""}, {"max_tokens", 1}})["usage"]["prompt_tokens"], 1);
  EXPECT_EQ(served.answer(kCompletions,
                          {{"prompt", Json::array({""})}, {"max_tokens", 1}})["usage"]["prompt_tokens"],
            1);
}

TEST(Completions, SixteenTokensUnlessAskedFor) {
  Served served(model_that_writes({"a", "b", "a"}));
  EXPECT_EQ(served.answer(kCompletions, {{"prompt", "\n"}})["usage"]["completion_tokens"], 16);
}

TEST(Completions, UpToTheContextAndNoFurther) {
  auto options = small_engine();
  options.context = 256;
  Served served(model_that_writes({"a", "b", "a"}), options);
  for (const std::size_t size : {1U, 15U, 16U, 17U, 254U, 255U, 256U, 257U, 5000U}) {
    for (const auto& most : Json{10, 100'000}) {
      const Json body{{"prompt", std::vector<int>(size, 10)}, {"max_tokens", most}};
      if (size >= 256) {
        const auto error = served.refusal(kCompletions, body);
        EXPECT_EQ(error["code"], "context_length_exceeded");
        EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(std::to_string(size)));
        continue;
      }
      const auto answer = served.answer(kCompletions, body);
      EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
      EXPECT_EQ(answer["usage"]["prompt_tokens"], size);
      EXPECT_EQ(answer["usage"]["completion_tokens"], std::min(most.get<std::size_t>(), 256 - size));
      EXPECT_EQ(answer["usage"]["total_tokens"], size + std::min(most.get<std::size_t>(), 256 - size));
      EXPECT_LT(answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::size_t>(), size);
    }
  }
}

TEST(Completions, Echo) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const Json body{{"prompt", "a\xC3\xA9\n"}, {"echo", true}};
  EXPECT_EQ(served.answer(kCompletions, body)["choices"][0]["text"], "a\xC3\xA9\nok");
  EXPECT_EQ(join(served.stream(kCompletions, body)).text, "a\xC3\xA9\nok");
  for (const auto& most : Json{0, 1}) {
    auto more = body;
    more["max_tokens"] = most;
    const auto text = most == 0 ? "a\xC3\xA9\n" : "a\xC3\xA9\no";
    EXPECT_EQ(served.answer(kCompletions, more)["choices"][0]["text"], text);
    EXPECT_EQ(served.answer(kCompletions, more)["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(join(served.stream(kCompletions, more)).text, text);
  }
  // Ids that are half a character.
  EXPECT_EQ(served.answer(kCompletions, {{"prompt", {0xC3, 10}}, {"echo", true}})["choices"][0]["text"],
            "\xEF\xBF\xBD\nok");
}

/// Not what stands for a text without tokens.
TEST(Completions, AnEchoHasOnlyWhatWasSent) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const Json body{{"prompt", ""}, {"echo", true}, {"max_tokens", 0}, {"logprobs", 1}};
  const auto choice = served.answer(kCompletions, body)["choices"][0];
  EXPECT_EQ(choice["text"], "");
  EXPECT_EQ(choice["logprobs"]["tokens"], nlohmann::json::array());
  EXPECT_EQ(join(served.stream(kCompletions, body)).text, "");
  auto longer = body;
  longer["max_tokens"] = 2;
  longer["logit_bias"] = {{"65", 100}};
  const auto more = served.answer(kCompletions, longer)["choices"][0];
  EXPECT_EQ(more["text"], "AA");
  EXPECT_EQ(more["logprobs"]["tokens"], nlohmann::json({"A", "A"}));
  EXPECT_EQ(more["logprobs"]["text_offset"], nlohmann::json({0, 1}));
  EXPECT_TRUE(more["logprobs"]["token_logprobs"][0].is_number());
  auto both = body;
  both["prompt"] = {"", "<|im_end|>"};
  const auto choices = served.answer(kCompletions, both)["choices"];
  EXPECT_EQ(choices[0]["text"], "");
  EXPECT_EQ(choices[1]["text"], "<|im_end|>");  // that was sent
}

TEST(Completions, OffsetsBehindBrokenCharacters) {
  Served served(tiny());
  const auto offsets = [&](const Json& prompt) {
    return served.answer(kCompletions, {{"prompt", prompt},
                                        {"echo", true},
                                        {"logprobs", 0},
                                        {"max_tokens", 0}})["choices"][0]["logprobs"]["text_offset"];
  };
  EXPECT_EQ(offsets({0xF0, 'a', 'b'}), nlohmann::json({0, 1, 2}));
  EXPECT_EQ(offsets({0xF0, 0xF0, 'a'}), nlohmann::json({0, 1, 2}));
  EXPECT_EQ(offsets({0xC3, 0xA9, 'a'}), nlohmann::json({0, 0, 1}));
}

/// The four lists, joined over a stream's chunks.
nlohmann::json streamed_logprobs(const std::vector<nlohmann::json>& chunks) {
  nlohmann::json lists;
  for (const auto& chunk : chunks) {
    for (const auto& choice : chunk["choices"]) {
      if (!choice["logprobs"].is_object()) continue;
      for (const auto& [name, list] : choice["logprobs"].items()) {
        for (const auto& item : list) lists[name].push_back(item);
      }
    }
  }
  return lists;
}

TEST(Completions, Logprobs) {
  Served served(flat_model());
  for (const int count : {0, 1, 5, 20}) {
    const Json body{{"prompt", "xyz"}, {"logprobs", count}, {"max_tokens", 4}, {"temperature", 0}};
    const auto lists = served.answer(kCompletions, body)["choices"][0]["logprobs"];
    ASSERT_EQ(lists["tokens"].size(), 4U);
    EXPECT_EQ(lists["token_logprobs"].size(), 4U);
    EXPECT_EQ(lists["text_offset"].size(), 4U);
    ASSERT_EQ(lists["top_logprobs"].size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(lists["text_offset"][i], i);
      EXPECT_EQ(lists["top_logprobs"][i].size(), std::max(count, 1));
      EXPECT_NEAR(lists["token_logprobs"][i].get<float>(), -kFlat, 0.1F);
      for (const auto& top : lists["top_logprobs"][i]) EXPECT_EQ(top, lists["token_logprobs"][i]);
    }
    EXPECT_EQ(streamed_logprobs(served.stream(kCompletions, body)), lists);
  }
  // The chosen token is in the map although it is not the most likely.
  const Json biased{{"prompt", "xyz"}, {"logprobs", 1}, {"max_tokens", 1}, {"logit_bias", {{"65", 100}}}};
  const auto top = served.answer(kCompletions, biased)["choices"][0]["logprobs"]["top_logprobs"][0];
  EXPECT_EQ(top.size(), 2U);
  EXPECT_TRUE(top.contains("A"));
}

TEST(Completions, EchoedLogprobsBeginWithNullAndDoNotDependOnTheCache) {
  Served served(tiny());
  const std::string prompt = "Once upon a time there was a little dog that liked to run.";
  const Json body{{"prompt", prompt}, {"echo", true}, {"logprobs", 2}, {"max_tokens", 0}};
  const auto first = served.answer(kCompletions, body)["choices"][0];
  EXPECT_EQ(first["text"], prompt);
  const auto& lists = first["logprobs"];
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  EXPECT_TRUE(lists["top_logprobs"][0].is_null());
  std::string joined;
  for (const auto& token : lists["tokens"]) joined += token.get<std::string>();
  EXPECT_EQ(joined, prompt);
  for (std::size_t i = 0; i < lists["tokens"].size(); ++i) {
    EXPECT_EQ(prompt.find(lists["tokens"][i].get<std::string>(), lists["text_offset"][i].get<std::size_t>()),
              lists["text_offset"][i].get<std::size_t>());
    if (i > 0) {
      EXPECT_LT(lists["token_logprobs"][i].get<float>(), 0);
    }
  }
  auto longer = body;
  longer["max_tokens"] = 5;
  longer["temperature"] = 0;
  served.answer(kCompletions, {{"prompt", prompt}, {"max_tokens", 3}});
  const auto second = served.answer(kCompletions, body)["choices"][0];
  EXPECT_EQ(second, first);
  const auto third = served.answer(kCompletions, longer)["choices"][0];
  for (std::size_t i = 0; i < lists["tokens"].size(); ++i) {
    EXPECT_EQ(third["logprobs"]["token_logprobs"][i], lists["token_logprobs"][i]);
  }
  EXPECT_EQ(third["logprobs"]["tokens"].size(), lists["tokens"].size() + 5);
  EXPECT_EQ(streamed_logprobs(served.stream(kCompletions, longer)), third["logprobs"]);
}

TEST(Completions, BestOfGivesTheLikeliest) {
  Served served(tiny());
  const Json body{{"prompt", "Once"}, {"temperature", 1}, {"seed", 3}, {"max_tokens", 6}, {"logprobs", 0}};
  const auto mean = [](const nlohmann::json& choice) {
    double sum = 0;
    for (const auto& logprob : choice["logprobs"]["token_logprobs"]) sum += logprob.get<double>();
    return sum / static_cast<double>(choice["logprobs"]["token_logprobs"].size());
  };
  auto all = body;
  all["n"] = 6;
  auto best = body;
  best["n"] = 2;
  best["best_of"] = 6;
  auto candidates = served.answer(kCompletions, all)["choices"].get<std::vector<nlohmann::json>>();
  const auto answer = served.answer(kCompletions, best);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const auto& left, const auto& right) { return mean(left) > mean(right); });
  ASSERT_EQ(answer["choices"].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], candidates[i]["text"]);
  }
  EXPECT_EQ(answer["usage"]["completion_tokens"], 36);
}

TEST(Completions, IdsBetweenTheTokenizerAndTheModelAreTokensWithoutText) {
  Served served(model_that_writes({}, 400));
  const auto answer = served.answer(
      kCompletions, {{"prompt", {399}}, {"logit_bias", {{"398", 100}}}, {"max_tokens", 4}, {"logprobs", 1}});
  EXPECT_EQ(answer["choices"][0]["text"], "");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 4);
  EXPECT_EQ(answer["choices"][0]["logprobs"]["tokens"], nlohmann::json({"", "", "", ""}));
  EXPECT_EQ(join(served.stream(kCompletions,
                               {{"prompt", {399}}, {"logit_bias", {{"398", 100}}}, {"max_tokens", 4}}))
                .text,
            "");
  EXPECT_EQ(served.refusal(kCompletions, {{"prompt", {400}}})["param"], "prompt[0]");
  EXPECT_EQ(served.answer(kCompletions, {{"prompt", "x"},
                                         {"stop_token_ids", {398}},
                                         {"logit_bias", {{"398", 100}}}})["choices"][0]["finish_reason"],
            "stop");
}

TEST(Completions, PenaltiesAndFiltersReachTheSampler) {
  Served served(flat_model());
  const auto text = [&](const Json& more) {
    Json body{{"prompt", "x"}, {"max_tokens", 3}, {"temperature", 0}};
    if (more.is_object()) body.update(more);
    return served.answer(kCompletions, body)["choices"][0]["text"].get<std::string>();
  };
  // Equal logits: the lowest id wins.
  EXPECT_EQ(text({}), std::string(3, '\0'));
  EXPECT_EQ(text({{"temperature", 1e-4}}), std::string(3, '\0'));
  EXPECT_EQ(text({{"presence_penalty", 1}}), std::string("\0\1\2", 3));
  EXPECT_EQ(text({{"frequency_penalty", 1}}), std::string("\0\1\2", 3));
  EXPECT_EQ(text({{"temperature", 1}, {"top_k", 1}}), std::string(3, '\0'));
  EXPECT_EQ(text({{"temperature", 1}, {"top_p", 0}}), std::string(3, '\0'));
  EXPECT_EQ(text({{"logit_bias", {{"65", 1}, {"66", 0.5}}}, {"repetition_penalty", 10}}), std::string("ABA"));
  EXPECT_EQ(text({{"logit_bias", {{"65", 1}}}, {"temperature", 1}, {"min_p", 1}}), "AAA");
}

}  // namespace
}  // namespace inferno::test
