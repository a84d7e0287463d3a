#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// What an answer needs of its connection. Calls may come from any thread.
class AnswerOwner {
 public:
  virtual ~AnswerOwner() = default;
  /// Runs a call in the connection's strand.
  virtual void post(std::function<void()> call) = 0;
  /// Takes what was written soon, in the strand.
  virtual void flush_soon() = 0;
};

/// The answer to one request while it is being made: between whoever answers, on any thread, and the
/// connection, in its strand.
class Answer {
 public:
  Answer(std::shared_ptr<AnswerOwner> owner, Request request);

  // For whoever answers, as in Exchange.
  const Request& request() const { return request_; }
  void respond(Response response);
  void begin(Response response);
  void write(std::string piece);
  void end();
  std::size_t unsent() const;
  void on_drained(std::function<void()> call);
  void on_gone(std::function<void()> call);
  bool was_cut_off() const;
  void add_note(std::string note);
  void post(std::function<void()> call) { owner_->post(std::move(call)); }
  /// Nobody answers any more: 500, or a broken answer if it had begun.
  void abandon();

  // For the connection.
  struct Taken {
    std::optional<Response> head = std::nullopt;  ///< comes first, once; its body is in `body`
    bool streaming = false;                       ///< the length of the body is not known
    std::string body = {};
    bool complete = false;  ///< nothing comes after this
    bool broken = false;    ///< nothing comes after this, and it is not complete
  };
  /// Takes everything that was written. `in_output`: bytes taken before that are not sent yet.
  Taken take(std::size_t in_output);
  /// What `take` gave was sent so far that this much is left. Calls on_drained if it is 0 and was not.
  void sent(std::size_t in_output);
  /// The client has gone, or was cut off for taking nothing. Calls on_gone if the answer is not complete.
  void leave(bool cut_off);
  std::string note() const;

 private:
  struct Calls {
    std::shared_ptr<const std::function<void()>> drained, gone;
  };
  Calls take_calls();  ///< with the lock held
  void request_flush(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<AnswerOwner> owner_;
  const Request request_;

  mutable std::mutex mutex_;
  std::optional<Response> head_;
  std::string queue_;
  std::size_t in_output_ = 0;
  bool begun_ = false, streaming_ = false, ended_ = false, broken_ = false, gone_ = false;
  bool cut_off_ = false;
  bool flush_asked_ = false;
  Calls calls_;
  std::string note_;
};

/// What a handler gets; when the last one lets go of it the answer is abandoned.
std::shared_ptr<Exchange> exchange_of(std::shared_ptr<Answer> answer);

}  // namespace inferno::http
