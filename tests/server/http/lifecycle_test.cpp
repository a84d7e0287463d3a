// How a server begins and ends.

#include <arpa/inet.h>
#include <atomic>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>

#include <inferno/error.hpp>

#include "server/http/fixture.hpp"

namespace inferno::test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

class Lifecycle : public HttpTest {};

bool can_connect(std::uint16_t port) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

std::string listen_error(http::HttpOptions options) {
  try {
    http::HttpServer(std::move(options), [](const auto&) {});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST_F(Lifecycle, WhereItCannotListen) {
  start();
  EXPECT_THAT(listen_error({.port = port()}), HasSubstr(fmt::format("127.0.0.1:{}", port())));
  EXPECT_THAT(listen_error({.host = "192.0.2.1", .port = 0}), HasSubstr("192.0.2.1"));
  EXPECT_THAT(listen_error({.host = "no such host", .port = 0}), HasSubstr("no such host"));
  EXPECT_THAT(listen_error({.host = "", .port = 0}), HasSubstr("empty"));
}

TEST_F(Lifecycle, Addresses) {
  for (const char* const host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    http::HttpServer server({.host = host, .port = 0},
                            [](const auto& exchange) { exchange->respond({.body = "x"}); });
    EXPECT_EQ(server.url(), fmt::format("http://{}:{}", host, server.port()));
    EXPECT_EQ(ask(server.port(), get("/")).body, "x");
  }
  const FileDescriptor v6(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  if (!v6 || ::bind(v6.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) != 0) {
    GTEST_SKIP() << "this machine has no IPv6";
  }
  const http::HttpServer server({.host = "::1", .port = 0}, [](const auto&) {});
  EXPECT_EQ(server.url(), fmt::format("http://[::1]:{}", server.port()));
}

TEST_F(Lifecycle, StopAcceptingLeavesConnections) {
  auto& server = start();
  Client client(port());
  client.send(get("/health"));
  EXPECT_EQ(client.receive().status, 200U);
  server.stop_accepting();
  EXPECT_TRUE(eventually([&] { return !can_connect(port()); }));
  client.send(get("/health"));
  EXPECT_EQ(client.receive().status, 200U);
}

TEST_F(Lifecycle, DrainWaitsForAnswers) {
  auto& server = start();
  Client idle(port());
  idle.send(get("/health"));
  EXPECT_EQ(idle.receive().status, 200U);
  Client busy(port());
  busy.send(get("/later"));
  Client streaming(port());
  streaming.send(get("/later"));
  const auto first = kept.next();
  const auto second = kept.next();
  second->begin({.content_type = "text/plain", .body = "begun,"});
  EXPECT_FALSE(server.drain(milliseconds(20)));
  EXPECT_TRUE(idle.is_closed());
  std::thread answerer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    first->respond({.body = "whole"});
    second->write("ended");
    second->end();
  });
  EXPECT_TRUE(server.drain(milliseconds(10'000)));
  answerer.join();
  std::vector<std::string> bodies;
  for (Client* const client : {&busy, &streaming}) {
    const auto reply = client->receive();
    EXPECT_TRUE(reply.complete);
    bodies.push_back(reply.body);
    EXPECT_TRUE(client->is_closed());
  }
  EXPECT_THAT(bodies, testing::UnorderedElementsAre("whole", "begun,ended"));
  // Who comes now is served once.
  Client late(port());
  late.send(get("/health") + get("/health"));
  EXPECT_EQ(late.receive().header("Connection"), "close");
  EXPECT_TRUE(late.is_closed());
}

TEST_F(Lifecycle, StopTellsThoseWhoAnswer) {
  auto& server = start();
  Client client(port());
  client.send(get("/later"));
  const auto exchange = kept.next();
  std::atomic<bool> gone = false;
  exchange->on_gone([&gone] { gone = true; });
  server.stop();
  EXPECT_TRUE(gone);
  EXPECT_TRUE(client.is_closed());
  EXPECT_EQ(server.counters().connections, 0U);
  // Exchanges outlive their server.
  exchange->post([] { ADD_FAILURE() << "nobody is there to run it"; });
  exchange->write("nothing");
  exchange->respond({.body = "nothing"});
  server.stop();
}

TEST_F(Lifecycle, ExchangesOutliveTheServerObject) {
  std::shared_ptr<http::Exchange> exchange;
  {
    Kept own;
    http::HttpServer server({.port = 0}, [&](auto given) { own.keep(std::move(given)); });
    Client client(server.port());
    client.send(get("/"));
    exchange = own.next();
    exchange->on_gone([exchange] {});
  }
  exchange->respond({.body = "nothing"});
  exchange.reset();
}

TEST_F(Lifecycle, StopAmidTraffic) {
  for (int round = 0; round < 20; ++round) {
    http::HttpServer server({.port = 0}, [](const auto& exchange) {
      exchange->begin({.content_type = "text/plain"});
      exchange->post([exchange] {
        exchange->write("x");
        exchange->end();
      });
    });
    std::atomic<bool> over = false;
    std::vector<std::thread> clients;
    clients.reserve(4);
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        while (!over && can_connect(server.port())) {
          Client client(server.port());
          client.send(get("/") + get("/"));
          client.receive_until("x");
        }
      });
    }
    std::this_thread::sleep_for(milliseconds(5));
    server.stop();
    over = true;
    for (auto& client : clients) client.join();
  }
}

TEST_F(Lifecycle, AdoptedSocketsAreServed) {
  auto& server = start();
  int pair[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  Client client{FileDescriptor(pair[0])};
  server.adopt(FileDescriptor(pair[1]));
  client.send(get("/echo?local"));
  EXPECT_EQ(client.receive().body, "local");
  client.send(get("/later"));
  const auto exchange = kept.next();
  std::atomic<bool> gone = false;
  exchange->on_gone([&gone] { gone = true; });
  client.half_close();
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(gone);
  client.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

}  // namespace
}  // namespace inferno::test
