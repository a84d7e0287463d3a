#include "server/http/answer.hpp"

#include <utility>

#include "server/http/error_response.hpp"

namespace inferno::http {

Answer::Answer(std::shared_ptr<AnswerOwner> owner, Request request)
    : owner_(std::move(owner)), request_(std::move(request)) {}

// Callbacks often hold the exchange. They are taken out when the answer ends, so that it does not hold
// itself, and destroyed without the lock: that may be the end of the exchange.
Answer::Calls Answer::take_calls() {
  return std::exchange(calls_, {});
}

void Answer::request_flush(std::unique_lock<std::mutex>& lock) {
  const bool asked = std::exchange(flush_asked_, true);
  lock.unlock();
  if (!asked) owner_->flush_soon();
}

void Answer::respond(Response response) {
  Calls calls;
  std::unique_lock lock(mutex_);
  if (begun_ || gone_) return;
  begun_ = ended_ = true;
  queue_ = std::exchange(response.body, {});
  head_ = std::move(response);
  calls = take_calls();
  request_flush(lock);
}

void Answer::begin(Response response) {
  std::unique_lock lock(mutex_);
  if (begun_ || gone_) return;
  begun_ = streaming_ = true;
  queue_ = std::exchange(response.body, {});
  head_ = std::move(response);
  request_flush(lock);
}

void Answer::write(std::string piece) {
  std::unique_lock lock(mutex_);
  if (!streaming_ || ended_ || gone_ || piece.empty()) return;
  if (queue_.empty()) {
    queue_ = std::move(piece);
  } else {
    queue_ += piece;
  }
  request_flush(lock);
}

void Answer::end() {
  Calls calls;
  std::unique_lock lock(mutex_);
  if (!streaming_ || ended_ || gone_) return;
  ended_ = true;
  calls = take_calls();
  request_flush(lock);
}

void Answer::abandon() {
  Calls calls;
  std::unique_lock lock(mutex_);
  if (ended_ || gone_) return;
  ended_ = true;
  if (begun_) {
    broken_ = true;
  } else {
    begun_ = true;
    auto response = error_response(500, "the request was given up without an answer", "internal_error");
    queue_ = std::exchange(response.body, {});
    head_ = std::move(response);
  }
  calls = take_calls();
  request_flush(lock);
}

std::size_t Answer::unsent() const {
  const std::lock_guard lock(mutex_);
  return gone_ ? 0 : queue_.size() + in_output_;
}

void Answer::on_drained(std::function<void()> call) {
  auto shared = std::make_shared<const std::function<void()>>(std::move(call));
  const std::lock_guard lock(mutex_);
  if (!ended_ && !gone_) std::swap(calls_.drained, shared);
}

void Answer::on_gone(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    if (!gone_) {
      calls_.gone = std::make_shared<const std::function<void()>>(std::move(call));
      return;
    }
  }
  owner_->post(std::move(call));
}

void Answer::add_note(std::string note) {
  const std::lock_guard lock(mutex_);
  if (note_.empty()) {
    note_ = std::move(note);
  } else {
    note_.append(1, ' ').append(note);
  }
}

std::string Answer::note() const {
  const std::lock_guard lock(mutex_);
  return note_;
}

Answer::Taken Answer::take(std::size_t in_output) {
  const std::lock_guard lock(mutex_);
  flush_asked_ = false;
  Taken taken{.head = std::exchange(head_, std::nullopt), .streaming = streaming_};
  taken.body = std::exchange(queue_, {});
  taken.complete = ended_ && !broken_;
  taken.broken = broken_;
  in_output_ = in_output + taken.body.size();
  return taken;
}

void Answer::sent(std::size_t in_output) {
  std::shared_ptr<const std::function<void()>> call;
  {
    const std::lock_guard lock(mutex_);
    const bool had = in_output_ > 0;
    in_output_ = in_output;
    if (had && in_output == 0 && queue_.empty() && !ended_ && !gone_) call = calls_.drained;
  }
  if (call && *call) (*call)();
}

bool Answer::was_cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

void Answer::leave(bool cut_off) {
  Calls calls;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    cut_off_ = cut_off;
    std::string().swap(queue_);
    in_output_ = 0;
    calls = take_calls();
    if (ended_) return;
  }
  if (calls.gone && *calls.gone) (*calls.gone)();
}

namespace {

class AnswerHandle : public Exchange {
 public:
  explicit AnswerHandle(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  AnswerHandle(const AnswerHandle&) = delete;
  AnswerHandle& operator=(const AnswerHandle&) = delete;
  ~AnswerHandle() override { answer_->abandon(); }

  const Request& request() const override { return answer_->request(); }
  void respond(Response response) override { answer_->respond(std::move(response)); }
  void begin(Response response) override { answer_->begin(std::move(response)); }
  void write(std::string piece) override { answer_->write(std::move(piece)); }
  void end() override { answer_->end(); }
  std::size_t unsent() const override { return answer_->unsent(); }
  void on_drained(std::function<void()> call) override { answer_->on_drained(std::move(call)); }
  void on_gone(std::function<void()> call) override { answer_->on_gone(std::move(call)); }
  bool was_cut_off() const override { return answer_->was_cut_off(); }
  void add_note(const std::string& note) override { answer_->add_note(note); }
  void post(std::function<void()> call) override { answer_->post(std::move(call)); }

 private:
  std::shared_ptr<Answer> answer_;
};

}  // namespace

std::shared_ptr<Exchange> exchange_of(std::shared_ptr<Answer> answer) {
  return std::make_shared<AnswerHandle>(std::move(answer));
}

}  // namespace inferno::http
