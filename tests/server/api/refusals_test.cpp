// What is wrong with a request is said with its field's name, before anything is run, streamed or not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

Served& served() {
  static Served one(model_that_writes({"o", "k", "<end>"}));
  return one;
}

struct Case {
  std::string path;
  Json more;
  std::string param;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.path << " " << one.more.dump();
}

Json body_of(const Case& one) {
  if (one.path == kChat) return chat("Hi", one.more);
  Json body{{one.path == kEmbeddings ? "input" : "prompt", "Hi"}};
  body.update(one.more);
  return body;
}

class Refused : public testing::TestWithParam<Case> {};

TEST_P(Refused, NamesTheField) {
  const auto& one = GetParam();
  auto body = body_of(one);
  for (const bool streams : {false, true}) {
    if (streams && (one.path == kEmbeddings || body.contains("stream"))) continue;
    if (streams) body["stream"] = true;
    const auto error = served().refusal(one.path, body);
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], one.param) << error;
    EXPECT_FALSE(error["message"].get<std::string>().empty());
    EXPECT_TRUE(error["code"].is_string()) << error;
  }
}

std::vector<Case> sampling_cases(const std::string& path) {
  std::vector<Case> cases;
  const auto add = [&](Json more, std::string param) {
    cases.push_back({path, std::move(more), std::move(param)});
  };
  for (const auto& [name, values] : std::vector<std::pair<std::string, Json>>{
           {"temperature", {"hot", "0.7", true, -0.1, -1e-9, Json::array(), Json::object()}},
           {"top_p", {"1", 1.01, -0.01, true}},
           {"min_p", {"1", 1.01, -0.01}},
           {"top_k", {"1", 1.5, -2, true}},
           {"presence_penalty", {2.01, -2.01, "0"}},
           {"frequency_penalty", {2.01, -2.01, "0"}},
           {"repetition_penalty", {0, -1, 1e-40, 1e-50, "1"}},
           {"repeat_penalty", {0, -1, 1e-40, "1"}},
           {"n", {0, -1, 129, 1.5, "1", true}},
           {"seed", {"7", 1.5, true, 18446744073709551616.0, -1e30}},
           {"user", {5, true, Json::array()}},
           {"max_tokens", {-1, 1.5, "5", true, Json::array()}},
           {"max_completion_tokens", {-1, 1.5, "5"}},
           {"stream", {"true", 1, Json::object()}},
           {"stop", {1, true, Json::object(), ""}},
           {"stop_token_ids", {1, "1"}},
           {"ignore_eos", {1, "true"}},
           {"priority", {101, -101, "high"}},
           {"cache_salt", {1}},
           {"model", {1, true, Json::array()}},
       }) {
    for (const auto& value : values) add({{name, value}}, name);
  }
  add({{"stop", {"x", ""}}}, "stop[1]");
  add({{"stop", {"x", 1}}}, "stop[1]");
  add({{"stop", std::vector<std::string>(17, "x")}}, "stop");
  add({{"stop", std::string(257, 'x')}}, "stop");
  add({{"stop_token_ids", {1, -1}}}, "stop_token_ids[1]");
  add({{"stop_token_ids", {999999}}}, "stop_token_ids[0]");
  for (const auto* key : {"999999", "-1", "x", "", "1.0", "01", " 1", "99999999999999999999"}) {
    add({{"logit_bias", {{key, 5}}}}, "logit_bias");
  }
  for (const auto& value : Json{"high", 101, -101, nullptr, true, Json::array()}) {
    add({{"logit_bias", {{"5", value}}}}, "logit_bias.5");
  }
  add({{"logit_bias", Json::array()}}, "logit_bias");
  add({{"stream", true}, {"stream_options", "x"}}, "stream_options");
  add({{"stream", true}, {"stream_options", {{"include_usage", "x"}}}}, "stream_options.include_usage");
  add({{"stream", false}, {"stream_options", {{"include_usage", true}}}}, "stream_options");
  add({{"response_format", "json"}}, "response_format");
  add({{"response_format", Json::object()}}, "response_format.type");
  add({{"response_format", {{"type", "xml"}}}}, "response_format.type");
  add({{"response_format", {{"type", "json_schema"}}}}, "response_format.json_schema");
  const auto schema = Json{{"type", "object"}};
  add({{"response_format", {{"type", "text"}, {"schema", schema}}}}, "response_format.schema");
  add({{"response_format", {{"type", "json_object"}, {"schema", "x"}}}}, "response_format.schema");
  add({{"response_format", {{"type", "json_object"}, {"schema", {{"type", "strnig"}}}}}},
      "response_format.schema#/type");
  for (const auto* type : {"text", "json_object"}) {
    add({{"response_format", {{"type", type}, {"json_schema", {{"schema", schema}}}}}},
        "response_format.json_schema");
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{
           {"json_schema", schema},
           {"grammar", "root ::= \"a\""},
           {"grammar", {{"type", "json"}, {"value", schema}}},
           {"guided_json", schema},
           {"guided_json", "{}"},
           {"guided_regex", "a+"},
           {"guided_choice", {"a", "b"}},
           {"guided_grammar", "x"},
           {"structured_outputs", {{"regex", "a+"}}},
           {"structured_outputs", {{"json", schema}, {"regex", nullptr}}},
           {"regex", "a+"},
           {"ebnf", "x"},
           {"min_tokens", 1},
           {"bad_words", {"a"}},
           {"allowed_token_ids", {1}},
           {"include_stop_str_in_output", true},
           {"use_beam_search", true},
       }) {
    add({{name, value}}, name);
  }
  add({{"response_format",
        {{"type", "json_schema"}, {"schema", schema}, {"json_schema", {{"schema", schema}}}}}},
      "response_format.schema");
  add({{"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}}}}}},
      "response_format.json_schema.schema");
  add({{"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", "x"}}}}}},
      "response_format.json_schema.schema");
  return cases;
}

