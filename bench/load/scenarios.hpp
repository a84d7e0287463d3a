#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "connection.hpp"

namespace inferno::load {

/// A line of a plot.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// What a scenario found: figures by name, and what there is to draw.
struct Findings {
  nlohmann::ordered_json figures;
  std::vector<Series> gaps;  ///< milliseconds between tokens, and the share of gaps that are at most so long
};

/// So many streams at a time; each request is followed by the next when it ends.
struct Closed {
  std::uint32_t streams = 8;
  std::uint32_t prompt_tokens = 8;
  std::uint32_t tokens = 128;
  double seconds = 10;
};
Findings run_closed(const Target& target, const Closed& options);

/// Requests that come at random, so many a second on average, however many are unanswered.
struct Open {
  double rate = 10;
  std::uint32_t prompt_tokens = 8;
  std::uint32_t tokens = 128;
  double seconds = 10;
};
Findings run_open(const Target& target, const Open& options);

/// Running streams, at first alone, then while one long prompt after the other arrives; at last how the
/// machine itself interrupts programs, with nobody at work.
struct Disturbed {
  std::uint32_t streams = 4;
  std::uint32_t prompt_tokens = 2000;
  double seconds = 10;
};
Findings run_disturbed(const Target& target, const Disturbed& options);

/// The time to the first token of a prompt, and of another that begins with the same tokens.
struct SharedPrefix {
  std::uint32_t prefix = 1500;
  std::uint32_t tail = 20;
  std::uint32_t repeats = 9;
};
Findings run_shared_prefix(const Target& target, const SharedPrefix& options);

/// Connections that do nothing, what they cost the server's process, and how fast /health is answered
/// meanwhile while streams keep the server busy.
struct Idle {
  std::uint32_t connections = 1000;
  std::uint32_t streams = 64;
  double seconds = 10;
  std::uint32_t process = 0;  ///< of the server, to read its memory; 0: it is not read
};
Findings run_idle(const Target& target, const Idle& options);

}  // namespace inferno::load
