// API keys and pages of other origins.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <inferno/error.hpp>

#include "server/http/api_keys.hpp"
#include "server/http/cors.hpp"
#include "server/http/fixture.hpp"
#include "server/http/page_guard.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kKey = "sk-0123456789abcdefghijklmnopqrstuv";

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

class Keys : public HttpTest {
 protected:
  void start_with_keys() {
    http::HttpOptions options;
    options.api_keys = {"another-key", kKey};
    options.is_public = [](std::string_view path) { return path == "/health"; };
    options.cors_origins = {"*"};
    start(options);
  }
  static std::string authorization(std::string_view value) {
    return fmt::format("Authorization: {}\r\n", value);
  }
};

TEST_F(Keys, ExactlyOneExactKey) {
  start_with_keys();
  const std::string key = kKey;
  EXPECT_EQ(ask(port(), get("/echo?x", authorization("Bearer " + key))).body, "x");
  EXPECT_EQ(ask(port(), get("/echo?x", authorization("Bearer another-key"))).body, "x");
  const std::string refused[] = {
      "",
      authorization(""),
      authorization("Bearer"),
      authorization("Bearer wrong"),
      authorization("Bearer " + key.substr(0, key.size() - 1)),
      authorization("Bearer " + key + "x"),
      authorization("Bearer " + key + " x"),
      authorization("Bearer  " + key),
      authorization("bearer " + key),
      authorization("BEARER " + key),
      authorization("Basic " + key),
      authorization(key),
      authorization("Bearer " + key) + authorization("Bearer " + key),
      authorization("Bearer wrong") + authorization("Bearer " + key),
      authorization("Bearer " + key) + authorization("Bearer wrong"),
      "X-Api-Key: " + key + "\r\n",
      "Cookie: key=" + key + "\r\n",
  };
  for (const auto& headers : refused) {
    const auto reply = ask(port(), get("/echo?api_key=" + key, headers));
    EXPECT_EQ(reply.status, 401U) << headers;
    EXPECT_EQ(reply.header("WWW-Authenticate"), "Bearer");
    EXPECT_EQ(nlohmann::json::parse(reply.body)["error"]["code"], "invalid_api_key");
    EXPECT_THAT(reply.body, Not(HasSubstr("0123456789")));
  }
  // A header with a NUL is none.
  EXPECT_EQ(ask(port(), get("/echo", authorization("Bearer " + key + std::string(1, '\0')))).status, 400U);
}

TEST_F(Keys, AreAskedForBeforeTheBody) {
  start_with_keys();
  Client client(port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive().status, 401U);  // neither 100 nor 413
  EXPECT_EQ(ask(port(), "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").status, 401U);
  EXPECT_EQ(ask(port(), get("/no/such/path")).status, 401U);
}

TEST_F(Keys, ARefusedConnectionGoesOn) {
  start_with_keys();
  Client client(port());
  client.send(get("/echo"));
  EXPECT_EQ(client.receive().status, 401U);
  client.send(get("/echo?x", authorization(fmt::format("Bearer {}", kKey))));
  EXPECT_EQ(client.receive().body, "x");
}

TEST_F(Keys, PublicPathsNeedNone) {
  start_with_keys();
  EXPECT_EQ(ask(port(), get("/health")).status, 200U);
  EXPECT_EQ(ask(port(), "HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n", true).status, 200U);
  EXPECT_EQ(ask(port(), get("/health/../echo")).status, 401U);
  EXPECT_EQ(ask(port(), get("/healthy")).status, 401U);
  EXPECT_EQ(ask(port(), "OPTIONS /echo HTTP/1.1\r\nHost: x\r\n\r\n").status, 204U);
}

TEST(KeyFile, OneALine) {
  const TemporaryFolder folder;
  const auto file = folder.write("keys", "# for the team\r\n\n  first-key \t\nsecond#key\r\n#third\n");
  EXPECT_THAT(http::read_api_keys(file), ElementsAre("first-key", "second#key"));
}

