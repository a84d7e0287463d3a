#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/serving_request.hpp"

namespace inferno {

class Inbox;

/// What lies between the worker and one request's consumer: what was generated and not taken yet.
class RequestChannel {
 public:
  /// `inbox` hears of cancelling and of a consumer that reads again.
  RequestChannel(std::shared_ptr<Inbox> inbox, std::function<void()> notify, std::uint32_t prompt_tokens);

  std::uint32_t prompt_tokens() const { return prompt_tokens_; }
  /// Given when the request is taken in, before anybody else sees the channel.
  std::uint64_t id() const { return id_; }
  void set_id(std::uint64_t id) { id_ = id; }

  // The worker's end. Returns how many tokens are held for the consumer now.
  std::size_t push(TokenEvent event);
  void push_prompt(std::vector<TokenEvent> events);
  void push_embedding(std::vector<float> embedding);
  /// `last`: the token that ended it, so that both arrive at once.
  void finish(RequestOutcome outcome, std::optional<TokenEvent> last);
  /// The request is going to wait for its consumer. False if the consumer has taken everything meanwhile; if
  /// true, the inbox hears of it once it does.
  bool begin_stall(std::size_t limit);

  // The consumer's end; see RequestStream.
  bool take(StreamUpdate& update);
  bool wait(StreamUpdate& update, std::chrono::milliseconds timeout);
  void cancel(RequestEnd end = RequestEnd::cancelled);
  /// Nobody will take anything any more.
  void abandon();

 private:
  template <typename Change>
  std::size_t change(const Change& change);
  bool take_locked(StreamUpdate& update, bool& was_stalled);

  const std::shared_ptr<Inbox> inbox_;
  const std::function<void()> notify_;
  const std::uint32_t prompt_tokens_;
  std::uint64_t id_ = 0;

  std::mutex mutex_;
  std::condition_variable there_is_something_;
  StreamUpdate held_;
  bool empty_ = true;
  bool ended_ = false;
  bool stalled_ = false;
  bool abandoned_ = false;
};

}  // namespace inferno