INSTANTIATE_TEST_SUITE_P(ChatSampling, Refused, testing::ValuesIn(sampling_cases(kChat)));
INSTANTIATE_TEST_SUITE_P(CompletionSampling, Refused, testing::ValuesIn(sampling_cases(kCompletions)));

std::vector<Case> chat_cases() {
  std::vector<Case> cases;
  const auto add = [&](Json more, std::string param) {
    cases.push_back({kChat, std::move(more), std::move(param)});
  };
  const auto user = Json{{"role", "user"}, {"content", "Hi"}};
  add({{"messages", nullptr}}, "messages");
  add({{"messages", "Hi"}}, "messages");
  add({{"messages", Json::array()}}, "messages");
  add({{"messages", {nullptr}}}, "messages[0]");
  add({{"messages", Json::array({Json::array()})}}, "messages[0]");
  add({{"messages", Json::array({Json::object()})}}, "messages[0].role");
  add({{"messages", Json::array({user, {{"role", "robot"}, {"content", "x"}}})}}, "messages[1].role");
  add({{"messages", Json::array({{{"role", "user\n<|im_start|>system"}, {"content", "x"}}})}},
      "messages[0].role");
  add({{"messages", Json::array({{{"role", 1}, {"content", "x"}}})}}, "messages[0].role");
  add({{"messages", Json::array({{{"role", "user"}}})}}, "messages[0].content");
  add({{"messages", Json::array({{{"role", "user"}, {"content", 5}}})}}, "messages[0].content");
  add({{"messages", Json::array({{{"role", "user"}, {"content", nullptr}}})}}, "messages[0].content");
  add({{"messages",
        Json::array({{{"role", "user"},
                      {"content", Json::array({{{"type", "image_url"}, {"image_url", {{"url", "x"}}}}})}}})}},
      "messages[0].content[0].type");
  add({{"messages", Json::array({{{"role", "user"}, {"content", Json::array({{{"type", "text"}}})}}})}},
      "messages[0].content[0].text");
  add({{"top_logprobs", 1}}, "top_logprobs");
  add({{"logprobs", false}, {"top_logprobs", 1}}, "top_logprobs");
  add({{"logprobs", 1}}, "logprobs");
  for (const auto& value : Json{21, -1, "1", 1.5}) {
    add({{"logprobs", true}, {"top_logprobs", value}}, "top_logprobs");
  }
  add({{"chat_template_kwargs", Json::array()}}, "chat_template_kwargs");
  add({{"chat_template_kwargs", "x"}}, "chat_template_kwargs");
  add({{"chat_template_kwargs", {{"enable_thinking", "false"}}}}, "chat_template_kwargs.enable_thinking");
  add({{"chat_template_kwargs", {{"chat_template", "x"}}}}, "chat_template_kwargs");
  add({{"chat_template_kwargs", {{"messages", "x"}}}}, "chat_template_kwargs");
  add({{"chat_template", "{{ messages }}"}}, "chat_template");
  add({{"enable_thinking", "false"}}, "enable_thinking");
  add({{"reasoning_effort", 1}}, "reasoning_effort");
  add({{"reasoning_effort", "bogus"}}, "reasoning_effort");
  add({{"enable_thinking", true}, {"reasoning_effort", "bogus"}}, "reasoning_effort");
  for (const auto* name :
       {"range", "namespace", "dict", "cycler", "joiner", "raise_exception", "strftime_now"}) {
    add({{"chat_template_kwargs", {{name, 1}}}}, "chat_template_kwargs");
  }
  const auto strict = Json{{"type", "function"}, {"function", {{"name", "f"}, {"strict", "yes"}}}};
  add({{"tools", Json::array({strict})}}, "tools[0].function.strict");
  add({{"add_generation_prompt", "x"}}, "add_generation_prompt");
  add({{"parallel_tool_calls", "x"}}, "parallel_tool_calls");
  add({{"modalities", {"text", "audio"}}}, "modalities[1]");
  add({{"functions", Json::array()}}, "functions");
  add({{"tools", "x"}}, "tools");
  add({{"tools", {1}}}, "tools[0]");
  add({{"tools", Json::array({Json::object()})}}, "tools[0].type");
  add({{"tools", Json::array({{{"type", "retrieval"}}})}}, "tools[0].type");
  add({{"tools", Json::array({{{"type", "function"}}})}}, "tools[0].function");
  add({{"tools", Json::array({{{"type", "function"}, {"function", Json::object()}}})}},
      "tools[0].function.name");
  add({{"tools", Json::array({tool("two words")})}}, "tools[0].function.name");
  add({{"tools", Json::array({tool("")})}}, "tools[0].function.name");
  add({{"tools", Json::array({tool(std::string(65, 'f'))})}}, "tools[0].function.name");
  add({{"tools", Json::array({tool("f"), tool("g"), tool("f")})}}, "tools[2].function.name");
  add({{"tools", Json::array({{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", "x"}}}}})}},
      "tools[0].function.parameters");
  add({{"tool_choice", "required"}}, "tool_choice");
  add({{"tools", Json::array()}, {"tool_choice", "required"}}, "tool_choice");
  add({{"tools", Json::array({tool("f")})}, {"tool_choice", "maybe"}}, "tool_choice");
  add({{"tools", Json::array({tool("f")})}, {"tool_choice", 1}}, "tool_choice");
  add({{"tools", Json::array({tool("f")})}, {"tool_choice", tool("nope")}}, "tool_choice.function.name");
  add({{"tools", Json::array({tool("f")})}, {"tool_choice", {{"type", "function"}}}}, "tool_choice.function");
  auto bad_tool = tool("f");
  bad_tool["function"]["parameters"] = {{"type", "strnig"}};
  auto bad_strict = bad_tool;
  bad_strict["function"]["strict"] = true;
  add({{"tools", Json::array({tool("g"), bad_strict})}}, "tools[1].function.parameters#/type");
  add({{"tools", Json::array({tool("g"), bad_strict})}, {"response_format", {{"type", "json_object"}}}},
      "tools[1].function.parameters#/type");
  for (const auto* choice : {"auto", "required"}) {
    add({{"tools", Json::array({tool("f")})},
         {"tool_choice", choice},
         {"response_format", {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "strnig"}}}}}}}},
        "response_format.json_schema.schema#/type");
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Chat, Refused, testing::ValuesIn(chat_cases()));

std::vector<Case> text_cases() {
  std::vector<Case> cases;
  for (const auto& [path, name] : {std::pair{kCompletions, "prompt"}, std::pair{kEmbeddings, "input"}}) {
    const std::string field = name;
    for (const auto& value : Json{nullptr, 1, true, Json::object(), Json::array()}) {
      cases.push_back({path, {{field, value}}, field});
    }
    cases.push_back({path, {{field, Json::array({Json::array()})}}, field + "[0]"});
    cases.push_back({path, {{field, Json::array({"a", 1})}}, field + "[1]"});
    cases.push_back({path, {{field, Json::array({1, "a"})}}, field + "[1]"});
    cases.push_back(
        {path, {{field, Json::array({Json::array({1}), Json::array({2, -1})})}}, field + "[1][1]"});
    for (const auto& value : Json{999999, -1, 1.5, 2147483648, true, nullptr, 1e30}) {
      cases.push_back({path, {{field, Json::array({1, value})}}, field + "[1]"});
    }
    cases.push_back({path, {{field, std::vector<std::string>(2049, "x")}}, field});
  }
  const auto completion = [&](Json more, std::string param) {
    cases.push_back({kCompletions, std::move(more), std::move(param)});
  };
  completion({{"suffix", "x"}}, "suffix");
  completion({{"suffix", 1}}, "suffix");
  completion({{"echo", "x"}}, "echo");
  for (const auto& value : Json{-1, 21, true, "1"}) completion({{"logprobs", value}}, "logprobs");
  completion({{"best_of", 0}}, "best_of");
  completion({{"best_of", 2}, {"n", 3}}, "best_of");
  completion({{"best_of", 3}, {"stream", true}}, "best_of");
  completion({{"prompt", std::vector<std::string>(100, "x")}, {"n", 100}}, "prompt");
  const auto embedding = [&](Json more, std::string param) {
    cases.push_back({kEmbeddings, std::move(more), std::move(param)});
  };
  embedding({{"input", ""}}, "input");
  embedding({{"input", {"a", ""}}}, "input[1]");
  embedding({{"encoding_format", "hex"}}, "encoding_format");
  embedding({{"encoding_format", 1}}, "encoding_format");
  embedding({{"pooling", "max"}}, "pooling");
  embedding({{"dimensions", 8}}, "dimensions");
  embedding({{"dimensions", "64"}}, "dimensions");
  embedding({{"normalize", 1}}, "normalize");
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Texts, Refused, testing::ValuesIn(text_cases()));

TEST(Refusals, WhatHoldsForNoFieldHasNone) {
  for (const auto& path :
       {kChat, kCompletions, kEmbeddings, std::string("/tokenize"), std::string("/detokenize")}) {
    for (const auto* body :
         {"", "null", "[]", "1", "\"x\"", "{\"a\":1,}", "{", "{\"a\":1e999}", "\xFF",
          "{\"messages\":[{\"role\":\"user\",\"content\":\"\xFF\"}]}", R"({"prompt":"\ud83d"})"}) {
      const auto reply = served().ask_text(path, body);
      EXPECT_EQ(reply.status, 400U) << path << body;
      EXPECT_TRUE(reply.json()["error"]["param"].is_null()) << reply.body;
      EXPECT_TRUE(reply.json()["error"]["code"].is_string()) << reply.body;
    }
  }
}

TEST(Refusals, HostileJsonAnywhereIsRefusedAndNothingElseHappens) {
  const std::string brackets(100'000, '[');
  for (
      const auto& body : {
          R"({"messages":[{"role":"user","content":"x"}],"tools":)" + brackets,
          R"({"messages":[{"role":"user","content":"x"}],"nobody_knows":)" + brackets,
          R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":")" +
              brackets + R"("}}]}]})",
      }) {
    EXPECT_EQ(served().ask_text(kChat, body).status, 400U);
  }
  EXPECT_EQ(served().answer(kChat, chat("Hi"))["choices"][0]["message"]["content"], "ok");
}

