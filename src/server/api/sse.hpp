#pragma once

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

/// The parts of a stream's events that are the same in each, made once: an event of one choice is
///   open, the choice's index, its own members, close.
class ChunkFrame {
 public:
  ChunkFrame() = default;
  /// `head`: the members that come before "choices", with a comma at the end. `with_usage`: each event says
  /// "usage": null, and the last one the counts.
  ChunkFrame(std::string_view head, bool with_usage);

  /// data: {…"choices":[{"index":I
  void open(std::string& out, std::size_t index) const;
  /// }]…}
  void close(std::string& out) const { out += tail_; }
  /// The event that has no choices but the usage.
  void append_usage(std::string& out, std::string_view usage) const;

 private:
  std::string head_, tail_;
};

}  // namespace inferno::api
