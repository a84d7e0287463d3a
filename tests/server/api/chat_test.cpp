// /v1/chat/completions: shapes, who gets the text, where it ends, what it cost; streamed and not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "engine/model_parts.hpp"
#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

const Json kNoThinking = {{"chat_template_kwargs", {{"enable_thinking", false}}}};

/// The one choice of an answer.
nlohmann::json choice_of(Served& served, const Json& body) {
  return served.answer(kChat, body)["choices"][0];
}

/// Whole and streamed answers must say the same.
Joined both(Served& served, const Json& body) {
  const auto choice = choice_of(served, body);
  const auto joined = join(served.stream(kChat, body));
  const auto& message = choice["message"];
  EXPECT_EQ(joined.role, "assistant");
  EXPECT_EQ(message["content"].is_null() ? "" : message["content"].get<std::string>(), joined.content);
  EXPECT_EQ(message.value("reasoning_content", ""), joined.reasoning);
  EXPECT_EQ(choice["finish_reason"], joined.finish_reasons.front());
  if (choice["logprobs"].is_object()) {
    EXPECT_EQ(choice["logprobs"]["content"], joined.logprobs);
  }
  return joined;
}

TEST(Chat, ShapeOfAWholeAnswer) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const auto answer = served.answer(kChat, chat("Hi", {{"model", served.engine().model().name()}}));
  EXPECT_THAT(answer["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "scripted");
  EXPECT_TRUE(answer["created"].is_number_integer());
  ASSERT_EQ(answer["choices"].size(), 1U);
  EXPECT_EQ(answer["choices"][0],
            nlohmann::json::parse(R"({"index":0,"message":{"role":"assistant","content":"ok",
                                    "refusal":null},"logprobs":null,"finish_reason":"stop"})"));
  const auto& usage = answer["usage"];
  EXPECT_EQ(usage["completion_tokens"], 3);  // with the end token
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + 3);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST(Chat, ShapeOfAStream) {
  Served served(model_that_writes({"<think>", "\n", "h", "i", "</think>", "\n\n", "o", "k", "<end>"}));
  for (const auto& options :
       {Json(), Json{{"include_usage", false}}, Json{{"include_usage", true}}, Json(nullptr)}) {
    for (const unsigned most : {2U, 50U}) {
      auto body = chat("Hi", {{"stream", true}, {"max_tokens", most}});
      if (!options.is_null()) body["stream_options"] = options;
      const auto reply = served.ask(kChat, body);
      EXPECT_EQ(reply.status, 200U);
      EXPECT_EQ(reply.content_type, "text/event-stream");
      EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
      EXPECT_EQ(reply.header("X-Accel-Buffering"), "no");
      auto chunks = reply.chunks();
      const bool with_usage = options.is_object() && options["include_usage"].get<bool>();
      if (with_usage) {
        const auto last = chunks.back();
        chunks.pop_back();
        EXPECT_EQ(last["choices"], nlohmann::json::array());
        auto whole = body;
        whole.erase("stream");
        whole.erase("stream_options");
        auto usage = served.answer(kChat, whole)["usage"];
        usage["prompt_tokens_details"]["cached_tokens"] =
            last["usage"]["prompt_tokens_details"]["cached_tokens"];
        EXPECT_EQ(last["usage"], usage);
      }
      for (const auto& chunk : chunks) {
        EXPECT_EQ(chunk.contains("usage"), with_usage);
        if (with_usage) {
          EXPECT_TRUE(chunk["usage"].is_null());
        }
        for (const auto* name : {"id", "created", "model", "object", "system_fingerprint"}) {
          EXPECT_EQ(chunk[name], chunks.front()[name]);
        }
      }
      EXPECT_EQ(chunks.front()["object"], "chat.completion.chunk");
      EXPECT_EQ(join(chunks).finish_reasons, std::vector<std::string>{most == 2 ? "length" : "stop"});
    }
  }
}

