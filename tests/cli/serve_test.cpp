// `inferno serve` as a process: when the port is open, what its line says, how it ends.

#include <charconv>
#include <csignal>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "cli/program.hpp"
#include "server/http/client.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

/// A running server.
class Served {
 public:
  explicit Served(const std::vector<std::string>& more = {}) : program_(words(more), STDERR_FILENO) {}

  /// The port, once the line has come; 0 if it does not.
  std::uint16_t port() {
    const std::string begin = "listening on ";
    if (!program_.read_until(begin)) return 0;
    const auto at = log().find(begin) + begin.size();
    if (!program_.read_until("\n", at)) return 0;
    url_ = log().substr(at, log().find('\n', at) - at);
    const auto colon = url_.rfind(':') + 1;
    std::uint16_t port = 0;
    std::from_chars(url_.data() + colon, url_.data() + url_.size(), port);
    return port;
  }
  const std::string& url() const { return url_; }
  void signal(int number) const { program_.signal(number); }
  void stop_reading() { program_.stop_reading(); }
  int wait() { return program_.wait(); }
  bool read_until(std::string_view text) { return program_.read_until(text); }
  const std::string& log() const { return program_.output(); }

 private:
  static std::vector<std::string> words(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"serve", "--port", "0", "--ctx", "256", "--max-rows", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Running program_;
  std::string url_;
};

TEST(Serve, ListensAndEndsOnRequest) {
  Served served;
  const auto port = served.port();
  ASSERT_NE(port, 0) << served.log();
  EXPECT_EQ(served.url(), fmt::format("http://127.0.0.1:{}", port));
  EXPECT_EQ(ask(port, get("/health")).body, R"({"status":"ok"})");
  EXPECT_EQ(ask(port, get("/")).header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(ask(port, get("/metrics")).body, HasSubstr("inferno_ready 1\n"));
  EXPECT_THAT(served.log(), Not(HasSubstr("everybody")));
  Client idle(port);
  Client half_a_request(port);
  half_a_request.send("GET /he");
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
  EXPECT_THAT(served.log(), HasSubstr("GET /health 200"));
}

TEST(Serve, SaysOnceThatTheTemplateShowsNoTools) {
  Served served;
  const auto port = served.port();
  ASSERT_NE(port, 0) << served.log();
  const auto chat = [port](const std::string& tools) {
    const auto body =
        R"({"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}], "tools": [)" + tools + "]}";
    EXPECT_EQ(ask(port, post("/v1/chat/completions", body)).status, 200);
  };
  constexpr const char* kTool = R"({"type": "function", "function": {"name": "look"}})";
  chat("");  // none: nothing to say, and it does not count
  chat(kTool);
  chat(kTool);
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
  const std::string warning = "does not show tools to the model";
  const auto first = served.log().find(warning);
  ASSERT_NE(first, std::string::npos) << served.log();
  EXPECT_EQ(served.log().find(warning, first + 1), std::string::npos);
}

TEST(Serve, OtherSignalsEndItToo) {
  for (const int signal : {SIGINT, SIGHUP}) {
    Served served;
    ASSERT_NE(served.port(), 0);
    served.signal(signal);
    EXPECT_EQ(served.wait(), 0);
  }
}

TEST(Serve, AHangUpThatIsIgnoredEndsNothing) {
  const auto before = std::signal(SIGHUP, SIG_IGN);  // as nohup does
  Served served;
  std::signal(SIGHUP, before);
  const auto port = served.port();
  ASSERT_NE(port, 0);
  served.signal(SIGHUP);
  EXPECT_EQ(ask(port, get("/health")).status, 200U);
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
}

TEST(Serve, NobodyNeedsToReadItsLog) {
  Served served;
  const auto port = served.port();
  ASSERT_NE(port, 0);
  served.stop_reading();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(port, get("/health")).status, 200U);
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
}

