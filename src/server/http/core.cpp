#include "server/http/core.hpp"

#include <boost/asio/post.hpp>
#include <utility>

namespace inferno::http {

Core::Core(HttpOptions options_given, Handler handler_given)
    : options([&] {
        // Digests are all that is kept of the keys.
        auto copy = options_given;
        copy.api_keys.clear();
        return copy;
      }()),
      handler(std::move(handler_given)),
      keys(options_given.api_keys),
      cors(options_given.cors_origins),
      pages(options_given.api_keys.empty()
                ? std::optional<PageGuard>(std::in_place, options_given.host, options_given.cors_origins)
                : std::nullopt) {}

void Core::post(const Strand& strand, std::function<void()> call) {
  const std::shared_lock lock(gate_);
  if (open_) boost::asio::post(strand, std::move(call));
}

void Core::close_gate() {
  const std::unique_lock lock(gate_);
  open_ = false;
}

void Core::add(const std::shared_ptr<Connection>& connection) {
  ++connections;
  const std::lock_guard lock(connections_mutex_);
  connections_.emplace(connection.get(), connection);
}

void Core::remove(const Connection* connection) {
  --connections;
  const std::lock_guard lock(connections_mutex_);
  connections_.erase(connection);
}

std::vector<std::shared_ptr<Connection>> Core::all() {
  std::vector<std::shared_ptr<Connection>> found;
  const std::lock_guard lock(connections_mutex_);
  found.reserve(connections_.size());
  for (const auto& [unused, weak] : connections_) {
    if (auto connection = weak.lock()) found.push_back(std::move(connection));
  }
  return found;
}

void Core::request_began() {
  ++requests;
  const std::lock_guard lock(active_mutex_);
  ++active_;
}

void Core::request_ended() {
  const std::lock_guard lock(active_mutex_);
  if (--active_ == 0) quiet_.notify_all();
}

bool Core::wait_until_quiet(std::chrono::milliseconds timeout) {
  std::unique_lock lock(active_mutex_);
  return quiet_.wait_for(lock, timeout, [this] { return active_ == 0; });
}

std::size_t Core::active() const {
  const std::lock_guard lock(active_mutex_);
  return active_;
}

}  // namespace inferno::http