TEST(Chat, AStreamCanTellWhatItHasCostSoFar) {
  Served served(model_that_writes({"<think>", "h", "</think>", "o", "k", "<end>"}));
  for (const auto& path : {kChat, kCompletions}) {
    auto body = chat("Hi", {{"n", 2}, {"temperature", 0}});
    body["prompt"] = "x\n";
    body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
    const auto chunks = served.stream(path, body);
    const auto& whole = chunks.back()["usage"];
    EXPECT_EQ(whole["completion_tokens"], 12);
    int before = 0;
    for (const auto& chunk : chunks) {
      const auto& usage = chunk["usage"];
      EXPECT_EQ(usage["prompt_tokens"], whole["prompt_tokens"]);
      EXPECT_EQ(usage["total_tokens"],
                usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
      EXPECT_GE(usage["completion_tokens"], before);
      before = usage["completion_tokens"];
    }
    EXPECT_EQ(chunks[chunks.size() - 2]["usage"]["completion_tokens"], whole["completion_tokens"]);
    // Only together with the usage at the end.
    body["stream_options"] = {{"continuous_usage_stats", true}};
    for (const auto& chunk : served.stream(path, body)) EXPECT_FALSE(chunk.contains("usage"));
  }
}

TEST(Chat, TheEndAtOnce) {
  Served served(model_that_writes({"<end>"}));
  const auto answer = served.answer(kChat, chat("Hi"));
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 1);
  EXPECT_EQ(both(served, chat("Hi")).content, "");
}

TEST(Chat, ThoughtsAreApart) {
  Served served(model_that_writes({"<think>", "\n", "h", "i", "</think>", "\n\n", "o", "k", "<end>"}));
  const auto whole = both(served, chat("Hi", {{"logprobs", true}}));
  EXPECT_EQ(whole.reasoning, "hi");
  EXPECT_EQ(whole.content, "ok");
  ASSERT_EQ(whole.logprobs.size(), 8U);
  EXPECT_EQ(whole.logprobs[0]["token"], "<think>");
  EXPECT_EQ(served.answer(kChat, chat("Hi"))["usage"]["completion_tokens_details"]["reasoning_tokens"], 5);
  for (unsigned most = 1; most <= 4; ++most) {
    const auto cut = both(served, chat("Hi", {{"max_tokens", most}}));
    EXPECT_EQ(cut.reasoning, most < 3 ? "" : most == 3 ? "h" : "hi");
    EXPECT_EQ(cut.content, "");
    EXPECT_EQ(cut.finish_reasons.front(), "length");
    const auto usage = served.answer(kChat, chat("Hi", {{"max_tokens", most}}))["usage"];
    EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], most);
    EXPECT_EQ(usage["completion_tokens"], most);
  }
}

