#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/request_parser.hpp"

namespace inferno::http {

/// Takes a body of chunks (RFC 9112, 7.1) apart as it comes. Every line must end in CR LF; what breaks that
/// is refused with the byte that shows it. Extensions are checked and dropped, and so are trailers: nothing
/// that follows the body changes what its header said.
class ChunkedBody {
 public:
  /// `limits` must outlive this.
  explicit ChunkedBody(const HttpLimits& limits) : limits_(limits) {}

  struct Piece {
    std::size_t used = 0;   ///< bytes that were read
    std::string_view data;  ///< of the body, the last of those
    std::optional<Refusal> refusal;
  };
  /// Reads from the beginning of `bytes`, at most up to the end of a run of data. To be called again with
  /// the rest, until that is empty or the body is over.
  Piece read(std::string_view bytes);
  /// The last chunk and the trailers have been read.
  bool is_over() const { return state_ == State::over; }

 private:
  enum class State : std::uint8_t { size_line, data, data_end, trailer, over };

  /// Takes bytes up to a line's end into `line_`; true: that is complete, without its CR LF.
  bool take_line(std::string_view bytes, Piece& piece);
  void take_size_line(Piece& piece);
  void take_trailer(Piece& piece);
  Refusal too_long() const;

  const HttpLimits& limits_;
  State state_ = State::size_line;
  std::string line_;
  std::uint64_t left_ = 0;       // of the chunk's data
  std::size_t body_bytes_ = 0;   // announced by all chunks so far
  std::size_t extra_bytes_ = 0;  // of chunks' lines beyond a plain size
  std::size_t trailer_bytes_ = 0, trailers_ = 0;
};

}  // namespace inferno::http