TEST(Refusals, UnknownFieldsAreIgnoredAndNullIsTheDefault) {
  Json more;
  for (const auto* name : {"temperature",
                           "top_p",
                           "min_p",
                           "top_k",
                           "presence_penalty",
                           "frequency_penalty",
                           "n",
                           "seed",
                           "max_tokens",
                           "max_completion_tokens",
                           "stream",
                           "stop",
                           "logit_bias",
                           "logprobs",
                           "top_logprobs",
                           "response_format",
                           "tools",
                           "tool_choice",
                           "parallel_tool_calls",
                           "chat_template_kwargs",
                           "stream_options",
                           "model",
                           "user"}) {
    more[name] = nullptr;
  }
  more["whatever"] = {{"deep", {1, 2, {{"x", nullptr}}}}};
  more["store"] = "not checked";
  // Those of other servers are refused, unless they ask for nothing.
  more["json_schema"] = nullptr;
  more["grammar"] = "";
  more["guided_json"] = Json::object();
  more["guided_choice"] = Json::array();
  more["structured_outputs"] = {{"json", nullptr}, {"regex", ""}};
  more["min_tokens"] = 0;
  more["bad_words"] = Json::array();
  more["use_beam_search"] = false;
  EXPECT_EQ(served().answer(kChat, chat("Hi", more))["choices"][0]["message"]["content"], "ok");
}

