#include "server/api/answer.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "server/api/sse.hpp"

namespace inferno::api {
namespace {

/// A client that has more than this unread gets no more until it has read everything.
constexpr std::size_t kMostUnsent = std::size_t{64} << 10U;
/// How long a long list waits for a place in a full queue before it asks again.
constexpr std::chrono::milliseconds kPatience{2};

ApiError refused_by_engine(const std::string& message) {
  auto error = from_usage_error(UsageError(message), {});
  if (!error.param().empty()) return error;
  return {400, error.type(), message, {}, "invalid_json_schema"};
}

ApiError error_of(const RequestOutcome& outcome) {
  switch (outcome.end) {
    case RequestEnd::stalled:
      return {408, "server_error", "the answer was not read for too long", {}, "client_too_slow"};
    case RequestEnd::shutdown:
    case RequestEnd::cancelled:
      return {503, "server_error", "the server is shutting down", {}, "unavailable"};
    default:
      // What a request's own fields leave no way to go on is no fault of the server.
      if (outcome.refused) return refused_by_engine(outcome.error);
      return {500,
              "server_error",
              outcome.error.empty() ? "the request failed" : outcome.error,
              {},
              "engine_error"};
  }
}

}  // namespace

Answer::Answer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
               std::shared_ptr<Presence> presence, std::size_t sequences, bool streams)
    : service_(std::move(service)),
      exchange_(std::move(exchange)),
      presence_(std::move(presence)),
      streams_answer_(streams),
      sequences_(sequences) {
  streams_.reserve(sequences);
}

std::vector<RequestStream> Answer::submit_next(std::size_t count) {
  std::vector<ServingRequest> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto sequence = streams_.size() + i;
    auto request = make_request(sequence);
    // Neither the exchange nor this is kept alive by the engine.
    request.notify = [weak_exchange = std::weak_ptr(exchange_), weak_this = weak_from_this(), sequence] {
      const auto exchange = weak_exchange.lock();
      if (!exchange) return;
      exchange->post([weak_this, sequence] {
        if (const auto self = weak_this.lock()) self->pump(sequence);
      });
    };
    requests.push_back(std::move(request));
  }
  auto streams = service_->engine.submit(std::move(requests));
  for (const auto& stream : streams) prompt_tokens_ += stream.prompt_tokens();
  return streams;
}

void Answer::submit() {
  service_->answers.add(shared_from_this());
  try {
    for (auto& stream : submit_next(std::min(sequences_, service_->wave)))
      streams_.push_back(std::move(stream));
  } catch (...) {
    service_->answers.remove(this);
    throw;
  }
  exchange_->post([self = shared_from_this()] { self->start(); });
}

void Answer::start() {
  started_ = true;
  if (presence_->gone) return leave();
  presence_->answer = weak_from_this();
  exchange_->on_drained([weak_this = weak_from_this()] {
    const auto self = weak_this.lock();
    if (self && std::exchange(self->waits_for_reader_, false)) self->pump_all();
  });
  pump_all();
}

template <typename Work>
void Answer::guarded(const Work& work) {
  if (!started_ || over_) return;
  try {
    work();
    if (over_) return;
    flush();
    settle();
    // What had gathered here alone made this wait, and the client has it already.
    if (!over_ && waits_for_reader_ && exchange_->unsent() == 0) {
      exchange_->post([self = shared_from_this()] {
        if (std::exchange(self->waits_for_reader_, false)) self->pump_all();
      });
    }
  } catch (...) {
    fail(current_error({}));
  }
}

void Answer::pump(std::size_t sequence) {
  guarded([&] { take_from(sequence); });
}

void Answer::pump_all() {
  guarded([&] {
    for (std::size_t i = 0; i < streams_.size() && !over_; ++i) take_from(i);
  });
}

void Answer::take_from(std::size_t sequence) {
  if (streams_answer_ && (waits_for_reader_ || exchange_->unsent() + out_.size() > kMostUnsent)) {
    waits_for_reader_ = true;
    return;
  }
  if (!streams_[sequence].take(update_)) return;
  generated_tokens_ += update_.tokens.size();
  if (update_.outcome) {
    cached_tokens_ += update_.outcome->usage.cached_tokens;
    const auto end = update_.outcome->end;
    if (end != RequestEnd::stop && end != RequestEnd::length) return fail(error_of(*update_.outcome));
  }
  take(sequence, update_);
  if (!update_.outcome) return;
  streams_[sequence] = RequestStream();
  ++ended_;
  feed();
}

void Answer::feed() {
  while (streams_.size() < sequences_ && streams_.size() - ended_ < service_->wave) {
    try {
      streams_.push_back(std::move(submit_next(1).front()));
    } catch (const QueueFull&) {
      // Others wait, too. What is under way makes room by and by.
      if (streams_.size() == ended_) feed_later();
      return;
    }
  }
}

void Answer::feed_later() {
  const auto workers = service_->workers.lock();
  const auto retry = [exchange = exchange_, self = shared_from_this()] {
    std::this_thread::sleep_for(kPatience);
    exchange->post([self] { self->guarded([&] { self->feed(); }); });
  };
  if (!workers || !workers->add(retry, false)) throw QueueFull("the queue is full; try again later");
}

void Answer::flush() {
  if (!streams_answer_ || out_.empty()) return;
  if (begun_) {
    exchange_->write(std::exchange(out_, {}));
  } else {
    begun_ = true;
    exchange_->begin(event_stream(opening() + std::exchange(out_, {})));
  }
}

void Answer::settle() {
  if (ended_ < sequences_) return;
  note_counts();
  if (streams_answer_) {
    out_ += closing();
    flush();
    exchange_->end();
  } else {
    exchange_->respond({.body = closing()});
  }
  let_go();
}

void Answer::fail(const ApiError& error) {
  note_counts(error.code());
  if (begun_) {
    // The status has been sent: the error is the stream's last event.
    append_event(out_, error.body());
    flush();
    exchange_->end();
  } else {
    exchange_->respond(error.response());
  }
  let_go();
}

void Answer::leave() {
  if (over_) return;
  const bool cut_off = exchange_->was_cut_off();
  if (cut_off) {
    for (auto& stream : streams_) stream.cut_off();
  }
  note_counts(cut_off ? "client_too_slow" : std::string_view());
  let_go();
}

/// For the log: never what was asked or answered.
void Answer::note_counts(std::string_view error) {
  exchange_->add_note(fmt::format("prompt {} tokens ({} cached), generated {}{}{}", prompt_tokens_,
                                  cached_tokens_, generated_tokens_, error.empty() ? "" : ", ", error));
}

void Answer::let_go() {
  over_ = true;
  streams_.clear();  // cancels what still runs
  service_->answers.remove(this);
}

}  // namespace inferno::api
