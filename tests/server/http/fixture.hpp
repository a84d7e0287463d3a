#pragma once

#include <condition_variable>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/http/client.hpp"
#include "server/http/http_server.hpp"
#include "server/http/router.hpp"

namespace inferno::test {

/// Waits until `condition` holds; false after ten seconds.
bool eventually(const std::function<bool()>& condition);

/// Exchanges that a handler kept, for a test to answer them.
class Kept {
 public:
  void keep(std::shared_ptr<http::Exchange> exchange);
  /// Waits for the next one; nullptr after ten seconds.
  std::shared_ptr<http::Exchange> next();

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::shared_ptr<http::Exchange>> exchanges_;
};

/// A server on a free port with these paths:
///   /health  {"status":"ok"}
///   /echo    POST: the body as it came; GET: the query
///   /stream  ten pieces "0" to "9", written one by one
///   /later   kept in `kept`
///   /forget  nobody answers
///   /throw   the handler throws
class HttpTest : public testing::Test {
 protected:
  http::HttpServer& start(http::HttpOptions options = {});
  std::uint16_t port() { return server_->port(); }
  /// What was reported of answered requests.
  std::vector<unsigned> statuses();
  std::vector<std::string> notes();

  Kept kept;

 private:
  std::mutex mutex_;
  std::vector<unsigned> statuses_;
  std::vector<std::string> notes_;
  http::Router router_;
  std::unique_ptr<http::HttpServer> server_;
};

}  // namespace inferno::test