TEST(KeyFile, ErrorsNameTheFileAndNeverTheKey) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { http::read_api_keys(folder / "none"); }), HasSubstr("none"));
  EXPECT_THAT(error_of([&] { http::read_api_keys(folder.write("empty", "# nothing\n")); }),
              HasSubstr("empty"));
  const auto message = error_of([&] { http::read_api_keys(folder.write("bad", "good\nsecret word\n")); });
  EXPECT_THAT(message, HasSubstr("line 2"));
  EXPECT_THAT(message, Not(HasSubstr("secret")));
  EXPECT_THAT(message, HasSubstr("0x20 at column 7"));
  EXPECT_THAT(
      error_of([&] { http::read_api_keys(folder.write("mark", "\xEF\xBB\xBFgood\n")); }),
      HasSubstr("line 1: an API key is printable ASCII without spaces; found the byte 0xEF at column 1"));
  EXPECT_THAT(error_of([&] { http::read_api_keys(folder.write("note", "  good # mine\n")); }),
              HasSubstr("0x20 at column 7"));
  EXPECT_THAT(error_of([] { http::ApiKeys({"secret\n"}); }), Not(HasSubstr("secret")));
  EXPECT_NE(error_of([] { http::ApiKeys({""}); }), "");
}

/// Somebody may name anything: none of it may hang the start or fill the memory.
TEST(KeyFile, OnlyRegularFilesOfSomeSize) {
  const TemporaryFolder folder;
  const auto fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { http::read_api_keys(fifo); }), HasSubstr("regular file"));
  EXPECT_THAT(error_of([] { http::read_api_keys("/dev/zero"); }), HasSubstr("regular file"));
  EXPECT_THAT(error_of([&] { http::read_api_keys(folder / "."); }), HasSubstr("regular file"));
  EXPECT_THAT(error_of([&] { http::read_api_keys(folder.write("large", std::string(2 << 20, 'x'))); }),
              HasSubstr("expected at most"));
}

class CrossOrigin : public HttpTest {
 protected:
  void start_with(std::vector<std::string> origins) {
    http::HttpOptions options;
    options.cors_origins = std::move(origins);
    options.api_keys = {kKey};
    options.limits.body_bytes = 10;
    start(options);
  }
  /// One of each kind of answer: whole, stream, and errors of the handler and of the server.
  std::vector<Reply> all_kinds(const std::string& origin) {
    const auto more = fmt::format("Origin: {}\r\nCookie: a=b\r\n", origin);
    const auto with_key = fmt::format("{}Authorization: Bearer {}\r\n", more, kKey);
    std::vector<Reply> replies;
    replies.push_back(ask(port(),
                          "OPTIONS /echo HTTP/1.1\r\nHost: x\r\nAccess-Control-Request-Method: POST\r\n"
                          "Access-Control-Request-Headers: authorization, x-stainless-os\r\n" +
                              more + "\r\n"));
    EXPECT_EQ(replies.back().status, 204U);
    EXPECT_THAT(std::string(replies.back().header("Access-Control-Allow-Headers")),
                HasSubstr("Authorization"));
    EXPECT_THAT(std::string(replies.back().header("Access-Control-Allow-Headers")),
                HasSubstr("x-stainless-os"));
    EXPECT_THAT(std::string(replies.back().header("Access-Control-Allow-Methods")), HasSubstr("POST"));
    for (const auto& request :
         {get("/health", with_key), get("/stream", with_key), get("/nothing", with_key),
          get("/throw", with_key), get("/health", more), post("/echo", "larger than 10", with_key)}) {
      replies.push_back(ask(port(), request));
    }
    for (const auto& reply : replies) {
      EXPECT_EQ(reply.header("Access-Control-Allow-Credentials"), "");
    }
    EXPECT_EQ(replies[1].status, 200U);
    EXPECT_EQ(replies[2].body, "0123456789");
    EXPECT_EQ(replies[3].status, 404U);
    EXPECT_EQ(replies[4].status, 500U);
    EXPECT_EQ(replies[5].status, 401U);
    EXPECT_EQ(replies[6].status, 413U);
    return replies;
  }
};