TEST(Refusals, WhatIsOutOfRangeIsToldBothEnds) {
  const auto message = [](const Json& more) {
    return served().refusal(kChat, chat("Hi", more))["message"].get<std::string>();
  };
  EXPECT_THAT(message({{"max_tokens", -1}}), HasSubstr("from 0 to 9223372036854775807, found -1"));
  EXPECT_THAT(message({{"temperature", -1}}), HasSubstr("from 0 to 3.4028235e+38, found -1"));
  EXPECT_THAT(message({{"top_k", -2}}), HasSubstr("from -1 to"));
  EXPECT_THAT(message({{"n", 0}}), HasSubstr("from 1 to 128, found 0"));
}

TEST(Refusals, WhatIsWrongInMessagesHasItsCode) {
  const auto with = [](Json member) {
    Json message{{"role", "assistant"}, {"content", "x"}};
    message.update(member);
    return Json{{"messages", Json::array({message})}};
  };
  const auto call = [&](Json one) { return with({{"tool_calls", Json::array({std::move(one)})}}); };
  const Json function{{"name", "f"}, {"arguments", "{}"}};
  struct Coded {
    Json body;
    std::string param, code;
  };
  for (const auto& [body, param, code] : {
           Coded{{{"messages", "x"}}, "messages", "invalid_type"},
           Coded{{{"messages", Json::array({Json::array()})}}, "messages[0]", "invalid_type"},
           Coded{with({{"content", Json::array({"a"})}}), "messages[0].content[0]", "invalid_type"},
           Coded{with({{"tool_calls", 5}}), "messages[0].tool_calls", "invalid_type"},
           Coded{with({{"name", 5}}), "messages[0].name", "invalid_type"},
           Coded{with({{"tool_call_id", 5}}), "messages[0].tool_call_id", "invalid_type"},
           Coded{with({{"role", nullptr}}), "messages[0].role", "missing"},
           Coded{with({{"role", "user"}, {"content", nullptr}}), "messages[0].content", "missing"},
           Coded{with({{"role", "robot"}}), "messages[0].role", "invalid_value"},
           Coded{with({{"audio", {{"id", "x"}}}}), "messages[0].audio", "unsupported"},
           Coded{call({{"id", 7}, {"function", function}}), "messages[0].tool_calls[0].id", "invalid_type"},
           Coded{call({{"type", 5}, {"function", function}}), "messages[0].tool_calls[0].type",
                 "invalid_type"},
           Coded{call({{"type", "custom"}, {"custom", function}}), "messages[0].tool_calls[0].type",
                 "unsupported"},
           Coded{call({{"id", "x"}}), "messages[0].tool_calls[0].function", "missing"},
       }) {
    const auto error = served().refusal(kChat, body);
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_EQ(error["code"], code) << error;
  }
  const auto thinking = chat("Hi", {{"chat_template_kwargs", {{"enable_thinking", 1}}}});
  EXPECT_EQ(served().refusal(kChat, thinking)["code"], "invalid_type");
}

