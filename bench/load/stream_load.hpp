#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "connection.hpp"
#include "samples.hpp"

namespace inferno::load {

using Clock = std::chrono::steady_clock;

/// Milliseconds since `start`.
double since(Clock::time_point start);

/// The JSON of a streamed completion of random tokens.
struct Prompt {
  std::uint32_t tokens = 8;      ///< of the prompt
  std::uint32_t generate = 128;  ///< exactly so many: end tokens are ignored
  std::uint32_t shared = 0;      ///< tokens at its beginning that depend on `shared_seed` alone
  std::uint64_t shared_seed = 0;
  /// Generate nothing but this token; -1: what the model says. The tokens of a model with random weights are
  /// often pieces of characters, which a server holds back until there is a whole one.
  std::int64_t only = -1;
};
std::string completion_request(const Prompt& prompt, std::mt19937_64& random);

/// A connection that streams one completion after the other, and what it sees.
class Streamer {
 public:
  struct Counts {
    Samples gaps;          ///< between the events of a stream
    Samples first_tokens;  ///< from request to first event
    Samples totals;        ///< from request to end
    std::uint64_t events = 0;
    std::uint64_t tokens = 0;  ///< of requests that are over, as the server counted them
    std::uint64_t events_of_those = 0;
    std::uint64_t cached_tokens = 0;  ///< likewise
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;  ///< 429
    std::uint64_t failed = 0;   ///< any other status than 200, or an error within a stream
    std::string error;          ///< the last of those
  };

  /// Counts go to `counts`, which may be shared.
  Streamer(Poller& poller, Counts& counts);
  Streamer(const Streamer&) = delete;
  Streamer& operator=(const Streamer&) = delete;

  bool busy() const { return busy_; }
  /// Asks. `on_end` may ask again.
  void start(const std::string& request, std::function<void()> on_end);

 private:
  void event(std::string_view data);
  void end(int status, std::string_view body);

  Counts& counts_;
  Connection connection_;
  bool busy_ = false;
  Clock::time_point asked_;
  Clock::time_point last_;
  bool begun_ = false;
  std::uint64_t events_ = 0;
  std::function<void()> on_end_;
};

}  // namespace inferno::load
