// What HTTP asks of a server: framing, keep-alive, pipelining, HEAD, HTTP/1.0, Expect, errors.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "server/http/fixture.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Manners : public HttpTest {};

/// The error's message; empty if the body is not in OpenAI's shape.
std::string message_of(const Reply& reply) {
  const auto json = nlohmann::json::parse(reply.body, nullptr, false);
  if (!json.is_object() || !json.contains("error")) return {};
  const auto& error = json["error"];
  for (const char* const key : {"message", "type", "param", "code"}) {
    if (!error.contains(key)) return {};
  }
  return error["message"];
}

TEST_F(Manners, KeepAliveServesManyRequests) {
  start();
  Client client(port());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(client.send(get("/health")));
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 200U);
    EXPECT_EQ(reply.body, R"({"status":"ok"})");
    EXPECT_EQ(reply.header("Content-Type"), "application/json");
    EXPECT_EQ(reply.header("Connection"), "");
    EXPECT_EQ(reply.header("Date").size(), 29U);
  }
}

TEST_F(Manners, RequestsSentAheadAreAnsweredInOrder) {
  start();
  Client client(port());
  std::string requests;
  for (std::size_t i = 0; i < 300; ++i)
    requests += get(fmt::format("/echo?{}", i)) + post("/echo", std::string(i, 'x'));
  std::thread sender([&] { EXPECT_TRUE(client.send(requests)); });
  for (std::size_t i = 0; i < 300; ++i) {
    ASSERT_EQ(client.receive().body, std::to_string(i));
    ASSERT_EQ(client.receive().body, std::string(i, 'x'));
  }
  sender.join();
}