TEST(Serve, FewOpenFilesMeanFewConnections) {
  // Files that are read after the limit was looked at.
  const std::vector<std::string> words = {"serve",  "--port",    "0",     "--tls-cert",
                                          "no.pem", "--tls-key", "no.key"};
  for (const auto& [files, connections] : {std::pair(100, 50), std::pair(1000, 744)}) {
    const auto ran =
        run_inferno(words, "", {.before = fmt::format("ulimit -n {};", files), .redirections = ""});
    EXPECT_THAT(ran.err, HasSubstr(fmt::format("at most {} connections", connections)));
  }
  const auto ran = run_inferno(words, "", {.before = "ulimit -n 40;", .redirections = ""});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("grants this process 40 open files; expected at least 64"));
}

TEST(Serve, ASecondSignalEndsItAtOnce) {
  for (const auto& [first, second] :
       {std::pair(SIGTERM, SIGINT), std::pair(SIGINT, SIGTERM), std::pair(SIGTERM, SIGTERM)}) {
    Served served({"--drain-timeout", "3600", "--stall-timeout", "3600", "--write-timeout", "3600"});
    const auto port = served.port();
    ASSERT_NE(port, 0) << served.log();
    // Something to wait for: streams that nobody reads, more than there is room for at once.
    std::vector<std::unique_ptr<Client>> streams;
    for (int i = 0; i < 8; ++i) {
      streams.push_back(std::make_unique<Client>(port, 4096));
      streams.back()->send(post(
          "/v1/completions",
          R"({"prompt":"Once","stream":true,"n":128,"logprobs":20,"max_tokens":200,"ignore_eos":true})"));
      // Who comes first is served first, so the first has to be known before others come.
      if (i == 0) {
        ASSERT_TRUE(streams.front()->receive_until("data: "));
      }
    }
    served.signal(first);
    ASSERT_TRUE(served.read_until("draining")) << served.log();
    served.signal(second);
    EXPECT_EQ(served.wait(), 128 + second) << served.log();
  }
}

TEST(Serve, TheLogCountsTokens) {
  Served served;
  const auto port = served.port();
  ASSERT_NE(port, 0) << served.log();
  const auto reply =
      ask(port, post("/v1/completions", R"({"prompt":"Once","max_tokens":3})", "X-Request-Id: abc\r\n"));
  EXPECT_EQ(reply.status, 200U) << reply.body;
  EXPECT_EQ(reply.header("X-Request-Id"), "abc");
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
  EXPECT_THAT(served.log(),
              testing::ContainsRegex("completions 200 .* abc prompt [0-9]+ tokens .0 cached., generated 3"));
}

TEST(Serve, KeysAreNeededAndNeverShown) {
  const TemporaryFolder folder;
  const auto keys = folder.write("keys", "# comment\nsk-secret-1\nsk-secret-2\n");
  Served served({"--api-key-file", keys.string(), "--log-level", "trace"});
  const auto port = served.port();
  ASSERT_NE(port, 0) << served.log();
  EXPECT_EQ(ask(port, get("/metrics")).status, 401U);
  EXPECT_EQ(ask(port, get("/v1/models?key=sk-secret-1")).status, 401U);
  EXPECT_EQ(ask(port, get("/health")).status, 200U);
  EXPECT_EQ(ask(port, get("/")).status, 200U);
  const auto reply =
      ask(port, get("/metrics", "Authorization: Bearer sk-secret-2\r\nOrigin: https://any.example\r\n"));
  EXPECT_EQ(reply.status, 200U);
  EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "*");
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
  EXPECT_THAT(served.log(), Not(HasSubstr("secret")));
}

TEST(Serve, WithoutKeysNoOtherOriginMayReadAnswers) {
  Served served;
  const auto port = served.port();
  ASSERT_NE(port, 0);
  const auto reply = ask(port, get("/metrics", "Origin: https://any.example\r\n"));
  EXPECT_EQ(reply.status, 200U);
  EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "");
}

TEST(Serve, TooFewCacheBlocksForTheContextAreTold) {
  Served few({"--kv-blocks", "2"});
  ASSERT_NE(few.port(), 0) << few.log();
  EXPECT_THAT(few.log(),
              HasSubstr("at most 32 positions, not 256: for those the cache needs 16 blocks of 16"));
  Served enough({"--kv-blocks", "16"});
  ASSERT_NE(enough.port(), 0) << enough.log();
  EXPECT_THAT(enough.log(), Not(HasSubstr("at most")));
}

