// Clients that leave, do not read, or come in crowds; engines that break or are full. And the promise that
// none of it changes an answer.

#include <atomic>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <thread>

#include "engine/serving_fixture.hpp"
#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

/// Writes on and on.
Model endless() {
  return model_that_writes({"a", "b", "a"});
}

ServingOptions long_context() {
  auto options = small_engine();
  options.context = 100'000;
  options.kv_blocks = 25'000;
  return options;
}

TEST(Leaving, EndsTheWork) {
  Served served(endless(), long_context());
  const auto free = served.settled().blocks_in_use;
  for (const bool streams : {true, false}) {
    const auto exchange =
        served.post(kChat, chat("Hi", {{"stream", streams}, {"max_tokens", 90'000}, {"n", 3}}));
    if (streams) {
      exchange->wait_for_bytes(2000);
    } else {
      ASSERT_TRUE(eventually([&] { return served.engine().metrics().decoding == 3; }));
    }
    exchange->leave();
    EXPECT_TRUE(eventually([&] { return served.engine().metrics().running == 0; }));
    const auto metrics = served.settled();
    EXPECT_EQ(metrics.blocks_in_use, free);
    EXPECT_LT(metrics.generated_tokens, 270'000U);
  }
  EXPECT_EQ(served.settled().ended[static_cast<std::size_t>(RequestEnd::cancelled)], 6U);
}

TEST(Leaving, BeforeAnythingHasHappened) {
  Served served(endless(), long_context());
  for (int i = 0; i < 50; ++i) {
    const auto exchange = served.post(kChat, chat("Hi", {{"stream", i % 2 == 0}, {"max_tokens", 90'000}}));
    if (i % 3 > 0) served.strand().settle();
    if (i % 3 > 1) std::this_thread::yield();
    exchange->leave();
  }
  served.strand().settle();
  EXPECT_TRUE(eventually([&] {
    const auto metrics = served.engine().metrics();
    return metrics.running + metrics.queued == 0;
  }));
  EXPECT_EQ(served.settled().blocks_in_use, 0U);
  EXPECT_EQ(served.answer(kChat, chat("Hi", {{"max_tokens", 2}}))["choices"][0]["message"]["content"], "ab");
}

TEST(Leaving, WhileThePromptIsQueuedOrRun) {
  auto options = long_context();
  options.max_rows = 1;
  options.buffered_tokens = 100'000;  // or the second would run while the first one's thread is late to read
  Served served(endless(), options);
  const auto running = served.post(kChat, chat("Hi", {{"max_tokens", 90'000}}));
  ASSERT_TRUE(eventually([&] { return served.engine().metrics().decoding == 1; }));
  const auto queued = served.post(kChat, chat("Ho", {{"max_tokens", 90'000}}));
  ASSERT_TRUE(eventually([&] { return served.engine().metrics().queued == 1; }));
  queued->leave();
  EXPECT_TRUE(eventually([&] { return served.engine().metrics().queued == 0; }));
  running->leave();
  const auto prefilling = served.post(kChat, chat(std::string(25'000, 'x')));
  ASSERT_TRUE(eventually([&] { return served.engine().metrics().running == 1; }));
  prefilling->leave();
  EXPECT_EQ(served.settled().blocks_in_use, 0U);
}

TEST(SlowReader, IsPausedAndThenGetsEverything) {
  Served served(endless(), long_context());
  const auto body = chat("Hi", {{"stream", true}, {"max_tokens", 5000}});
  const auto expected = join(served.ask(kChat, body).chunks());
  const auto slow = served.post(kChat, body);
  slow->stop_reading();
  ASSERT_TRUE(eventually([&] { return served.engine().metrics().stalled == 1; }));
  // What one step can bring beyond the limit.
  EXPECT_LT(slow->unsent(), std::size_t{256} << 10U);
  // Others go on meanwhile.
  EXPECT_EQ(served.answer(kChat, chat("Hi", {{"max_tokens", 2}}))["choices"][0]["message"]["content"], "ab");
  while (!slow->so_far().is_complete) {
    slow->read(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto got = join(slow->wait().chunks());
  EXPECT_EQ(got.content, expected.content);
  EXPECT_EQ(got.content.size(), 5000U);
}

TEST(SlowReader, IsCutOffInTheEnd) {
  auto options = long_context();
  options.stall_timeout = std::chrono::milliseconds(50);
  Served served(endless(), options);
  const auto slow = served.post(kChat, chat("Hi", {{"stream", true}, {"max_tokens", 90'000}}));
  slow->stop_reading();
  ASSERT_TRUE(eventually(
      [&] { return served.engine().metrics().ended[static_cast<std::size_t>(RequestEnd::stalled)] == 1; }));
  slow->read(true);
  const auto events = slow->wait().events();
  const auto last = nlohmann::json::parse(events.back());
  EXPECT_EQ(last["error"]["code"], "client_too_slow");
}

TEST(SlowReader, WhoIsCutOffByItsConnectionIsCalledSo) {
  Served served(endless(), long_context());
  const auto slow = served.post(kChat, chat("Hi", {{"stream", true}, {"max_tokens", 90'000}}));
  slow->wait_for_bytes(1);
  slow->stop_reading();
  slow->expect_no_answer();
  slow->leave(true);
  EXPECT_EQ(served.settled().ended[static_cast<std::size_t>(RequestEnd::stalled)], 1U);
  EXPECT_THAT(slow->note(), HasSubstr("client_too_slow"));
}

TEST(Notes, CountTokensAndSayNothingElse) {
  Served served(model_that_writes({"o", "k", "<end>"}), long_context());
  const auto body = chat("a secret", {{"n", 2}, {"temperature", 0}});
  const auto counted = served.post(kChat, body);
  const auto usage = counted->wait().json()["usage"];
  const auto twice = 2 * usage["prompt_tokens"].get<int>();
  EXPECT_THAT(counted->note(), testing::MatchesRegex("prompt " + std::to_string(twice) +
                                                     " tokens \\([0-9]+ cached\\), generated 6"));
  const auto streamed =
      served.post(kCompletions, {{"prompt", "x"}, {"stream", true}, {"max_tokens", 3}, {"temperature", 0}});
  streamed->wait();
  EXPECT_EQ(streamed->note(), "prompt 1 tokens (0 cached), generated 3");
  const auto left = served.post(kChat, chat("Hi"));
  left->expect_no_answer();
  left->leave();
  served.settled();
  served.strand().settle();
  EXPECT_THAT(left->note(), testing::AnyOf("", testing::StartsWith("prompt ")));
}

TEST(Failures, BeforeTheFirstTokenHaveTheirStatus) {
  const auto model = endless();
  const auto controls = std::make_shared<Controls>();
  controls->change_result = [](StepResult& result) {
    for (auto& status : result.status) status = RowStatus::failed;
  };
  Served served(model, controlled(model, controls), small_engine());
  for (const bool streams : {true, false}) {
    const auto error = served.refusal(kChat, chat("Hi", {{"stream", streams}}), 500);
    EXPECT_EQ(error["type"], "server_error");
  }
}

TEST(Failures, AfterTheFirstTokenAreTheLastEvent) {
  const auto model = endless();
  const auto controls = std::make_shared<Controls>();
  const auto broken = std::make_shared<std::atomic<bool>>(false);
  controls->change_result = [broken](StepResult& result) {
    if (!*broken) return;
    for (auto& status : result.status) status = RowStatus::failed;
  };
  Served served(model, controlled(model, controls), long_context());
  const auto exchange = served.post(kChat, chat("Hi", {{"stream", true}, {"n", 2}}));
  exchange->wait_for_bytes(1000);
  *broken = true;
  const auto reply = exchange->wait();
  EXPECT_EQ(reply.status, 200U);
  const auto chunks = reply.chunks(true);
  ASSERT_FALSE(chunks.empty());
  EXPECT_TRUE(chunks.back().contains("error"));
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i) {
    EXPECT_FALSE(chunks[i].contains("error"));
    EXPECT_TRUE(chunks[i]["choices"][0]["finish_reason"].is_null());
  }
}

TEST(Failures, AFullQueueIs429AndADrainedEngine503) {
  auto options = long_context();
  options.max_rows = 1;
  options.max_queue = 1;
  const auto model = endless();
  const auto controls = std::make_shared<Controls>();
  const auto held = std::make_shared<std::atomic<bool>>(true);
  controls->before_submit = [held](const StepBatch&) {
    while (*held) std::this_thread::yield();
  };
  Served served(model, controlled(model, controls), options);
  const auto running = served.post(kChat, chat("Hi"));
  const auto queued = served.post(kChat, chat("Hi"));
  ASSERT_TRUE(eventually([&] { return served.engine().metrics().submitted == 2; }));
  const auto reply = served.ask(kChat, chat("Hi", {{"stream", true}}));
  EXPECT_EQ(reply.status, 429U);
  EXPECT_EQ(reply.header("Retry-After"), "1");
  EXPECT_EQ(reply.json()["error"]["code"], "queue_full");
  running->leave();
  queued->leave();
  *held = false;
  served.settled();
  served.engine().drain(std::chrono::milliseconds(0));
  EXPECT_EQ(served.refusal(kChat, chat("Hi"), 503)["code"], "unavailable");
}

TEST(Failures, AStoppedEngineEndsWhatRuns) {
  Served served(endless(), long_context());
  const auto stream = served.post(kChat, chat("Hi", {{"stream", true}, {"max_tokens", 90'000}}));
  stream->wait_for_bytes(1000);
  const auto whole = served.post(kChat, chat("Hi", {{"max_tokens", 90'000}}));
  ASSERT_TRUE(eventually([&] { return served.engine().metrics().decoding == 2; }));
  served.engine().stop();
  const auto events = stream->wait().events();
  EXPECT_EQ(nlohmann::json::parse(events.back())["error"]["code"], "unavailable");
  EXPECT_EQ(whole->wait().status, 503U);
}

TEST(Failures, AnApiThatEndsDropsItsAnswers) {
  auto served = std::make_unique<Served>(endless(), long_context());
  const auto running = served->post(kChat, chat("Hi", {{"max_tokens", 90'000}}));
  running->expect_no_answer();
  ASSERT_TRUE(eventually([&] { return served->engine().metrics().decoding == 1; }));
  served.reset();
  // One that is just being told of a token outlives the API and hears of the engine's end.
  const auto reply = running->so_far();
  if (reply.is_complete) {
    EXPECT_EQ(reply.status, 503);
    EXPECT_THAT(reply.body, testing::HasSubstr("the server is shutting down"));
  }
}

/// Requests as different as they come; the same ones for the same count.
std::vector<std::pair<std::string, Json>> varied(std::size_t count) {
  std::vector<std::pair<std::string, Json>> requests;
  for (std::size_t i = 0; i < count; ++i) {
    const auto text = std::string(1 + i * 13 % 90, static_cast<char>('a' + i % 3)) + " and so on";
    Json more{{"max_tokens", 5 + i * 5 % 31}, {"seed", i}, {"temperature", i % 3 == 1 ? 1.0 : 0.0}};
    if (i % 4 == 2) more["frequency_penalty"] = 0.5;
    if (i % 5 == 3) more["n"] = 2;
    if (i % 7 == 4) more["stop"] = {"e", "th"};
    if (i % 11 == 7) {
      requests.push_back({kEmbeddings, {{"input", text}}});
    } else if (i % 3 == 0) {
      more["prompt"] = text;
      more["logprobs"] = i % 6;
      more["echo"] = i % 2 == 0;
      requests.push_back({kCompletions, more});
    } else {
      more["logprobs"] = true;
      more["top_logprobs"] = i % 4;
      requests.push_back({kChat, chat(text, more)});
    }
  }
  return requests;
}

/// What must not depend on company.
nlohmann::json essence(const nlohmann::json& answer) {
  return answer.contains("data") ? answer["data"] : answer["choices"];
}

TEST(SameAnswer, AloneInCompanyWithAndWithoutCacheAndAfterPauses) {
  const auto requests = varied(33);
  auto alone_options = small_engine();
  alone_options.prefix_cache = false;
  std::vector<nlohmann::json> alone;
  {
    Served served(tiny(), alone_options);
    for (const auto& [path, body] : requests) alone.push_back(essence(served.answer(path, body)));
  }
  auto tight = small_engine();
  tight.kv_blocks = 40;  // most of them are paused at some time
  tight.lookahead = 0;
  auto no_cache = small_engine();
  no_cache.prefix_cache = false;
  for (const auto& options : {small_engine(), no_cache, tight}) {
    Served served(tiny(), options);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::shared_ptr<FakeExchange>> exchanges;
      for (const auto& [path, body] : requests) exchanges.push_back(served.post(path, body));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto reply = exchanges[i]->wait();
        ASSERT_EQ(reply.status, 200U) << reply.body;
        EXPECT_EQ(essence(reply.json()), alone[i]) << requests[i].second;
      }
    }
    if (options.kv_blocks == 40) {
      EXPECT_GT(served.engine().metrics().pauses, 0U);
    }
    EXPECT_EQ(served.settled().blocks_in_use, 0U);
  }
}

TEST(SameAnswer, StreamedInCompany) {
  Served served(tiny());
  std::vector<std::string> expected;
  std::vector<std::shared_ptr<FakeExchange>> exchanges;
  const auto body = [](int i) {
    return chat("text " + std::to_string(i), {{"seed", i}, {"temperature", 2}, {"max_tokens", 100}});
  };
  for (int i = 0; i < 32; ++i)
    expected.push_back(served.answer(kChat, body(i))["choices"][0]["message"]["content"]);
  for (int i = 0; i < 32; ++i) {
    auto streamed = body(i);
    streamed["stream"] = true;
    exchanges.push_back(served.post(kChat, streamed));
  }
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    EXPECT_EQ(join(exchanges[i]->wait().chunks()).content, expected[i]);
  }
}

TEST(SameAnswer, CachedTokensAreCounted) {
  Served served(tiny());
  const Json body{{"prompt", std::string(100, 'q')}, {"max_tokens", 3}, {"temperature", 0}};
  const auto first = served.answer(kCompletions, body);
  const auto second = served.answer(kCompletions, body);
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(second["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
  EXPECT_EQ(second["choices"], first["choices"]);
  auto salted = body;
  salted["cache_salt"] = "mine";
  EXPECT_EQ(served.answer(kCompletions, salted)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(served.answer(kCompletions, salted)["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
}

}  // namespace
}  // namespace inferno::test
