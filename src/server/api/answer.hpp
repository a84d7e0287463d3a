#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/serving_engine.hpp"
#include "server/api/error.hpp"
#include "server/api/service.hpp"
#include "server/http/exchange.hpp"

namespace inferno::api {

class Answer;

/// Whether the client is still there: known from the moment its request is taken in.
struct Presence {
  std::atomic<bool> gone = false;
  std::weak_ptr<Answer> answer;  ///< touched in the exchange's strand only
};

/// A request of a client that is run by the engine, as one or more sequences, and answered as they bring
/// something. Made and submitted by a worker thread; after `submit` everything happens in the exchange's
/// strand. A long list of sequences goes to the engine in waves.
///
/// A streamed answer begins (status 200, head of the stream) with the first token, so that everything that
/// fails before gets its own status. While the client has much unread nothing more is taken, and the engine
/// pauses the sequences.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  virtual ~Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

  /// Throws what ServingEngine::submit throws; then nothing has happened.
  void submit();
  /// The client has gone: ends all work. In the strand.
  void leave();

 protected:
  Answer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
         std::shared_ptr<Presence> presence, std::size_t sequences, bool streams);

  virtual ServingRequest make_request(std::size_t sequence) = 0;
  /// What a sequence brought. Streamed answers append events to `out()`.
  virtual void take(std::size_t sequence, StreamUpdate& update) = 0;
  /// Streamed: the events that come first.
  virtual std::string opening() { return {}; }
  /// All sequences are over. The whole answer's body; streamed: the events that come last.
  virtual std::string closing() = 0;

  const Service& service() const { return *service_; }
  bool streams() const { return streams_answer_; }
  std::string& out() { return out_; }
  /// Of all sequences so far.
  std::uint64_t generated_tokens() const { return generated_tokens_; }

 private:
  std::vector<RequestStream> submit_next(std::size_t count);
  void start();
  void pump(std::size_t sequence);
  void pump_all();
  /// Runs work of the strand; what it throws ends the answer with an error.
  template <typename Work>
  void guarded(const Work& work);
  void take_from(std::size_t sequence);
  void feed();
  void feed_later();
  void flush();
  void settle();
  void fail(const ApiError& error);
  void note_counts(std::string_view error = {});
  void let_go();

  std::shared_ptr<Service> service_;
  std::shared_ptr<http::Exchange> exchange_;
  std::shared_ptr<Presence> presence_;
  bool streams_answer_;
  std::size_t sequences_;
  std::vector<RequestStream> streams_;  ///< of the sequences that have been submitted
  std::size_t ended_ = 0;
  StreamUpdate update_;
  std::uint64_t prompt_tokens_ = 0, cached_tokens_ = 0, generated_tokens_ = 0;  ///< of all sequences so far
  std::string out_;                                                             ///< not yet written
  bool started_ = false, begun_ = false, over_ = false, waits_for_reader_ = false;
};

}  // namespace inferno::api