TEST(Chat, TagsAreInNeitherField) {
  {
    Served served(model_that_writes({"<think>", "a", "</think>\n<think>b", "</think>", "c", "<end>"}));
    const auto answer = both(served, chat("Hi"));
    EXPECT_EQ(answer.reasoning, "a\n\nb");
    EXPECT_EQ(answer.content, "c");
  }
  {
    Served served(model_that_writes({"o", "</think>", "k", "<think>", "hm", "<end>"}));
    const auto answer = both(served, chat("Hi"));
    EXPECT_EQ(answer.reasoning, "hm");
    EXPECT_EQ(answer.content, "ok");
    EXPECT_EQ(served.answer(kChat, chat("Hi"))["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
  }
  {
    Served served(model_that_writes({"o", "</tool_call>", "k", "<end>"}));
    EXPECT_EQ(both(served, chat("Hi", {{"tools", Json::array({tool("f")})}})).content, "ok");
  }
}

TEST(Chat, ThinkingCanBeSwitchedOff) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const auto with = served.answer(kChat, chat("Hi"))["usage"]["prompt_tokens"].get<int>();
  // The prompt gets an empty block: two tags, two blank lines of two bytes each.
  for (const auto& off :
       {kNoThinking, Json{{"enable_thinking", false}}, Json{{"reasoning_effort", "none"}}}) {
    EXPECT_EQ(served.answer(kChat, chat("Hi", off))["usage"]["prompt_tokens"], with + 6);
    EXPECT_EQ(both(served, chat("Hi", off)).content, "ok");
  }
  for (const auto& on : {Json{{"chat_template_kwargs", nullptr}}, Json{{"reasoning_effort", "high"}},
                         Json{{"chat_template_kwargs", {{"enable_thinking", nullptr}}}}}) {
    EXPECT_EQ(served.answer(kChat, chat("Hi", on))["usage"]["prompt_tokens"], with);
  }
}

TEST(Chat, CharactersSplitOverTokensStayWhole) {
  const std::vector<std::string> pieces = {"a",    "\xF0\x9D", "\x84\x9E", "b",
                                           "\xE2", "\x80\x8D", "\xC3",     "<end>"};
  Served served(model_that_writes(pieces));
  EXPECT_EQ(both(served, chat("Hi")).content,
            "a\xF0\x9D\x84\x9E"
            "b\xE2\x80\x8D\xEF\xBF\xBD");
  for (unsigned most = 1; most <= 8; ++most)
    both(served, chat("Hi", {{"max_tokens", most}, {"logprobs", true}}));
}

TEST(Chat, StopStrings) {
  Served served(model_that_writes({"aba", "ba", "bac", "tail", "<end>"}));
  struct {
    Json stop;
    std::string text, reason;
  } const cases[] = {
      {{"bacta"}, "ababa", "stop"},
      {"bacta", "ababa", "stop"},
      {"ac", "ababab", "stop"},
      {"c", "abababa", "stop"},
      {"a", "", "stop"},
      {"zzz", "abababactail", "stop"},
      {"tailx", "abababactail", "stop"},
      {{"1", "2", "3", "4", "il"}, "abababacta", "stop"},
      {{"bact", "abac"}, "abab", "stop"},
      {Json::array(), "abababactail", "stop"},
  };
  for (const auto& one : cases) {
    const auto joined = both(served, chat("Hi", {{"stop", one.stop}, {"logprobs", true}}));
    EXPECT_EQ(joined.content, one.text) << one.stop;
    EXPECT_EQ(joined.finish_reasons.front(), one.reason);
    // Tokens that begin behind the cut belong to the stop string.
    std::string tokens;
    for (const auto& token : joined.logprobs) tokens += token["token"].get<std::string>();
    EXPECT_THAT(tokens, StartsWith(one.text));
    if (one.text == "ababa") {
      EXPECT_EQ(tokens, "ababa");
    }
  }
}

TEST(Chat, StopStringOfASplitCharacter) {
  Served served(model_that_writes({"a", "\xF0\x9D", "\x84\x9E", "b", "<end>"}));
  EXPECT_EQ(both(served, chat("Hi", {{"stop", "\xF0\x9D\x84\x9E"}})).content, "a");
}

TEST(Chat, StopStringsApplyWithinThoughtsToo) {
  Served served(model_that_writes({"<think>", "h", "j", "</think>", "o", "k", "<end>"}));
  const auto joined = both(served, chat("Hi", {{"stop", "j"}}));
  EXPECT_EQ(joined.reasoning, "h");
  EXPECT_EQ(joined.content, "");
}

TEST(Chat, MaxTokensAtItsEdges) {
  Served served(model_that_writes({"a", "b", "c", "a"}));
  const auto tokens = [&](const Json& more) {
    const auto answer = served.answer(kChat, chat("Hi", more));
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
    return answer["usage"]["completion_tokens"].get<int>();
  };
  const auto prompt =
      served.answer(kChat, chat("Hi", {{"max_tokens", 1}}))["usage"]["prompt_tokens"].get<int>();
  EXPECT_EQ(tokens({{"max_tokens", 0}}), 0);
  EXPECT_EQ(tokens({{"max_tokens", 1}}), 1);
  EXPECT_EQ(tokens({{"max_tokens", 1.0}}), 1);
  EXPECT_EQ(tokens({{"max_completion_tokens", 3}, {"max_tokens", 9}}), 3);
  EXPECT_EQ(tokens({{"max_completion_tokens", 9}, {"max_tokens", 3}}), 9);
  for (const auto& most : Json{2147483648, 9223372036854775808U, 18446744073709551615U, 1e30, nullptr}) {
    EXPECT_EQ(tokens({{"max_tokens", most}}), static_cast<int>(small_engine().context) - prompt);
  }
  EXPECT_EQ(both(served, chat("Hi", {{"max_tokens", 0}})).content, "");
}

TEST(Chat, SeedsAndChoices) {
  Served served(flat_model());
  const auto texts = [&](const Json& more) {
    std::vector<std::string> result;
    auto body = chat("Hi", {{"max_tokens", 8}, {"temperature", 1}});
    if (more.is_object()) body.update(more);
    const auto answer = served.answer(kChat, body);
    for (const auto& choice : answer["choices"]) {
      EXPECT_EQ(choice["index"], result.size());
      result.push_back(choice["message"]["content"]);
    }
    const auto chunks = served.stream(kChat, body);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto joined = join(chunks, static_cast<int>(i));
      if (body.contains("seed") && body["seed"] != -1) {
        EXPECT_EQ(joined.content, result[i]);
      }
      EXPECT_EQ(joined.finish_reasons.size(), 1U);
    }
    return result;
  };
  const auto seven = texts({{"seed", 7}});
  EXPECT_EQ(seven, texts({{"seed", 7}}));
  EXPECT_GT(std::set<char>(seven[0].begin(), seven[0].end()).size(), 1U);
  const auto three = texts({{"seed", 7}, {"n", 3}});
  EXPECT_EQ(three, texts({{"seed", 7}, {"n", 3}}));
  EXPECT_EQ(three[0], seven[0]);
  EXPECT_EQ(std::set<std::string>(three.begin(), three.end()).size(), 3U);
  std::set<std::string> different;
  for (const auto& seed : Json{0, 1, 4294967296, 9223372036854775807, 18446744073709551615U, -2}) {
    EXPECT_EQ(texts({{"seed", seed}}), texts({{"seed", seed}}));
    different.insert(texts({{"seed", seed}})[0]);
  }
  EXPECT_EQ(different.size(), 6U);
  EXPECT_NE(texts({}), texts({}));
  EXPECT_NE(texts({{"seed", -1}}), texts({{"seed", -1}}));  // any
  const auto greedy = texts({{"temperature", 0}, {"n", 3}});
  EXPECT_EQ(greedy, std::vector<std::string>(3, greedy[0]));
}