TEST_F(Manners, RequestsSentAheadAreAnsweredAfterAHalfClose) {
  start();
  Client client(port());
  client.send(get("/echo?a") + get("/stream") + get("/echo?b"));
  client.half_close();
  EXPECT_EQ(client.receive().body, "a");
  EXPECT_EQ(client.receive().body, "0123456789");
  EXPECT_EQ(client.receive().body, "b");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(Manners, StreamIsChunkedAndTheConnectionIsUsedAgain) {
  start();
  Client client(port());
  for (int i = 0; i < 2; ++i) {
    client.send(get("/stream"));
    const auto reply = client.receive();
    EXPECT_TRUE(reply.complete);
    EXPECT_EQ(reply.body, "0123456789");
    EXPECT_EQ(reply.header("Content-Type"), "text/event-stream");
    EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
    EXPECT_EQ(reply.header("X-Accel-Buffering"), "no");
  }
}

TEST_F(Manners, WhatIsWrittenTogetherIsSentTogether) {
  start();
  Client client(port());
  client.send(get("/stream"));
  EXPECT_EQ(client.receive().chunks, 1U);
}

TEST_F(Manners, HeadHasTheHeaderOfGet) {
  start();
  Client client(port());
  client.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n" + get("/echo?next"));
  const auto reply = client.receive(true);
  EXPECT_EQ(reply.status, 200U);
  EXPECT_EQ(reply.header("Content-Length"), "15");
  EXPECT_EQ(client.receive().body, "next");
  client.send("HEAD /stream HTTP/1.1\r\nHost: x\r\n\r\n" + get("/echo?next"));
  EXPECT_EQ(client.receive(true).header("Transfer-Encoding"), "chunked");
  EXPECT_EQ(client.receive().body, "next");
}

TEST_F(Manners, Http10ClosesUnlessAskedNotTo) {
  start();
  Client client(port());
  client.send("GET /health HTTP/1.0\r\n\r\n");
  auto reply = client.receive();
  EXPECT_EQ(reply.body, R"({"status":"ok"})");
  EXPECT_EQ(reply.header("Connection"), "close");
  EXPECT_TRUE(client.is_closed());

  Client keeping(port());
  for (int i = 0; i < 2; ++i) {
    keeping.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    reply = keeping.receive();
    EXPECT_EQ(reply.header("Connection"), "keep-alive");
    EXPECT_EQ(reply.body, R"({"status":"ok"})");
  }
}

TEST_F(Manners, StreamToHttp10EndsWithTheConnection) {
  start();
  const auto reply = ask(port(), "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(reply.header("Transfer-Encoding"), "");
  EXPECT_EQ(reply.header("Content-Length"), "");
  EXPECT_EQ(reply.header("Connection"), "close");
  EXPECT_EQ(reply.body, "0123456789");
}

TEST_F(Manners, ConnectionCloseIsHeeded) {
  start();
  Client client(port());
  client.send(get("/health", "Connection: close\r\n") + get("/health"));
  EXPECT_EQ(client.receive().header("Connection"), "close");
  EXPECT_TRUE(client.is_closed());
}

TEST_F(Manners, ExpectContinueIsAnsweredBeforeTheBody) {
  start();
  Client client(port());
  const std::string body(5000, 'b');
  client.send(fmt::format(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n", body.size()));
  EXPECT_EQ(client.receive().status, 100U);
  client.send(body);
  EXPECT_EQ(client.receive().body, body);
  // Who sends the body without waiting needs no leave any more.
  client.send(post("/echo", "now", "Expect: 100-Continue\r\n"));
  EXPECT_EQ(client.receive().body, "now");
  client.send(post("/echo", "", "Expect: 100-continue\r\n"));
  EXPECT_EQ(client.receive().status, 200U);
  // HTTP/1.0 knows no interim answers.
  EXPECT_EQ(ask(port(), "POST /echo HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nab").body,
            "ab");
  EXPECT_EQ(ask(port(), post("/echo", "x", "Expect: a miracle\r\n")).status, 417U);
}

TEST_F(Manners, ChunkedBodiesCutAnywhere) {
  start();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string body =
      "5;name=value\r\nhello\r\n0001\r\n,\r\nA\r\n 0123\r\n678\r\n0;last\r\nTrailer: 1\r\n\r\n";
  for (std::size_t cut = 0; cut < body.size(); ++cut) {
    Client client(port());
    client.send(head + body.substr(0, cut));
    if (cut % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    client.send(body.substr(cut) + get("/echo?next"));
    ASSERT_EQ(client.receive().body, "hello, 0123\r\n678") << cut;
    ASSERT_EQ(client.receive().body, "next") << cut;
  }
  Client client(port());
  for (const char byte : head + body + head + "0\r\n\r\n" + get("/echo?next")) client.send({&byte, 1});
  EXPECT_EQ(client.receive().body, "hello, 0123\r\n678");
  EXPECT_EQ(client.receive().body, "");
  EXPECT_EQ(client.receive().body, "next");
}

/// Each is answered while the connection is open and the body goes on: nothing is waited for.
TEST_F(Manners, MalformedChunksAreToldSoAtOnce) {
  start();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, std::string> faults[] = {
      {"f\n", "size does not end in CR LF"},
      {"5\rx", "size does not end in CR LF"},
      {"5;a=b\n", "size does not end in CR LF"},
      {"5;a\rb", "size does not end in CR LF"},
      {"5\r\nhello\n", "CR LF behind it"},
      {"5\r\nhello\rx", "CR LF behind it"},
      {"5\r\nhello!", "not as long as its size"},
      {"0\n", "size does not end in CR LF"},
      {"0\r\n\n", "trailers does not end in CR LF"},
      {"0\r\nA: b\n", "trailers does not end in CR LF"},
      {"0\r\nA: b\rc", "trailers does not end in CR LF"},
      {"0\r\nno colon\r\n", "a trailer is malformed"},
      {"0\r\nA : b\r\n", "a trailer is malformed"},
      {"0\r\n folded\r\n", "a trailer is malformed"},
      {"0\r\n: b\r\n", "a trailer is malformed"},
      {"0\r\nA: \x01\r\n", "a trailer is malformed"},
      {"\r\n", "no hexadecimal number"},
      {"-1\r\n", "no hexadecimal number"},
      {"0x5\r\n", "extension is malformed"},
      {"5 \r\n", "extension is malformed"},
      {"5;\r\n", "extension is malformed"},
      {"5;=b\r\n", "extension is malformed"},
      {"5;a=\r\n", "extension is malformed"},
      {"5;a=\"b\r\n", "extension is malformed"},
      {"5;a=\"\\\r\n", "extension is malformed"},
      {"5;a b\r\n", "extension is malformed"},
  };
  for (const auto& [body, message] : faults) {
    Client client(port());
    client.send(head + body);
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 400U) << body;
    EXPECT_THAT(message_of(reply), HasSubstr(message)) << body;
    EXPECT_TRUE(client.is_closed());
  }
  const std::string fine = "5 ; a ;b=c; d = \"e;\\\"\"\r\nhello\r\n" + std::string(40, '0') + "\r\n\r\n";
  EXPECT_EQ(ask(port(), head + fine).body, "hello");
}

/// RFC 9110, 6.5.1: what a trailer says is not what the header said.
TEST_F(Manners, TrailersChangeNothing) {
  start();
  Client client(port());
  for (const char* const trailer :
       {"Connection: close", "Proxy-Connection: close", "Content-Length: 7", "Content-Length: x",
        "Transfer-Encoding: gzip", "Host: evil.example", "Host: b\r\nHost: c", "Expect: 100-continue",
        "Upgrade: websocket", "Content-Encoding: gzip", "Origin: https://evil.example", "Empty:"}) {
    client.send(
        fmt::format("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n0\r\n{}\r\n\r\n",
                    trailer));
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 200U) << trailer;
    EXPECT_EQ(reply.body, "hello") << trailer;
    EXPECT_EQ(reply.header("Connection"), "") << trailer;
  }
  client.send(get("/echo?open"));
  EXPECT_EQ(client.receive().body, "open");
}

TEST_F(Manners, TargetsInAllForms) {
  start();
  for (const char* const start :
       {"http://localhost", "HTTPS://LOCALHOST:80", "http://[::1]:8080", "http://127.0.0.1:"}) {
    EXPECT_EQ(ask(port(), get(fmt::format("{}/echo?a=b#part", start))).body, "a=b") << start;
  }
  EXPECT_EQ(ask(port(), "OPTIONS http://localhost HTTP/1.1\r\nHost: x\r\n\r\n").status, 204U);
  for (const char* const target :
       {"ftp://localhost/echo", "http:///echo", "http://", "http://:80/echo", "http://user@localhost/echo",
        "http://localhost:http/echo", "http://[::1/echo", "http://[::1]x/echo", "://localhost/echo"}) {
    EXPECT_EQ(ask(port(), get(target)).status, 400U) << target;
  }
  EXPECT_EQ(ask(port(), get("/ec%68o?a%20b")).body, "a%20b");
  EXPECT_EQ(ask(port(), "\r\n\r\n" + get("/echo?x")).body, "x");
  EXPECT_EQ(ask(port(), get("/ec%zzho")).status, 400U);
  EXPECT_EQ(ask(port(), get("/echo%")).status, 400U);
  EXPECT_EQ(ask(port(), get("/echo%00")).status, 400U);
  EXPECT_EQ(ask(port(), get("echo")).status, 400U);
  EXPECT_EQ(ask(port(), get("*")).status, 400U);
  EXPECT_EQ(ask(port(), "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").status, 204U);
}

TEST_F(Manners, UnknownPathsAndMethods) {
  start();
  auto reply = ask(port(), get("/nothing/here"));
  EXPECT_EQ(reply.status, 404U);
  EXPECT_THAT(message_of(reply), HasSubstr("/nothing/here"));
  reply = ask(port(), post("/health", "{}"));
  EXPECT_EQ(reply.status, 405U);
  EXPECT_EQ(reply.header("Allow"), "GET, HEAD");
  EXPECT_THAT(message_of(reply), HasSubstr("POST"));
  EXPECT_EQ(ask(port(), "BREW /echo HTTP/1.1\r\nHost: x\r\n\r\n").header("Allow"), "GET, POST, HEAD");
}

TEST_F(Manners, MalformedRequestsAreToldSo) {
  start();
  const std::string bad_requests[] = {
      "\x16\x03\x01\x02 hello\r\n\r\n",
      "GET\r\n\r\n",
      "GET /\r\n\r\n",
      "GET / HTTP/1.1\nHost: x\n\n",
      "GET / HTTP/1.1\r\nHost: x\r\nNo colon\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\nSpace : 1\r\n\r\n",
      std::string("GET / HTTP/1.1\r\nHost: x\r\nA: \0b\r\n\r\n", 34),
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: localhost/x\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: evil@localhost\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: localhost:80:80\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1x\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: x\r\nX-Long: one\r\n\ttwo\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: x\r\n X-Early: one\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
  };
  for (const auto& request : bad_requests) {
    Client client(port());
    client.send(request);
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 400U) << request;
    EXPECT_NE(message_of(reply), "") << request;
    EXPECT_EQ(reply.header("Connection"), "close");
    EXPECT_TRUE(client.is_closed());
  }
  EXPECT_EQ(ask(port(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").status, 505U);
  for (const char* const version : {"1.2", "1.9", "0.9", "3.0"}) {
    EXPECT_EQ(ask(port(), fmt::format("GET /health HTTP/{}\r\nHost: x\r\n\r\n", version)).status, 505U)
        << version;
  }
  for (const char* const version : {"1.1x", "1.", "1.x"}) {
    EXPECT_EQ(ask(port(), fmt::format("GET /health HTTP/{}\r\nHost: x\r\n\r\n", version)).status, 400U)
        << version;
  }
  for (const char* const target : {"/%zz", "/a%4", "/%", "/%00"}) {
    const auto reply = ask(port(), get(target));
    EXPECT_EQ(reply.status, 400U) << target;
    EXPECT_THAT(message_of(reply), testing::HasSubstr("two hexadecimal digits")) << target;
  }
  for (const char* const coding : {"gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked"}) {
    const auto request =
        fmt::format("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {}\r\n\r\n0\r\n\r\nGET ", coding);
    EXPECT_EQ(ask(port(), request).status, 501U) << coding;
  }
  EXPECT_EQ(ask(port(), get("/health")).status, 200U);
}

TEST_F(Manners, EveryRefusalHasACode) {
  start();
  const auto code_of = [&](const std::string& request) {
    const auto reply = ask(port(), request);
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    return fmt::format("{} {}", reply.status,
                       json.is_object() ? json["error"]["code"].dump() : std::string("no JSON"));
  };
  EXPECT_EQ(code_of("GET / HTTP/1.1\r\n\r\n"), "400 \"malformed_request\"");
  EXPECT_EQ(code_of("hello\r\n\r\n"), "400 \"malformed_request\"");
  EXPECT_EQ(code_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "505 \"unsupported_version\"");
  EXPECT_EQ(code_of("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"),
            "501 \"unsupported_coding\"");
  EXPECT_EQ(code_of("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: a-miracle\r\nContent-Length: 1\r\n\r\nx"),
            "417 \"unsupported_expectation\"");
  EXPECT_EQ(code_of(get("/forget")), "500 \"internal_error\"");
  EXPECT_EQ(code_of(get("/throw")), "500 \"internal_error\"");
}

TEST_F(Manners, CompressedBodiesAreRefused) {
  start();
  for (const char* const coding : {"gzip", "br", "deflate, gzip", "x"}) {
    const auto reply = ask(port(), post("/echo", "abc", fmt::format("Content-Encoding: {}\r\n", coding)));
    EXPECT_EQ(reply.status, 415U) << coding;
    EXPECT_THAT(message_of(reply), HasSubstr("Content-Encoding"));
    EXPECT_EQ(reply.header("Accept-Encoding"), "identity");
  }
  for (const char* const coding : {"", "identity", "Identity"}) {
    const auto reply = ask(port(), post("/echo", "abc", fmt::format("Content-Encoding: {}\r\n", coding)));
    EXPECT_EQ(reply.body, "abc") << coding;
  }
}

TEST_F(Manners, EveryAnswerHasARequestId) {
  start();
  const auto id_of = [&](const std::string& request) {
    return std::string(ask(port(), request).header("X-Request-Id"));
  };
  std::set<std::string> ids;
  for (const auto& request :
       {get("/health"), get("/health"), get("/nothing"), get("/stream"), get("/forget"),
        std::string("hello\r\n\r\n"), std::string("OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n")}) {
    const auto id = id_of(request);
    EXPECT_THAT(id, testing::MatchesRegex("req-[0-9a-f]+-[0-9a-f]+")) << request;
    EXPECT_TRUE(ids.insert(id).second) << id;
  }
  EXPECT_EQ(id_of(get("/health", "X-Request-Id: mine_1.2:3-x\r\n")), "mine_1.2:3-x");
  EXPECT_EQ(id_of(get("/stream", "x-request-id: " + std::string(128, 'y') + "\r\n")), std::string(128, 'y'));
  // What could be anything is not repeated.
  for (const std::string bad : {"a b", "a\"b", "<b>", "\xC3\xA9", ""})
    EXPECT_THAT(id_of(get("/health", "X-Request-Id: " + bad + "\r\n")), testing::StartsWith("req-")) << bad;
  EXPECT_THAT(id_of(get("/health", "X-Request-Id: " + std::string(129, 'y') + "\r\n")),
              testing::StartsWith("req-"));
}

TEST_F(Manners, RequestsThatEndInTheMiddle) {
  start();
  for (const char* const begin :
       {"GET /he", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"}) {
    Client client(port());
    client.send(begin);
    client.half_close();
    EXPECT_EQ(client.receive().status, 400U);
    EXPECT_TRUE(client.is_closed());
  }
  Client silent(port());
  silent.half_close();
  EXPECT_TRUE(silent.is_closed());
}

TEST_F(Manners, HandlersThatFailOrForget) {
  start();
  Client client(port());
  for (const char* const path : {"/forget", "/throw"}) {
    client.send(get(path));
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 500U);
    EXPECT_NE(message_of(reply), "");
    EXPECT_THAT(reply.body, testing::Not(HasSubstr("on purpose")));
  }
  client.send(get("/later"));
  auto exchange = kept.next();
  exchange->begin({.body = "begun"});
  exchange.reset();
  const auto reply = client.receive();
  EXPECT_EQ(reply.status, 200U);
  EXPECT_FALSE(reply.complete);
}

TEST_F(Manners, AnswersCannotSmuggleHeaders) {
  start();
  Client client(port());
  client.send(get("/later"));
  kept.next()->respond(
      {.body = "x",
       .headers = {{"X-Good", "yes"}, {"X-Bad", "a\r\nInjected: 1"}, {"Bad: 1\r\nX", "2"}, {"", "3"}}});
  const auto reply = client.receive();
  EXPECT_EQ(reply.header("X-Good"), "yes");
  EXPECT_EQ(reply.header("Injected"), "");
  EXPECT_EQ(reply.header("X-Bad"), "");
}

TEST_F(Manners, AnswersFromAnotherThread) {
  start();
  Client client(port());
  client.send(get("/later"));
  std::thread([this] {
    const auto exchange = kept.next();
    exchange->begin({.content_type = "text/plain"});
    for (int i = 0; i < 1000; ++i) exchange->write(fmt::format("{} ", i));
    exchange->end();
    exchange->write("never");
    exchange->respond({.body = "never"});
  }).join();
  std::string expected;
  for (int i = 0; i < 1000; ++i) expected += fmt::format("{} ", i);
  EXPECT_EQ(client.receive().body, expected);
}

TEST_F(Manners, LargeAnswers) {
  start();
  Client client(port());
  const std::string body(8 << 20, 'z');
  for (int i = 0; i < 2; ++i) {
    client.send(post("/echo", body));
    EXPECT_TRUE(client.receive().body == body);
  }
}

TEST_F(Manners, CallsInAnExchangesStrandAreInOrder) {
  start();
  Client client(port());
  client.send(get("/later"));
  const auto exchange = kept.next();
  std::string order;
  for (int i = 0; i < 10; ++i) {
    exchange->post([&order, i] { order += std::to_string(i); });
  }
  exchange->post([&order, exchange] { exchange->respond({.body = order}); });
  EXPECT_EQ(client.receive().body, "0123456789");
}

}  // namespace
}  // namespace inferno::test
