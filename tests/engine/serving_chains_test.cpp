// Models whose output is chosen: from a request to its text, at the edges.

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "engine/serving_fixture.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::vector<TokenId> ended(std::string_view text) {
  auto ids = bytes_of(text);
  ids.push_back(kScriptEnd);
  return ids;
}

ServingOptions small() {
  ServingOptions options;
  options.backend = "pool";
  options.threads = 1;
  options.context = 256;
  options.max_rows = 16;
  return options;
}

Answer ask(ServingEngine& engine, ServingRequest request) {
  auto stream = engine.submit(std::move(request));
  return read_all(stream);
}

ServingRequest after(std::string_view prompt, std::optional<std::uint32_t> max_tokens = 30) {
  ServingRequest request;
  request.prompt_ids = bytes_of(prompt);
  request.max_tokens = max_tokens;
  return request;
}

TEST(ServingChains, CharactersSplitOverTokensComeWhole) {
  // Byte by byte: a man and a zero width joiner.
  ServingEngine engine(scripted({ended(">\xF0\x9F\x91\xA8\xE2\x80\x8Dz")}), small());
  const auto answer = ask(engine, after(">"));
  EXPECT_EQ(answer.text, "\xF0\x9F\x91\xA8\xE2\x80\x8Dz");
  EXPECT_EQ(answer.pieces, (std::vector<std::string>{"\xF0\x9F\x91\xA8", "\xE2\x80\x8D", "z"}));
  EXPECT_EQ(answer.end, RequestEnd::stop);
  EXPECT_EQ(answer.outcome.stop_id, kScriptEnd);
  EXPECT_EQ(answer.ids.size(), 9U);  // the end token too
  EXPECT_EQ(answer.outcome.usage.completion_tokens, 9U);
  const auto cut = ask(engine, after(">", 2));
  EXPECT_EQ(cut.text, "\xEF\xBF\xBD");
  EXPECT_EQ(cut.end, RequestEnd::length);
}

TEST(ServingChains, NothingOfAStopStringLeaks) {
  ServingEngine engine(scripted({ended("0123456789"), ended(">a\xF0\x9D\x84\x9Ez")}), small());
  struct Case {
    std::vector<std::string> stop;
    std::string text;
  };
  for (const auto& [stop, text] :
       {Case{{"567"}, "1234"}, Case{{"1"}, ""}, Case{{"9", "78", "x", "yy", "45"}, "123"},
        Case{{"89x"}, "123456789"}, Case{{"0"}, "123456789"}}) {
    auto request = after("0");
    request.stop = stop;
    const auto answer = ask(engine, request);
    EXPECT_EQ(answer.text, text);
    std::string joined;
    for (const auto& piece : answer.pieces) joined += piece;
    EXPECT_EQ(joined, text);
    EXPECT_EQ(answer.end, RequestEnd::stop);
    EXPECT_EQ(answer.outcome.stop_string.has_value(), !answer.outcome.stop_id.has_value());
  }
  auto request = after(">");
  request.stop = {"\xF0\x9D\x84\x9E"};
  EXPECT_EQ(ask(engine, request).text, "a");
}

TEST(ServingChains, AnImmediateEndIsEmpty) {
  ServingEngine engine(scripted({ended("x")}), small());
  const auto answer = ask(engine, after("x"));
  EXPECT_EQ(answer.text, "");
  EXPECT_EQ(answer.end, RequestEnd::stop);
  EXPECT_EQ(answer.outcome.usage.completion_tokens, 1U);
}

TEST(ServingChains, MaxTokensAtItsEdges) {
  ServingEngine engine(scripted({bytes_of("aba")}), small());
  EXPECT_EQ(ask(engine, after("a", 0)).ids.size(), 0U);
  EXPECT_EQ(ask(engine, after("a", 0)).end, RequestEnd::length);
  EXPECT_EQ(ask(engine, after("a", 1)).text, "b");
  for (const auto huge : {std::optional<std::uint32_t>(0xFFFF'FFFF), std::optional<std::uint32_t>()}) {
    const auto answer = ask(engine, after("a", huge));
    EXPECT_EQ(answer.ids.size(), 255U);
    EXPECT_EQ(answer.end, RequestEnd::length);
  }
}

TEST(ServingChains, TheContextIsFilledExactly) {
  ServingEngine engine(scripted({bytes_of("aba")}), small());
  for (const std::uint32_t length : {1U, 15U, 16U, 17U, 254U, 255U, 256U, 257U, 5000U}) {
    for (const auto max_tokens : {std::optional<std::uint32_t>(), std::optional<std::uint32_t>(10)}) {
      const auto request = after(std::string(length, 'a'), max_tokens);
      if (length < 256) {
        const auto answer = ask(engine, request);
        EXPECT_EQ(answer.ids.size(), std::min(max_tokens.value_or(256), 256 - length)) << length;
        EXPECT_EQ(answer.end, RequestEnd::length);
        EXPECT_EQ(answer.outcome.usage.prompt_tokens, length);
        continue;
      }
      try {
        engine.submit(request);
        ADD_FAILURE() << length << " tokens were accepted";
      } catch (const ContextExceeded& refusal) {
        EXPECT_THAT(refusal.what(), testing::AllOf(HasSubstr(std::to_string(length)), HasSubstr("256")));
      }
    }
  }
}

TEST(ServingChains, SeedsDecideAndNothingElse) {
  ServingEngine engine(scripted({}), small());
  const auto drawn = [&](std::uint64_t seed) {
    auto request = after("x", 8);
    request.ignore_end_tokens = true;
    request.sampling.temperature = 1;
    request.sampling.seed = seed;
    return ask(engine, request).ids;
  };
  const auto seven = drawn(7);
  EXPECT_EQ(drawn(7), seven);
  EXPECT_GT(std::set<TokenId>(seven.begin(), seven.end()).size(), 1U);
  std::set<std::vector<TokenId>> different{seven};
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1} << 32, ~std::uint64_t{0} >> 1,
                                   ~std::uint64_t{0}, choice_seed(7, 1), choice_seed(7, 2)}) {
    different.insert(drawn(seed));
  }
  EXPECT_EQ(different.size(), 7U);
  EXPECT_EQ(choice_seed(7, 0), 7U);
}

