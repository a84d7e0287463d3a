#include "server/support/fake_exchange.hpp"

#include <future>
#include <gtest/gtest.h>
#include <utility>

#include "tokenizer/utf8.hpp"

namespace inferno::test {
namespace {

constexpr std::chrono::seconds kPatience{60};

}  // namespace

Strand::Strand()
    : thread_([this] {
        std::unique_lock lock(mutex_);
        while (true) {
          there_is_something_.wait(lock, [this] { return ends_ || !calls_.empty(); });
          if (calls_.empty()) return;
          auto call = std::move(calls_.front());
          calls_.pop_front();
          lock.unlock();
          call();
          call = nullptr;
          lock.lock();
        }
      }) {}

Strand::~Strand() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  there_is_something_.notify_all();
  thread_.join();
}

void Strand::post(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }
  there_is_something_.notify_all();
}

void Strand::settle() {
  std::promise<void> done;
  post([&done] { done.set_value(); });
  done.get_future().wait();
}

std::string Reply::header(std::string_view name) const {
  for (const auto& header : headers) {
    if (header.name == name) return header.value;
  }
  return {};
}

nlohmann::json Reply::json() const {
  EXPECT_EQ(utf8_valid_prefix(body), body.size()) << body;
  auto parsed = nlohmann::json::parse(body, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << body;
  return parsed;
}

Events Reply::events() const {
  EXPECT_TRUE(is_stream) << status << " " << body;
  EXPECT_EQ(utf8_valid_prefix(body), body.size()) << body;
  constexpr std::string_view kData = "data: ";
  Events events;
  std::string_view rest = body;
  while (!rest.empty()) {
    const auto end = rest.find("\n\n");
    if (end == std::string_view::npos || rest.substr(0, kData.size()) != kData ||
        rest.substr(0, end).find('\n') != std::string_view::npos) {
      ADD_FAILURE() << "no event: " << rest;
      break;
    }
    events.emplace_back(rest.substr(kData.size(), end - kData.size()));
    rest.remove_prefix(end + 2);
  }
  return events;
}

std::vector<nlohmann::json> Reply::chunks(bool is_cut) const {
  auto all = events();
  if (!is_cut) {
    EXPECT_FALSE(all.empty());
    if (!all.empty()) {
      EXPECT_EQ(all.back(), "[DONE]");
      all.pop_back();
    }
  }
  std::vector<nlohmann::json> chunks;
  for (const auto& event : all) {
    chunks.push_back(nlohmann::json::parse(event, nullptr, false));
    EXPECT_FALSE(chunks.back().is_discarded()) << event;
  }
  return chunks;
}

FakeExchange::FakeExchange(Strand& strand, http::Request request)
    : strand_(strand), request_(std::move(request)) {}

FakeExchange::~FakeExchange() {
  EXPECT_TRUE(may_be_unanswered_ || gone_ || reply_.is_complete)
      << request_.path << " " << request_.body.substr(0, 500);
}

void FakeExchange::append(std::string_view piece) {
  reply_.body += piece;
  if (!reads_) unsent_ += piece.size();
}

void FakeExchange::respond(http::Response response) {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  EXPECT_FALSE(reply_.is_complete || begun_) << "two answers to " << request_.body;
  reply_.status = response.status;
  reply_.content_type = response.content_type;
  reply_.headers = std::move(response.headers);
  reply_.is_complete = true;
  append(response.body);
  news_.notify_all();
}

void FakeExchange::begin(http::Response response) {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  EXPECT_FALSE(reply_.is_complete || begun_) << "two answers to " << request_.body;
  begun_ = true;
  reply_.is_stream = true;
  reply_.status = response.status;
  reply_.content_type = response.content_type;
  reply_.headers = std::move(response.headers);
  append(response.body);
  news_.notify_all();
}

void FakeExchange::write(std::string piece) {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  EXPECT_TRUE(begun_ && !reply_.is_complete) << "a piece out of order: " << piece;
  EXPECT_FALSE(piece.empty());
  append(piece);
  news_.notify_all();
}

void FakeExchange::end() {
  const std::lock_guard lock(mutex_);
  if (gone_) return;
  EXPECT_TRUE(begun_ && !reply_.is_complete) << "an end out of order";
  reply_.is_complete = true;
  news_.notify_all();
}

std::size_t FakeExchange::unsent() const {
  const std::lock_guard lock(mutex_);
  return unsent_;
}

void FakeExchange::on_drained(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  drained_ = std::move(call);
}

void FakeExchange::on_gone(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (gone_) {
    strand_.post(std::move(call));
  } else {
    left_ = std::move(call);
  }
}

bool FakeExchange::was_cut_off() const {
  const std::lock_guard lock(mutex_);
  return cut_off_;
}

void FakeExchange::add_note(const std::string& note) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(reply_.is_complete) << "a note after the end: " << note;
  EXPECT_EQ(note_, "");
  note_ = note;
}

std::string FakeExchange::note() const {
  const std::lock_guard lock(mutex_);
  return note_;
}

void FakeExchange::post(std::function<void()> call) {
  strand_.post(std::move(call));
}

Reply FakeExchange::wait() {
  return wait_for_bytes(SIZE_MAX);
}

Reply FakeExchange::wait_for_bytes(std::size_t count) {
  std::unique_lock lock(mutex_);
  const bool came = news_.wait_for(
      lock, kPatience, [&] { return reply_.is_complete || (begun_ && reply_.body.size() >= count); });
  EXPECT_TRUE(came) << "no answer to " << request_.body << ", only " << reply_.body;
  return reply_;
}

Reply FakeExchange::so_far() const {
  const std::lock_guard lock(mutex_);
  return reply_;
}

void FakeExchange::stop_reading() {
  const std::lock_guard lock(mutex_);
  reads_ = false;
}

void FakeExchange::read(bool goes_on) {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    reads_ = goes_on;
    if (std::exchange(unsent_, 0) > 0) call = drained_;
  }
  if (call) strand_.post(std::move(call));
}

void FakeExchange::leave(bool cut_off) {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    if (reply_.is_complete || std::exchange(gone_, true)) return;
    cut_off_ = cut_off;
    call = std::exchange(left_, nullptr);
  }
  if (call) strand_.post(std::move(call));
}

void FakeExchange::expect_no_answer() {
  const std::lock_guard lock(mutex_);
  may_be_unanswered_ = true;
}

}  // namespace inferno::test
