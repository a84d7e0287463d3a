#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/exchange.hpp"

namespace inferno::api {

/// Server-sent events: "data: …", an empty line.
void append_event(std::string& out, std::string_view data);
/// What every stream ends with.
inline constexpr std::string_view kDone = "data: [DONE]\n\n";

/// The head of a stream, with its first events.
http::Response event_stream(std::string body);

/// When a stream says what it cost.
enum class StreamUsage : std::uint8_t {
  never,
  at_end,  ///< in an event of its own
  always   ///< there, and in every event what it has cost so far
};

/// The parts of a stream's events that are the same in each, made once: an event of one choice is
///   open, the choice's index, its own members, close.
class ChunkFrame {
 public:
  ChunkFrame() = default;
  /// `head`: the members that come before "choices", with a comma at the end. With usage at the end the other
  /// events say "usage": null.
  ChunkFrame(std::string_view head, StreamUsage usage, std::uint64_t prompt_tokens);

  /// data: {…"choices":[{"index":I
  void open(std::string& out, std::size_t index) const;
  /// }]…}; `completion_tokens`: so far, of all choices.
  void close(std::string& out, std::uint64_t completion_tokens) const;
  /// The event that has no choices but the usage.
  void append_usage(std::string& out, std::string_view usage) const;

 private:
  std::string head_, tail_;
  bool counts_ = false;
  std::uint64_t prompt_tokens_ = 0;
};

}  // namespace inferno::api