TEST_F(CrossOrigin, NobodyByDefault) {
  start_with({});
  for (const auto& reply : all_kinds("https://evil.example")) {
    EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "");
  }
}

TEST_F(CrossOrigin, Everybody) {
  start_with({"*"});
  for (const auto& reply : all_kinds("https://evil.example")) {
    EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "*");
  }
}

TEST_F(CrossOrigin, SomeByName) {
  start_with({"https://chat.example", "http://localhost:3000"});
  for (const auto& reply : all_kinds("http://localhost:3000")) {
    EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "http://localhost:3000");
    EXPECT_EQ(reply.header("Vary"), "Origin");
  }
  for (const char* const origin :
       {"https://evil.example", "https://chat.example.evil.example", "null", "http://chat.example",
        "https://chat.example:8443", "HTTPS://CHAT.EXAMPLE"}) {
    for (const auto& reply : all_kinds(origin)) {
      EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "") << origin;
      EXPECT_EQ(reply.header("Vary"), "Origin");
    }
  }
}

TEST_F(CrossOrigin, WhatIsNoOriginIsRefused) {
  for (const char* const origin : {"", "chat.example", "https://", "https://chat.example/",
                                   "https://a,https://b", "https://a b", "https://a\r\nX: 1"}) {
    EXPECT_NE(error_of([&] { http::Cors({origin}); }), "") << origin;
  }
}

/// A server without keys, and what pages may do with it.
class Pages : public HttpTest {
 protected:
  void start_with(std::vector<std::string> origins, std::vector<std::string> keys = {}) {
    http::HttpOptions options;
    options.cors_origins = std::move(origins);
    options.api_keys = std::move(keys);
    options.is_public = [](std::string_view path) { return path == "/health"; };
    start(options);
  }
  Reply post_as(std::string_view host, std::string_view origin, std::string_view more = {}) {
    return ask(port(),
               fmt::format("POST /echo HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\n{}Content-Type: text/plain\r\n"
                           "Content-Length: 1\r\n\r\nx",
                           host, origin, more));
  }
  Reply ask_as(std::string_view host, std::string_view more = {}, std::string_view path = "/echo?x") {
    return ask(port(), fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}\r\n", path, host, more));
  }
  static std::string code_of(const Reply& reply) {
    return nlohmann::json::parse(reply.body)["error"]["code"].get<std::string>();
  }
};

TEST_F(Pages, CannotNameAKeylessServerThemselves) {
  start_with({});
  const auto with_port = fmt::format("{}", port());
  for (const std::string host : {"localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.2", "[::1]",
                                 "192.168.1.5", "mybox", "chat.localhost", ""}) {
    EXPECT_EQ(ask_as(host).status, 200U) << host;
    if (!host.empty()) {
      EXPECT_EQ(ask_as(host + ":" + with_port).status, 200U) << host;
    }
  }
  for (const std::string host : {"evil.example", "evil.example.", "127.0.0.1.evil.example",
                                 "localhost.evil.example", "1.2.3", "notlocalhost.com", ".localhost.x"}) {
    for (const auto& name : {host, host + ":" + with_port}) {
      const auto reply = ask_as(name);
      EXPECT_EQ(reply.status, 403U) << name;
      EXPECT_EQ(code_of(reply), "foreign_host");
      EXPECT_THAT(reply.body, HasSubstr("--cors-origin"));
    }
  }
  // What stands in the target counts, whatever Host says.
  for (const char* const method : {"GET", "POST"}) {
    const auto ask_for = [&](std::string_view target, std::string_view host) {
      return ask(port(), fmt::format("{} {}/echo?x HTTP/1.1\r\nHost: {}\r\n\r\n", method, target, host));
    };
    EXPECT_EQ(ask_for("http://evil.example", "localhost").status, 403U);
    EXPECT_EQ(ask_for("HTTP://evil.example:" + with_port, "localhost").status, 403U);
    EXPECT_EQ(ask_for("https://evil.example", "127.0.0.1").status, 403U);
    EXPECT_EQ(ask_for("http://localhost", "evil.example").status, 200U);
  }
  EXPECT_EQ(ask(port(), "GET http://evil.example/echo HTTP/1.0\r\n\r\n").status, 403U);
  // What needs no key anyway says nothing that a page may not know.
  EXPECT_EQ(ask_as("evil.example", "", "/health").status, 200U);
  EXPECT_EQ(ask(port(), "GET /echo?x HTTP/1.0\r\n\r\n").body, "x");
}

