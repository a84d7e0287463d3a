#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// Finds the handler of a method and a path. HEAD is answered by GET's handler (the server leaves the body
/// out). A path that is known for other methods is answered 405 with Allow, an unknown one 404, both with an
/// error in JSON, unless somebody answers everything else.
class Router {
 public:
  void add(std::string method, std::string path, Handler handler);
  /// For every path and method that nobody was added for.
  void add_rest(Handler handler);

  /// Call it only once all are added; from then on from any thread.
  void handle(std::shared_ptr<Exchange> exchange) const;

 private:
  std::map<std::string, std::map<std::string, Handler>, std::less<>> paths_;
  Handler rest_;
};

}  // namespace inferno::http