TEST(Chat, ChoicesOfOnePromptRunItOnce) {
  Served served(flat_model());
  const auto before = served.settled().prefilled_tokens;
  const auto answer =
      served.answer(kChat, chat(std::string(200, 'x'), {{"n", 8}, {"temperature", 0}, {"max_tokens", 2}}));
  const auto prompt = answer["usage"]["prompt_tokens"].get<std::uint64_t>();
  EXPECT_EQ(answer["usage"]["completion_tokens"], 16);
  EXPECT_LT(served.settled().prefilled_tokens - before, prompt + 8 * 32);
}

TEST(Chat, MoreChoicesThanTheEngineHasRows) {
  auto options = small_engine();
  options.max_rows = 3;
  options.max_queue = 0;
  Served served(flat_model(), options);
  const auto body = chat("Hi", {{"n", 20}, {"seed", 1}, {"max_tokens", 4}});
  const auto answer = served.answer(kChat, body);
  ASSERT_EQ(answer["choices"].size(), 20U);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 80);
  const auto chunks = served.stream(kChat, body);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Json(join(chunks, i).content),
              answer["choices"][static_cast<std::size_t>(i)]["message"]["content"]);
  }
}

TEST(Chat, LogitBias) {
  const std::vector<std::string> pieces = {"o", "k", "<end>"};
  Served served(model_that_writes(pieces));
  const auto ids = vocabulary_of(pieces).second;
  const auto text = [&](const Json& bias, double temperature) {
    return both(served,
                chat("Hi",
                     {{"logit_bias", bias}, {"temperature", temperature}, {"max_tokens", 3}, {"seed", 1}}))
        .content;
  };
  EXPECT_EQ(text({{std::to_string(ids[1]), -100}}, 0).substr(0, 1), "o");
  for (const double temperature : {0.0, 1.0, 100.0}) {
    EXPECT_THAT(text({{std::to_string(ids[1]), -100}}, temperature), Not(HasSubstr("ok")));
  }
  EXPECT_EQ(text({{"65", 100}}, 0), "AAA");
  EXPECT_EQ(text(Json(), 0), "ok");  // nothing is carried over
  EXPECT_EQ(text(Json::object(), 0), "ok");
  Json all;
  for (std::uint32_t id = 0; id < served.engine().model().vocab_size(); ++id) all[std::to_string(id)] = -100;
  for (const auto& path : {kChat, kCompletions}) {
    for (const bool streams : {false, true}) {
      auto body = chat("Hi", {{"logit_bias", all}, {"prompt", "Hi"}, {"stream", streams}});
      const auto error = served.refusal(path, body);
      EXPECT_EQ(error["param"], "logit_bias");
      EXPECT_EQ(error["code"], "invalid_value");
      EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("at least one that may come"));
    }
  }
  all.erase("66");
  EXPECT_EQ(text(all, 1), "BBB");
}