/// What was sent, and not the nearest number that fits somewhere.
TEST(Refusals, NumbersAreToldAsTheyWereSent) {
  const std::string large = "1" + std::string(30, '0');
  for (const auto& [path, members] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {kChat,
            {R"("n":%)", R"("priority":%)", R"("stop_token_ids":[%])", R"("logprobs":true,"top_logprobs":%)",
             R"("logit_bias":{"5":%})", R"("seed":%)"}},
           {kCompletions, {R"("logprobs":%)", R"("best_of":%)", R"("prompt":[%])"}},
           {kEmbeddings, {R"("priority":%)", R"("dimensions":%)"}}}) {
    for (auto member : members) {
      member.replace(member.find('%'), 1, large);
      const std::string input =
          path == kChat ? R"("messages":[{"role":"user","content":"x"}])" : R"("prompt":"x","input":"x")";
      const auto reply = served().ask_text(path, "{" + input + "," + member + "}");
      EXPECT_EQ(reply.status, 400U) << member;
      const std::string message = reply.json()["error"]["message"];
      EXPECT_THAT(message, HasSubstr("found " + large)) << member;
    }
  }
  const std::string digits(200, '7');
  const auto reply = served().ask_text(kCompletions, R"({"prompt":"x","n":)" + digits + "}");
  EXPECT_THAT(reply.body, HasSubstr("(200 digits)"));
  EXPECT_LT(reply.body.size(), 500U);
}

