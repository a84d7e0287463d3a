// What a client may take, and what becomes of one that takes more.

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include "server/http/fixture.hpp"
#include "support/child.hpp"

namespace inferno::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class Limits : public HttpTest {
 protected:
  /// Short times, so that slowness shows soon.
  static http::HttpOptions hasty() {
    http::HttpOptions options;
    options.limits.header_time = milliseconds(150);
    options.limits.body_time = milliseconds(150);
    options.limits.idle_time = milliseconds(150);
    options.limits.write_time = milliseconds(150);
    return options;
  }
  static void expect_error(const Reply& reply, unsigned status) {
    static const std::map<unsigned, std::string> kCodes = {
        {408, "request_timeout"}, {413, "body_too_large"}, {431, "header_too_large"}};
    EXPECT_EQ(reply.status, status);
    const auto json = nlohmann::json::parse(reply.body, nullptr, false);
    ASSERT_TRUE(json.is_object() && json.contains("error")) << reply.body;
    EXPECT_TRUE(json["error"]["message"].is_string());
    ASSERT_TRUE(json["error"]["code"].is_string()) << reply.body;
    if (kCodes.contains(status)) {
      EXPECT_EQ(json["error"]["code"], kCodes.at(status));
    }
  }
};

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(Limits, HeaderSize) {
  start();
  expect_error(ask(port(), get("/health", "X-Long: " + std::string(20'000, 'x') + "\r\n")), 431);
  expect_error(ask(port(), get(fmt::format("/{:x<20000}", ""))), 431);
  std::string fields;
  for (int i = 0; i < 200; ++i) fields += fmt::format("X-{}: 1\r\n", i);
  expect_error(ask(port(), get("/health", fields)), 431);
  // One field after the other, none of them long.
  Client client(port());
  client.send("GET /health HTTP/1.1\r\nHost: x\r\n");
  std::thread sender([&] {
    for (int i = 0; i < 1000 && client.send("X-Name: " + std::string(100, 'x') + "\r\n"); ++i) {
    }
  });
  expect_error(client.receive(), 431);
  sender.join();
  EXPECT_EQ(ask(port(), get("/health", "X-Long: " + std::string(15'000, 'x') + "\r\n")).status, 200U);
}

TEST_F(Limits, BodySizeIsRefusedBeforeTheBody) {
  http::HttpOptions options;
  options.limits.body_bytes = 1000;
  start(options);
  Client client(port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000000\r\n\r\nx");
  expect_error(client.receive(), 413);
  for (const char* const length : {"1001", "18446744073709551615"}) {
    Client other(port());
    other.send(
        fmt::format("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n"
                    "Expect: 100-continue\r\n\r\n",
                    length));
    expect_error(other.receive(), 413);  // and no 100
  }
  // Does not fit 64 bits.
  EXPECT_EQ(
      ask(port(), "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n").status,
      400U);
  EXPECT_EQ(ask(port(), post("/echo", std::string(1000, 'x'))).body.size(), 1000U);
}

TEST_F(Limits, AClientThatSendsTooMuchCanReadWhy) {
  http::HttpOptions options;
  options.limits.body_bytes = 1000;
  start(options);
  // Reads only after it has sent all, as simple clients do.
  Client client(port());
  EXPECT_TRUE(client.send(post("/echo", std::string(32 << 20, 'x'))));
  expect_error(client.receive(), 413);
}

TEST_F(Limits, ChunkedBodySize) {
  http::HttpOptions options;
  options.limits.body_bytes = 1000;
  start(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  expect_error(ask(port(), head + "3e9\r\n"), 413);
  expect_error(ask(port(), head + "ffffffffffffffff\r\n"), 413);
  std::string many = head;
  for (int i = 0; i < 1001; ++i) many += "1\r\nx\r\n";
  expect_error(ask(port(), many), 413);
  expect_error(ask(port(), fmt::format("{}1;{:e<50000}", head, "")), 431);
  std::string trailers = head + "0\r\n";
  for (int i = 0; i < 5000; ++i) trailers += "X-Trailer: 1\r\n";
  expect_error(ask(port(), trailers), 431);
  expect_error(ask(port(), head + fmt::format("0\r\nX: {:x<50000}", "")), 431);
  expect_error(ask(port(), head + std::string(50'000, '0')), 431);
  std::string extensions = head;
  for (int i = 0; i < 100; ++i) extensions += fmt::format("1;{:e<1000}\r\nx\r\n", "");
  expect_error(ask(port(), extensions), 431);
  expect_error(ask(port(), head + std::string(17, 'f') + "\r\n"), 413);
}

TEST_F(Limits, BodiesOfAllTogether) {
  http::HttpOptions options;
  options.limits.body_bytes = 1 << 20;
  options.limits.bodies_bytes = 3 << 20;
  start(options);
  const std::string half =
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + std::string((1 << 20) - 1, 'x');
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->send(half);
  }
  unsigned refused = 0;
  EXPECT_TRUE(eventually([&] {
    for (const unsigned status : statuses()) refused = status;
    return refused != 0;
  }));
  EXPECT_EQ(refused, 503U);
  clients.clear();
  EXPECT_TRUE(
      eventually([&] { return ask(port(), post("/echo", std::string(1 << 20, 'x'))).status == 200; }));
}

TEST_F(Limits, SlowHeadersAndBodies) {
  const auto& server = start(hasty());
  Client head(port());
  head.send("GET /health HTTP/1.1\r\n");
  Client body(port());
  body.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
  Client chunks(port());
  chunks.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
  for (Client* const client : {&head, &body, &chunks}) {
    const auto reply = client->receive();
    expect_error(reply, 408);
    EXPECT_EQ(reply.header("Connection"), "close");
    EXPECT_TRUE(client->is_closed());
  }
  EXPECT_EQ(server.counters().timeouts, 3U);
}

TEST_F(Limits, DrippingDoesNotHelp) {
  start(hasty());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 100; ++i) clients.push_back(std::make_unique<Client>(port()));
  const std::string head = "GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: " + std::string(10'000, 's');
  std::size_t at = 0;
  while (statuses().size() < 100 && at < head.size()) {
    for (const auto& client : clients) client->send(std::string_view(head).substr(at, 1));
    ++at;
    std::this_thread::sleep_for(milliseconds(5));
    if (at % 20 == 0) {
      EXPECT_EQ(ask(port(), get("/health")).status, 200U);
    }
  }
  for (const auto& client : clients) EXPECT_EQ(client->receive().status, 408U);
}

TEST_F(Limits, IdleConnectionsAreClosed) {
  start(hasty());
  Client fresh(port());
  EXPECT_TRUE(fresh.is_closed());
  Client used(port());
  used.send(get("/health"));
  EXPECT_EQ(used.receive().status, 200U);
  EXPECT_TRUE(used.is_closed());
  EXPECT_EQ(statuses().size(), 1U);
}

TEST_F(Limits, AnAnswerMayTakeLong) {
  start(hasty());
  Client client(port());
  client.send(get("/later"));
  const auto exchange = kept.next();
  std::this_thread::sleep_for(milliseconds(500));
  exchange->respond({.body = "late"});
  EXPECT_EQ(client.receive().body, "late");
}

TEST_F(Limits, NumberOfConnections) {
  http::HttpOptions options;
  options.limits.connections = 5;
  const auto& server = start(options);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    clients.back()->send(get("/health"));
    EXPECT_EQ(clients.back()->receive().status, 200U);
  }
  Client one_more(port());
  one_more.send(get("/health"));
  const auto reply = one_more.receive();
  expect_error(reply, 503);
  EXPECT_NE(reply.header("Retry-After"), "");
  EXPECT_TRUE(one_more.is_closed());
  EXPECT_EQ(server.counters().refused, 1U);
  clients.pop_back();
  EXPECT_TRUE(eventually([&] { return ask(port(), get("/health")).status == 200; }));
}

TEST_F(Limits, AThousandIdleConnectionsAreCheap) {
  if (!kMemoryIsLimited) GTEST_SKIP() << "sanitizers keep what was freed";
  const auto& server = start();
  Client first(port());
  first.send(get("/health"));
  EXPECT_EQ(first.receive().status, 200U);
  const auto before = resident_bytes();
  std::vector<std::unique_ptr<Client>> clients;
  const std::string body(100'000, 'x');
  for (int i = 0; i < 400; ++i) {
    clients.push_back(std::make_unique<Client>(port()));
    // Each has been used, with more than fits a small buffer.
    clients.back()->send(post("/echo", body));
    EXPECT_EQ(clients.back()->receive().body.size(), body.size());
  }
  EXPECT_EQ(server.counters().connections, 401U);
  // 50 MB for a thousand, those of the test itself among them.
  EXPECT_LT(resident_bytes() - before, std::size_t{20'000'000});
}

TEST_F(Limits, AClientThatDoesNotReadHoldsWhatWasWrittenAndIsCutOff) {
  auto options = hasty();
  options.limits.write_time = milliseconds(600);
  start(options);
  Client stalled(port(), 4096);
  stalled.send(get("/later"));
  const auto exchange = kept.next();
  std::atomic<bool> gone = false;
  exchange->on_gone([&gone] { gone = true; });
  exchange->begin({.content_type = "text/event-stream"});
  // A writer that keeps to `unsent` is soon told that nothing goes on.
  std::size_t written = 0;
  while (exchange->unsent() < 100'000 && written < 100'000'000) {
    exchange->write(std::string(1000, 'x'));
    written += 1000;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_LT(written, std::size_t{5'000'000});
  EXPECT_GE(exchange->unsent(), std::size_t{50'000});
  // Others do not notice.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(port(), get("/health")).status, 200U);
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  EXPECT_EQ(exchange->unsent(), 0U);
  EXPECT_TRUE(exchange->was_cut_off());
  EXPECT_TRUE(eventually([&] { return testing::Value(statuses(), testing::Contains(499U)); }));
}

TEST_F(Limits, AClientThatReadsSlowlyGetsAll) {
  start(hasty());
  Client slow(port(), 4096);
  slow.send(get("/later"));
  const auto exchange = kept.next();
  std::atomic<int> drained = 0;
  std::string expected;
  exchange->on_drained([&drained] { ++drained; });
  exchange->begin({.content_type = "text/plain"});
  EXPECT_TRUE(eventually([&] { return exchange->unsent() == 0; }));
  for (int i = 0; i < 40; ++i) {
    expected += std::string(20'000, static_cast<char>('a' + i % 26));
    exchange->write(std::string(20'000, static_cast<char>('a' + i % 26)));
  }
  EXPECT_GT(exchange->unsent(), 0U);
  exchange->on_gone([] { ADD_FAILURE() << "it has not gone"; });
  std::thread ender([&] {
    EXPECT_TRUE(eventually([&] { return drained.load() >= 1 && exchange->unsent() == 0; }));
    exchange->end();
  });
  EXPECT_TRUE(slow.receive().body == expected);
  ender.join();
}

}  // namespace
}  // namespace inferno::test
