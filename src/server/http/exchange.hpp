#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace inferno::http {

struct Header {
  std::string name;
  std::string value;
};

/// A request that was read as a whole, within the server's limits.
struct Request {
  std::string method;  ///< as sent: GET, POST, ...
  std::string path;    ///< percent-decoded, without the query; starts with '/'
  std::string query;   ///< what follows '?', as sent; empty if there is none
  std::vector<Header> headers;
  std::string body;
  std::string peer;  ///< address and port of the client, for the log

  /// The first header of that name (any case); empty if there is none.
  std::string_view header(std::string_view name) const;
};

/// An answer whose body is known. Content-Length, Date, CORS and connection headers are the server's.
struct Response {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<Header> headers = {};  ///< beside those
};

/// One request and its answer: either `respond`, or `begin`, any number of `write`, `end`. Shared by the
/// connection and whoever answers. Every call may come from any thread, never blocks and never throws; calls
/// after the client has gone do nothing. If the last owner lets go before the answer is complete, the server
/// answers 500, or closes the connection if the answer had begun.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;

  /// Answers as a whole.
  virtual void respond(Response response) = 0;

  /// Begins an answer of unknown length, which is sent as it comes (chunked; to HTTP/1.0 until the connection
  /// closes). `response.body` is its first piece.
  virtual void begin(Response response) = 0;
  virtual void write(std::string piece) = 0;
  virtual void end() = 0;

  /// Bytes that were written and that the client has not taken yet. A writer that finds much here stops
  /// writing until `on_drained`.
  virtual std::size_t unsent() const = 0;

  /// `call` runs in the exchange's own strand each time `unsent` has fallen to 0. Set before `begin`.
  virtual void on_drained(std::function<void()> call) = 0;
  /// `call` runs once, in the exchange's own strand, if the client goes away before the answer has ended
  /// (at once if it has gone already). A client that only shut down its sending side has not gone.
  virtual void on_gone(std::function<void()> call) = 0;

  /// Once it has gone: it did not leave, but was cut off because it took nothing for too long.
  virtual bool was_cut_off() const { return false; }

  /// Adds to the line about this request in the log (counts, never text of users). Before the answer ends.
  virtual void add_note(const std::string& /*note*/) {}

  /// Runs `call` in the exchange's own strand: never at the same time as another of its calls, in order.
  virtual void post(std::function<void()> call) = 0;
};

/// Answers requests. Called in the exchange's strand on a thread that serves many connections: must return
/// quickly, so that what takes longer (templates, long prompts) is done elsewhere.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace inferno::http
