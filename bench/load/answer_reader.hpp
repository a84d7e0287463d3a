#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace inferno::load {

/// Reads answers of HTTP/1.1 as they come over one connection: whole ones, chunked ones, and the events of a
/// stream. As small as a load generator can afford that shares the cores with the server that it measures.
class AnswerReader {
 public:
  /// `on_event`: the data of each server-sent event. `on_end`: the answer is complete: its status, and its
  /// body if it was no stream of events.
  AnswerReader(std::function<void(std::string_view data)> on_event,
               std::function<void(int status, std::string_view body)> on_end);

  /// Takes bytes as they were read. Throws Error for what is not HTTP.
  void take(std::string_view bytes);

 private:
  enum class Part { head, whole_body, chunk_size, chunk, chunk_end, trailer };

  bool read_head();
  bool read_chunk_size();
  bool read_line(std::string_view& line);
  void body_bytes(std::string_view bytes);
  void finish();

  std::function<void(std::string_view)> on_event_;
  std::function<void(int, std::string_view)> on_end_;
  std::string unread_;  ///< what was read of the connection and not yet understood
  std::size_t at_ = 0;  ///< of unread_
  Part part_ = Part::head;
  int status_ = 0;
  bool events_ = false;   ///< the body is a stream of events
  std::size_t left_ = 0;  ///< of the body or chunk
  std::string body_;      ///< or the beginning of an event
};

}  // namespace inferno::load