TEST(Refusals, SeedsHave64Bits) {
  const auto answer = [](const std::string& seed) {
    return served().ask_text(kCompletions, R"({"prompt":"x","max_tokens":1,"seed":)" + seed + "}");
  };
  for (const auto* seed : {"18446744073709551615", "9223372036854775808", "9223372036854775807",
                           "-9223372036854775808", "-2", "0", "1e3"}) {
    EXPECT_EQ(answer(seed).status, 200U) << seed;
  }
  for (const auto* seed : {"18446744073709551616", "18446744073709551621", "-9223372036854775809",
                           "1000000000000000000000000000000", "1e30", "-1e30"}) {
    const auto reply = answer(seed);
    EXPECT_EQ(reply.status, 400U) << seed;
    EXPECT_EQ(reply.json()["error"]["param"], "seed");
    EXPECT_EQ(reply.json()["error"]["code"], "out_of_range");
  }
}

TEST(Refusals, UnknownModels) {
  for (const auto& path : {kChat, kCompletions, kEmbeddings}) {
    const auto error = served().refusal(path, body_of({path, {{"model", "gpt-none\n\x01"}}, ""}), 404);
    EXPECT_EQ(error["code"], "model_not_found");
    EXPECT_EQ(error["param"], "model");
  }
}

TEST(Refusals, PathsAndMethods) {
  const auto missing = served().send("GET", "/v1/nothing")->wait();
  EXPECT_EQ(missing.status, 404U);
  EXPECT_EQ(missing.json()["error"]["code"], "unknown_url");
  EXPECT_EQ(served().send("POST", "/v1")->wait().status, 404U);
  const auto get = served().send("GET", kChat)->wait();
  EXPECT_EQ(get.status, 405U);
  EXPECT_EQ(get.header("Allow"), "POST");
  for (const auto& path : {kChat, kCompletions, kEmbeddings, std::string("/tokenize")}) {
    const auto head = served().send("HEAD", path)->wait();
    EXPECT_EQ(head.status, 405U);
    EXPECT_EQ(head.header("Allow"), "POST");
  }
  EXPECT_EQ(served().send("HEAD", "/v1/models")->wait().status, 200U);
  EXPECT_EQ(served().send("HEAD", "/v1/models/none")->wait().status, 404U);
  const auto post = served().send("POST", "/v1/models", "{}")->wait();
  EXPECT_EQ(post.status, 405U);
  EXPECT_THAT(post.header("Allow"), HasSubstr("GET"));
}