TEST_F(Pages, OfOthersCannotMakeAKeylessServerWork) {
  start_with({});
  const std::string own = fmt::format("127.0.0.1:{}", port());
  for (const std::string origin :
       {"https://evil.example", "null", "http://localhost:1", "http://evil.example", "file://", "x"}) {
    const auto reply = post_as(own, origin);
    EXPECT_EQ(reply.status, 403U) << origin;
    EXPECT_EQ(code_of(reply), "foreign_origin");
    EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "");
    EXPECT_EQ(ask_as(own, fmt::format("Origin: {}\r\n", origin)).status, 200U) << origin;
  }
  EXPECT_EQ(post_as(own, fmt::format("http://{}", own)).status, 200U);
  // Behind a proxy that has a name of its own.
  EXPECT_EQ(post_as(own, "https://chat.example", "Sec-Fetch-Site: same-origin\r\n").status, 200U);
  EXPECT_EQ(post_as(own, "https://chat.example", "Sec-Fetch-Site: same-site\r\n").status, 403U);
  EXPECT_EQ(post_as("evil.example", "http://evil.example", "Sec-Fetch-Site: same-origin\r\n").status, 403U);
}

TEST_F(Pages, ThatAreNamedMayUseIt) {
  start_with({"https://chat.example", "http://app.example:3000"});
  EXPECT_EQ(post_as("localhost", "https://chat.example").status, 200U);
  EXPECT_EQ(ask_as("chat.example").status, 200U);
  EXPECT_EQ(ask_as("app.example:8080").status, 200U);
  EXPECT_EQ(post_as("localhost", "https://other.example").status, 403U);
  EXPECT_EQ(ask_as("other.example").status, 403U);
}

TEST_F(Pages, OfEverybodyMayUseItIfAllAreNamed) {
  start_with({"*"});
  EXPECT_EQ(post_as("other.example", "https://evil.example").status, 200U);
}

TEST_F(Pages, AreKeptAwayByKeysAlone) {
  start_with({}, {kKey});
  const auto key = fmt::format("Origin: https://evil.example\r\nAuthorization: Bearer {}\r\n", kKey);
  EXPECT_EQ(ask_as("evil.example", key).status, 200U);
  EXPECT_EQ(ask_as("evil.example", "Origin: https://evil.example\r\n").status, 401U);
}

TEST(PageGuard, NamesMatterOnLoopbackOnly) {
  const http::PageGuard guard("models.example", {});
  const auto refused = [&](std::string host, bool local) {
    return guard
        .refusal({.method = "GET",
                  .path = "/",
                  .query = {},
                  .headers = {{"Host", std::move(host)}},
                  .body = {},
                  .peer = {}},
                 local)
        .has_value();
  };
  EXPECT_FALSE(refused("evil.example", false));
  EXPECT_TRUE(refused("evil.example", true));
  EXPECT_FALSE(refused("models.example:8080", true));
}

}  // namespace
}  // namespace inferno::test
