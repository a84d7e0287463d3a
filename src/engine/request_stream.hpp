#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "engine/serving_request.hpp"

namespace inferno {

class RequestChannel;

/// A consumer's end of a request. Movable; destroying it cancels the request. Its calls may come from any
/// thread, one at a time, and may outlive the engine.
///
/// What is generated and not yet taken is held for it, up to ServingOptions::buffered_tokens. When so much
/// has gathered the request is paused: it gives its place in the batch to others and its cache blocks to
/// whoever needs them. It goes on where it was once that has been taken. Who takes nothing for
/// ServingOptions::stall_timeout while paused like this is cut off (RequestEnd::stalled). So a consumer that
/// does not read costs a bounded amount of memory and nobody else's time.
class RequestStream {
 public:
  RequestStream();  ///< of no request: `take` gives nothing
  explicit RequestStream(std::shared_ptr<RequestChannel> channel);
  ~RequestStream();
  RequestStream(RequestStream&& other) noexcept;
  RequestStream& operator=(RequestStream&& other) noexcept;
  RequestStream(const RequestStream&) = delete;
  RequestStream& operator=(const RequestStream&) = delete;

  /// Counts from 1; for logs.
  std::uint64_t id() const;
  std::uint32_t prompt_tokens() const;

  /// Takes everything that is there into `update`, replacing its content and reusing its memory. Never waits.
  /// Returns whether there was anything. After an outcome nothing more comes.
  bool take(StreamUpdate& update);
  /// Waits until something is there, or until `timeout` has passed (then false), and takes it.
  bool wait(StreamUpdate& update, std::chrono::milliseconds timeout);

  /// Asks that the request end: within a step if it runs, at once if it is queued. What comes after this is
  /// an outcome (`cancelled`, unless it was over already).
  void cancel();
  /// The same, because whoever it is for takes too long: `stalled`.
  void cut_off();

 private:
  std::shared_ptr<RequestChannel> channel_;
};

}  // namespace inferno