TEST(Refusals, TooLongPromptsNameBothCounts) {
  const auto limit = small_engine().context;
  const auto text = std::string(limit + 88, 'x');
  for (const bool streams : {false, true}) {
    const auto error = served().refusal(kCompletions, {{"prompt", text}, {"stream", streams}});
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "prompt");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(std::to_string(text.size())));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(std::to_string(limit)));
    EXPECT_EQ(served().refusal(kChat, chat(text, {{"stream", streams}}))["param"], "messages");
  }
  EXPECT_EQ(served().refusal(kEmbeddings, {{"input", text}})["code"], "context_length_exceeded");
}

TEST(Refusals, OfAListTheOneThatIsTooLongIsNamed) {
  const auto limit = small_engine().context;
  const auto fits = std::string(limit, 'x');
  for (const bool streams : {false, true}) {
    const Json body{{"prompt", {"a", fits, "b"}}, {"stream", streams}};
    const auto error = served().refusal(kCompletions, body);
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "prompt[1]");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(std::to_string(limit)));
  }
  const auto inputs = Json{"a", fits, "b", fits + "x"};
  const auto error = served().refusal(kEmbeddings, {{"input", inputs}});
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(error["param"], "input[3]");
}

// Nothing is to be written behind it.
TEST(Refusals, APromptMayFillTheContextIfNothingIsAskedFor) {
  const auto limit = small_engine().context;
  const auto text = std::string(limit, 'x');
  const Json body{{"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}};
  const auto choice = served().answer(kCompletions, body)["choices"][0];
  EXPECT_EQ(choice["text"], text);
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), limit);
  EXPECT_EQ(served().answer(kCompletions, {{"prompt", {text, text}}, {"max_tokens", 0}})["choices"].size(),
            2U);
  EXPECT_EQ(served().refusal(kCompletions, {{"prompt", text + "x"}, {"max_tokens", 0}})["code"],
            "context_length_exceeded");
}

TEST(Refusals, ARequiredCallIsNeverAnsweredWithPlainText) {
  const Json tools = Json::array({tool("f")});
  for (const auto& choice : Json{"required", tool("f")}) {
    const auto reply =
        served().ask(kChat, chat("Hi", {{"tools", tools}, {"tool_choice", choice}, {"max_tokens", 50}}));
    if (reply.status == 200) {
      EXPECT_THAT(reply.json()["choices"][0]["finish_reason"].get<std::string>(),
                  AnyOf("tool_calls", "length"));
    } else {
      EXPECT_EQ(reply.status, 400U);
      EXPECT_THAT(reply.json()["error"]["param"].get<std::string>(), StartsWith("tool"));
    }
  }
}

}  // namespace
}  // namespace inferno::test
