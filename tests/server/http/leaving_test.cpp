// A client that leaves is noticed, one that only closes its sending side is not taken for one.

#include <atomic>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "server/http/fixture.hpp"

namespace inferno::test {
namespace {

using std::chrono::milliseconds;

enum class How { closes, resets, is_killed };
enum class When { before_the_answer, within_the_answer };

class Leaving : public HttpTest, public testing::WithParamInterface<std::tuple<How, When, const char*>> {};

/// A process that connects, sends and waits to be killed.
pid_t spawn_client(std::uint16_t port, std::string_view request) {
  const pid_t child = ::fork();
  if (child == 0) {
    Client client(port);
    client.send(request);
    for (;;) ::pause();
  }
  return child;
}

TEST_P(Leaving, IsNoticed) {
  const auto [how, when, version] = GetParam();
  const auto& server = start();
  const auto request = fmt::format("GET /later HTTP/{}\r\nHost: x\r\n\r\n", version);
  std::unique_ptr<Client> client;
  pid_t child = 0;
  if (how == How::is_killed) {
    child = spawn_client(port(), request);
  } else {
    client = std::make_unique<Client>(port());
    client->send(request);
  }
  const auto exchange = kept.next();
  ASSERT_NE(exchange, nullptr);
  std::atomic<int> gone = 0;
  exchange->on_gone([&gone] { ++gone; });
  if (when == When::within_the_answer) {
    exchange->begin({.content_type = "text/plain", .body = "begun"});
    if (client) {
      EXPECT_TRUE(client->receive_until("begun"));
    }
  }
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_EQ(gone, 0);

  if (how == How::closes) client->close();
  if (how == How::resets) client->reset();
  if (how == How::is_killed) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
  EXPECT_TRUE(eventually([&] { return server.counters().connections == 0; }));
  EXPECT_EQ(server.counters().requests_active, 0U);
  EXPECT_EQ(statuses(), std::vector<unsigned>{499});
  // Who asks late is told at once.
  exchange->on_gone([&gone] { ++gone; });
  EXPECT_TRUE(eventually([&] { return gone == 2; }));
  exchange->write("to nobody");
  exchange->end();
}

INSTANTIATE_TEST_SUITE_P(, Leaving,
                         testing::Combine(testing::Values(How::closes, How::resets, How::is_killed),
                                          testing::Values(When::before_the_answer, When::within_the_answer),
                                          testing::Values("1.1")));
// The end of an HTTP/1.0 answer is the connection's; nothing may be sent ahead within it.
INSTANTIATE_TEST_SUITE_P(Http10, Leaving,
                         testing::Combine(testing::Values(How::closes, How::is_killed),
                                          testing::Values(When::before_the_answer), testing::Values("1.0")));

/// More than is read ahead while an answer is awaited hides the end of what a client sends.
/// Whoever answered can say for the log how far it was.
TEST_F(HttpTest, NotesOfWhoLeftReachTheLog) {
  start();
  Client client(port());
  client.send(get("/later"));
  const auto exchange = kept.next();
  exchange->on_gone([weak = std::weak_ptr(exchange)] {
    if (const auto left = weak.lock()) left->add_note("so far");
  });
  client.reset();
  EXPECT_TRUE(eventually([&] { return !notes().empty(); }));
  EXPECT_THAT(notes(), testing::ElementsAre("so far"));
  EXPECT_FALSE(exchange->was_cut_off());
}

TEST_F(HttpTest, WhoLeavesMoreBehindThanIsReadIsNoticed) {
  const auto& server = start();
  for (const std::size_t more : {std::size_t{17'000}, std::size_t{70'000}}) {
    Client client(port());
    client.send(get("/later") + std::string(more, 'x'));
    const auto exchange = kept.next();
    ASSERT_NE(exchange, nullptr);
    std::atomic<int> gone = 0;
    exchange->on_gone([&gone] { ++gone; });
    std::this_thread::sleep_for(milliseconds(120));
    EXPECT_EQ(gone, 0);
    client.close();
    EXPECT_TRUE(eventually([&] { return gone == 1; }));
    EXPECT_TRUE(eventually([&] { return server.counters().connections == 0; }));
  }
}

class HalfClose : public HttpTest {};

TEST_F(HalfClose, IsNoCancelBeforeTheAnswer) {
  start();
  for (const char* const version : {"1.1", "1.0"}) {
    for (const int wait : {0, 30, 300}) {
      Client client(port());
      client.send(fmt::format("GET /later HTTP/{}\r\nHost: x\r\n\r\n", version));
      client.half_close();
      const auto exchange = kept.next();
      exchange->on_gone([] { ADD_FAILURE() << "it has not gone"; });
      std::this_thread::sleep_for(milliseconds(wait));
      exchange->respond({.body = "whole"});
      const auto reply = client.receive();
      EXPECT_EQ(reply.status, 200U);
      EXPECT_EQ(reply.body, "whole");
      EXPECT_TRUE(client.is_closed());
    }
  }
}

TEST_F(HalfClose, IsNoCancelWithinTheAnswer) {
  start();
  Client client(port());
  client.send(get("/later"));
  client.half_close();
  const auto exchange = kept.next();
  exchange->on_gone([] { ADD_FAILURE() << "it has not gone"; });
  exchange->begin({.content_type = "text/plain", .body = "a"});
  for (const char* const piece : {"b", "c"}) {
    std::this_thread::sleep_for(milliseconds(200));
    exchange->write(piece);
  }
  std::this_thread::sleep_for(milliseconds(100));
  exchange->end();
  const auto reply = client.receive();
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.body, "abc");
}

TEST_F(HalfClose, ThenLeavingIsNoticed) {
  start();
  Client client(port());
  client.send(get("/later"));
  client.half_close();
  const auto exchange = kept.next();
  std::atomic<bool> gone = false;
  exchange->on_gone([&gone] { gone = true; });
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(gone);
  client.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

class Departures : public HttpTest {};

TEST_F(Departures, UrgentDataIsNoDeparture) {
  start();
  Client client(port());
  client.send(get("/later"));
  client.half_close();
  const auto exchange = kept.next();
  exchange->on_gone([] { ADD_FAILURE() << "it has not gone"; });
  exchange->respond({.body = "whole"});
  EXPECT_EQ(client.receive().body, "whole");

  Client other(port());
  other.send(get("/later"));
  const auto next = kept.next();
  ::send(other.socket(), "!", 1, MSG_OOB);
  std::this_thread::sleep_for(milliseconds(50));
  next->respond({.body = "whole"});
  EXPECT_EQ(other.receive().body, "whole");
}

TEST_F(Departures, AfterTheEndNobodyIsTold) {
  start();
  Client client(port());
  client.send(get("/later"));
  const auto exchange = kept.next();
  std::atomic<bool> told = false;
  exchange->on_gone([&told] { told = true; });
  exchange->respond({.body = "whole"});
  EXPECT_EQ(client.receive().body, "whole");
  client.reset();
  EXPECT_EQ(ask(port(), get("/health")).status, 200U);
  EXPECT_FALSE(told);
}

TEST_F(Departures, ManyInARowLeaveNothingBehind) {
  const auto& server = start();
  std::atomic<int> gone = 0;
  std::vector<std::thread> threads;
  std::atomic<bool> all_done = false;
  std::thread handler([&] {
    for (int i = 0; i < 200; ++i) {
      const auto exchange = kept.next();
      // As callbacks do: it holds the exchange that holds it.
      exchange->on_gone([&gone, exchange] { ++gone; });
      exchange->begin({.content_type = "text/event-stream"});
      exchange->write("data: 1\n\n");
    }
    all_done = true;
  });
  threads.reserve(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 25; ++i) {
        Client client(port());
        client.send(get("/later"));
        client.receive_until("data: 1");
        if (i % 2 == 0) client.reset();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  handler.join();
  EXPECT_TRUE(eventually([&] { return gone == 200; }));
  EXPECT_TRUE(eventually([&] { return server.counters().connections == 0; }));
  EXPECT_EQ(server.counters().requests_active, 0U);
  EXPECT_EQ(ask(port(), get("/health")).status, 200U);
}

}  // namespace
}  // namespace inferno::test