TEST(Serve, BrokenFilesAreRefusedBeforeThePortIsOpened) {
  const TemporaryFolder folder;
  const auto model = folder.write("broken.gguf", "GGUF");
  const auto ran = run_inferno({"serve", "--port", "0", "-m", model.string()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, Not(HasSubstr("listening")));
  EXPECT_THAT(ran.err, HasSubstr("error: "));
}

TEST(Serve, WhatMakesNoSenseIsRefused) {
  const TemporaryFolder folder;
  const auto empty = folder.write("empty", "");
  const auto refused = [](std::vector<std::string> more, int code) {
    more.insert(more.begin(), {"serve", "--port", "0"});
    const auto ran = run_inferno(more);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, Not(HasSubstr("listening")));
    return ran.err;
  };
  EXPECT_THAT(refused({"--tls-cert", "x.pem"}, 2), HasSubstr("--tls-key"));
  EXPECT_THAT(refused({"--tls-cert", "no.pem", "--tls-key", "no.key"}, 1), HasSubstr("no.pem"));
  EXPECT_THAT(refused({"--api-key-file", empty.string()}, 1), HasSubstr("no API key"));
  EXPECT_THAT(refused({"--api-key-file", "none.txt"}, 1), HasSubstr("none.txt"));
  EXPECT_THAT(refused({"--cors-origin", "example.com"}, 2), HasSubstr("origin"));
  EXPECT_THAT(refused({"--cors-origin", "none", "--cors-origin", "https://a.b"}, 2),
              HasSubstr("expected it alone"));
  EXPECT_THAT(refused({"--port", "1", "--port", "2"}, 2), HasSubstr("--port: expected one value, found 3"));
  EXPECT_THAT(refused({"--max-queue", "99999999999999999999"}, 2), HasSubstr("is too large"));
  EXPECT_THAT(refused({"--max-queue", "x"}, 2), HasSubstr("is no whole number"));
  EXPECT_THAT(refused({"--host", "no such host"}, 1), HasSubstr("no such host"));
  EXPECT_THAT(refused({"--pooling", "max"}, 2), HasSubstr("pooling"));
  EXPECT_THAT(refused({"--block-size", "7"}, 2),
              HasSubstr("--block-size: expected a divisor of 256, found 7"));
  EXPECT_THAT(refused({"--block-size", "0"}, 2), HasSubstr("--block-size"));
  EXPECT_THAT(refused({"--step-stretch", "0.5"}, 2), HasSubstr("--step-stretch"));
  EXPECT_THAT(refused({"--max-rows", "0"}, 2), HasSubstr("--max-rows"));
  EXPECT_THAT(
      refused({"--step-tokens", "8", "--max-rows", "9"}, 2),
      HasSubstr("--step-tokens: expected at least 9, as many as requests run at once (--max-rows), found 8"));
  EXPECT_THAT(refused({"--alias", "a", "--alias", "b", "--alias", "a"}, 2),
              HasSubstr("--alias: the name \"a\""));
  EXPECT_THAT(refused({"--alias", "a\nb"}, 2), HasSubstr("--alias"));
  EXPECT_THAT(refused({"--port", "65536"}, 2), HasSubstr("65535"));
  EXPECT_THAT(refused({"--port", "-1"}, 2), HasSubstr("65535"));
  EXPECT_THAT(refused({"--ctx", "4294967296"}, 2), HasSubstr("from 0 to 4294967295"));
  const auto fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const auto& unreadable : {fifo.string(), std::string("/dev/zero")}) {
    EXPECT_THAT(refused({"--api-key-file", unreadable}, 1), HasSubstr("regular file"));
    EXPECT_THAT(refused({"--tls-cert", unreadable, "--tls-key", unreadable}, 1), HasSubstr("regular file"));
  }
  refused({"--header-timeout", "0"}, 2);
}

TEST(Serve, APortInUseIsNamed) {
  Served served;
  const auto port = served.port();
  ASSERT_NE(port, 0);
  const auto ran = run_inferno({"serve", "--port", std::to_string(port)});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr(fmt::format("127.0.0.1:{}", port)));
}

}  // namespace
}  // namespace inferno::test