TEST(Chat, RaisedExceptionsAndBrokenTemplatesAreErrorsOfTheRequest) {
  const auto& model = flat_model();
  const auto with = [&](std::string_view source) {
    const TemporaryFolder folder;
    api::ApiOptions options;
    options.templates = std::make_shared<ChatTemplates>(
        ChatTemplates::from_file(folder.write("t.jinja", source), model.parts().tokenizer));
    return std::make_unique<Served>(model, small_engine(), options);
  };
  const auto refused = with("{{ raise_exception('no: never') }}")->refusal(kChat, chat("Hi"));
  EXPECT_THAT(refused["message"].get<std::string>(), HasSubstr("no: never"));
  EXPECT_EQ(refused["code"], "chat_template_failed");
  EXPECT_EQ(refused["param"], "messages");
  EXPECT_EQ(with("{{ messages[0].content.nothing.more }}")->refusal(kChat, chat("Hi"))["code"],
            "chat_template_failed");
  EXPECT_THAT(with("{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}")
                  ->refusal(kChat, chat("Hi"))["message"]
                  .get<std::string>(),
              HasSubstr("steps"));
}

TEST(Chat, ManyMessages) {
  auto options = small_engine();
  options.context = 0;
  Served served(flat_model(), options);
  Json messages = Json::array();
  for (int i = 0; i < 50'000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", "x"}});
  const auto error = served.refusal(kChat, {{"messages", messages}});
  EXPECT_EQ(error["code"], "context_length_exceeded");
}

TEST(Models, NamesMustDifferAndBeText) {
  EXPECT_NO_THROW(api::check_model_names({"a", "b", "Qwen/Qwen3 0.6B (é)"}));
  for (const auto& names : std::vector<std::vector<std::string>>{{"a", "b", "a"},
                                                                 {""},
                                                                 {"a", ""},
                                                                 {"a\nb"},
                                                                 {"\xFF"},
                                                                 {std::string(257, 'x')},
                                                                 {std::string("a\0b", 3)}}) {
    EXPECT_THROW(api::check_model_names(names), UsageError) << names.back();
  }
  api::ApiOptions options;
  options.model_name = "a";
  options.aliases = {"b", "a"};
  EXPECT_THROW(Served(flat_model(), small_engine(), options), UsageError);
}

TEST(Models, AreListedWithTheirAliases) {
  api::ApiOptions options;
  options.model_name = "tale/one";
  options.aliases = {"gpt-4o"};
  Served served(model_that_writes({"o", "k", "<end>"}), small_engine(), options);
  const auto list = served.send("GET", "/v1/models")->wait().json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "tale/one");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["max_model_len"], small_engine().context);
  EXPECT_EQ(served.send("GET", "/v1/models/tale/one")->wait().json(), list["data"][0]);
  EXPECT_EQ(served.send("GET", "/v1/models/gpt-4o")->wait().json(), list["data"][1]);
  EXPECT_EQ(served.send("GET", "/v1/models/other")->wait().status, 404U);
  EXPECT_EQ(served.send("GET", "/v1/models/")->wait().status, 404U);
  EXPECT_EQ(served.answer(kChat, chat("Hi", {{"model", "gpt-4o"}}))["model"], "tale/one");
}

}  // namespace
}  // namespace inferno::test
