#include "engine/request_channel.hpp"

#include <utility>

#include "engine/inbox.hpp"
#include "engine/request_stream.hpp"

namespace inferno {
namespace {

void clear(StreamUpdate& update) {
  update.prompt.clear();
  update.tokens.clear();
  update.embedding.clear();
  update.outcome.reset();
}

}  // namespace

RequestChannel::RequestChannel(std::shared_ptr<Inbox> inbox, std::function<void()> notify,
                               std::uint32_t prompt_tokens)
    : inbox_(std::move(inbox)), notify_(std::move(notify)), prompt_tokens_(prompt_tokens) {}

template <typename Change>
std::size_t RequestChannel::change(const Change& change) {
  bool first = false;
  std::size_t held = 0;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return 0;
    change(held_);
    held = held_.tokens.size();
    first = std::exchange(empty_, false);
    if (held_.outcome) ended_ = true;
  }
  if (first) {
    there_is_something_.notify_all();
    if (notify_) notify_();
  }
  return held;
}

std::size_t RequestChannel::push(TokenEvent event) {
  return change([&](StreamUpdate& held) { held.tokens.push_back(std::move(event)); });
}

void RequestChannel::push_prompt(std::vector<TokenEvent> events) {
  change([&](StreamUpdate& held) { held.prompt = std::move(events); });
}

void RequestChannel::push_embedding(std::vector<float> embedding) {
  change([&](StreamUpdate& held) { held.embedding = std::move(embedding); });
}

void RequestChannel::finish(RequestOutcome outcome, std::optional<TokenEvent> last) {
  change([&](StreamUpdate& held) {
    if (last) held.tokens.push_back(*std::move(last));
    held.outcome = std::move(outcome);
  });
}

bool RequestChannel::begin_stall(std::size_t limit) {
  const std::lock_guard lock(mutex_);
  stalled_ = held_.tokens.size() >= limit;
  return stalled_;
}

bool RequestChannel::take_locked(StreamUpdate& update, bool& was_stalled) {
  clear(update);
  if (empty_) return false;
  std::swap(update, held_);
  empty_ = true;
  was_stalled = std::exchange(stalled_, false);
  return true;
}

bool RequestChannel::take(StreamUpdate& update) {
  bool was_stalled = false;
  bool any = false;
  {
    const std::lock_guard lock(mutex_);
    any = take_locked(update, was_stalled);
  }
  if (was_stalled) inbox_->resume(id_);
  return any;
}

bool RequestChannel::wait(StreamUpdate& update, std::chrono::milliseconds timeout) {
  {
    std::unique_lock lock(mutex_);
    there_is_something_.wait_for(lock, timeout, [this] { return !empty_; });
  }
  return take(update);
}

void RequestChannel::cancel(RequestEnd end) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
  }
  inbox_->cancel(id_, end);
}

void RequestChannel::abandon() {
  cancel();
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  held_ = {};
  empty_ = true;
}

RequestStream::RequestStream() = default;
RequestStream::RequestStream(std::shared_ptr<RequestChannel> channel) : channel_(std::move(channel)) {}

RequestStream::~RequestStream() {
  if (channel_) channel_->abandon();
}

RequestStream::RequestStream(RequestStream&& other) noexcept = default;

RequestStream& RequestStream::operator=(RequestStream&& other) noexcept {
  if (this == &other) return *this;
  if (channel_) channel_->abandon();
  channel_ = std::move(other.channel_);
  return *this;
}

std::uint64_t RequestStream::id() const {
  return channel_ ? channel_->id() : 0;
}

std::uint32_t RequestStream::prompt_tokens() const {
  return channel_ ? channel_->prompt_tokens() : 0;
}

bool RequestStream::take(StreamUpdate& update) {
  if (channel_) return channel_->take(update);
  clear(update);
  return false;
}

bool RequestStream::wait(StreamUpdate& update, std::chrono::milliseconds timeout) {
  if (channel_) return channel_->wait(update, timeout);
  clear(update);
  return false;
}

void RequestStream::cancel() {
  if (channel_) channel_->cancel();
}

void RequestStream::cut_off() {
  if (channel_) channel_->cancel(RequestEnd::stalled);
}

}  // namespace inferno