TEST(ServingChains, GreedyTiesGoToTheLowestId) {
  ServingEngine engine(scripted({}), small());
  EXPECT_EQ(ask(engine, after("x", 5)).ids, std::vector<TokenId>(5, 0));
}

TEST(ServingChains, ABiasForcesBansAndDoesNotStay) {
  ServingEngine engine(scripted({bytes_of("aba")}), small());
  auto forced = after("a", 4);
  forced.sampling.logit_bias = {{290, 100.0F}};  // beyond the tokenizer's list, inside the matrix
  auto banned = after("a", 4);
  banned.sampling.logit_bias = {{'b', -100.0F}};
  auto everything = after("a", 4);
  for (TokenId id = 0; id < 300; ++id) everything.sampling.logit_bias.emplace_back(id, -100.0F);
  for (const float temperature : {0.0F, 1.0F}) {
    forced.sampling.temperature = banned.sampling.temperature = everything.sampling.temperature = temperature;
    std::vector<RequestStream> streams;
    for (const auto& request : {forced, banned, everything, after("a", 4)})
      streams.push_back(engine.submit(request));
    const auto answers = read_all(streams);
    EXPECT_EQ(answers[0].ids, std::vector<TokenId>(4, 290));
    EXPECT_EQ(answers[0].text, "");
    EXPECT_EQ(answers[0].end, RequestEnd::length);
    EXPECT_EQ(std::count(answers[1].ids.begin(), answers[1].ids.end(), 'b'), 0);
    EXPECT_EQ(answers[2].end, RequestEnd::failed);
    EXPECT_THAT(answers[2].outcome.error, HasSubstr("every token is banned"));
    EXPECT_EQ(answers[3].text, "baba");
  }
  EXPECT_EQ(ask(engine, after("a", 4)).text, "baba");
}

TEST(ServingChains, AnEmptyPromptStartsAText) {
  ServingEngine engine(scripted({}), small());
  const auto answer = ask(engine, {.max_tokens = 3});
  EXPECT_EQ(answer.ids.size(), 3U);
  EXPECT_EQ(answer.outcome.usage.prompt_tokens, 1U);
}

TEST(ServingChains, UserTextNeverBecomesMarkup) {
  ServingEngine engine(scripted({}), small());
  ServingRequest request;
  const std::vector<TextSpan> spans = {{"<|im_start|>", true}, {"<|im_end|>", false}};
  request.prompt_spans = spans;
  const auto ids = engine.prompt_of(request);
  EXPECT_EQ(ids.front(), kScriptEnd - 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kScriptEnd), 0);
  request.max_tokens = 1;
  EXPECT_EQ(ask(engine, request).outcome.usage.prompt_tokens, ids.size());
}

/// Eight that never read and one that does: it is served as if it were alone.
TEST(ServingChains, ReadersDoNotWaitForThoseWhoDoNotRead) {
  auto options = small();
  options.context = 20'000;
  options.max_rows = 4;
  options.buffered_tokens = 20;
  ServingEngine engine(scripted({bytes_of("aba")}), options);
  std::vector<RequestStream> deaf;
  for (int i = 0; i < 8; ++i) deaf.push_back(engine.submit(after("a", 20'000)));
  const auto answer = ask(engine, after("a", 500));
  EXPECT_EQ(answer.ids.size(), 500U);
  EXPECT_TRUE(eventually([&] { return engine.metrics().stalled == 8; }));
  // A buffer holds twenty: nobody who does not read makes more. (One may be stopped just before its last.)
  EXPECT_LE(engine.metrics().generated_tokens, 500U + 8 * 20);
  EXPECT_GE(engine.metrics().generated_tokens, 500U + 8 * 19);
  EXPECT_FALSE(engine.drain(std::chrono::milliseconds(10)));
  engine.stop();
  EXPECT_EQ(read_all(deaf.front()).end, RequestEnd::shutdown);
}

}  // namespace
}  // namespace inferno::test
