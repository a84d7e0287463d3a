#include "server/http/chunked_body.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "server/http/text.hpp"

namespace inferno::http {
namespace {

constexpr std::string_view kEnd = "\r\n";
/// The longest size that says anything: 16 digits.
constexpr std::size_t kPlainSize = 16;

Refusal malformed(std::string_view message) {
  return {.status = 400, .message = std::string(message)};
}

void skip_blanks(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
}

/// What may stand between quotes, or in a field's value: anything but control characters.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7F);
}

bool take_token(std::string_view& text) {
  const auto* const end = std::find_if_not(text.begin(), text.end(), is_token_character);
  const auto size = static_cast<std::size_t>(end - text.begin());
  text.remove_prefix(size);
  return size > 0;
}

bool take_quoted(std::string_view& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
    if (text[i] == '\\') ++i;
    if (i == text.size() || !is_plain(text[i])) return false;
  }
  return false;
}

/// *( BWS ";" BWS name [ BWS "=" BWS value ] )
bool are_extensions(std::string_view text) {
  while (!text.empty()) {
    skip_blanks(text);
    if (!text.starts_with(';')) return false;
    text.remove_prefix(1);
    skip_blanks(text);
    if (!take_token(text)) return false;
    auto rest = text;
    skip_blanks(rest);
    if (!rest.starts_with('=')) continue;
    rest.remove_prefix(1);
    skip_blanks(rest);
    if (!(rest.starts_with('"') ? take_quoted(rest) : take_token(rest))) return false;
    text = rest;
  }
  return true;
}

}  // namespace

Refusal ChunkedBody::too_long() const {
  return {.status = 431,
          .message = fmt::format("chunk extensions or trailers have more than {} bytes or {} fields",
                                 limits_.header_bytes, limits_.header_fields),
          .code = "header_too_large"};
}

ChunkedBody::Piece ChunkedBody::read(std::string_view bytes) {
  Piece piece;
  while (piece.used < bytes.size() && state_ != State::over && !piece.refusal) {
    const auto rest = bytes.substr(piece.used);
    switch (state_) {
      case State::size_line:
        if (take_line(rest, piece)) take_size_line(piece);
        break;
      case State::data: {
        piece.data = rest.substr(0, left_);
        piece.used += piece.data.size();
        left_ -= piece.data.size();
        if (left_ == 0) state_ = State::data_end;
        return piece;
      }
      case State::data_end:
        if (rest.front() != kEnd[line_.size()]) {
          piece.refusal =
              malformed("a chunk's data is not as long as its size says, or has no CR LF behind it");
          break;
        }
        line_ += rest.front();
        ++piece.used;
        if (line_ != kEnd) break;
        line_.clear();
        state_ = State::size_line;
        break;
      case State::trailer:
        if (take_line(rest, piece)) take_trailer(piece);
        break;
      case State::over:
        break;
    }
  }
  return piece;
}

bool ChunkedBody::take_line(std::string_view bytes, Piece& piece) {
  const bool is_trailer = state_ == State::trailer;
  const auto most =
      limits_.header_bytes - (is_trailer ? trailer_bytes_ : extra_bytes_) + kPlainSize + kEnd.size();
  for (const char c : bytes) {
    if ((c == '\n') != line_.ends_with('\r')) {
      piece.refusal = malformed(is_trailer ? "a line of the trailers does not end in CR LF"
                                           : "the line of a chunk's size does not end in CR LF");
      return false;
    }
    ++piece.used;
    line_ += c;
    if (c == '\n') {
      line_.resize(line_.size() - kEnd.size());
      return true;
    }
    if (line_.size() >= most) {
      piece.refusal = too_long();
      return false;
    }
  }
  return false;
}

void ChunkedBody::take_size_line(Piece& piece) {
  std::string_view line = line_;
  std::uint64_t size = 0;
  std::size_t digits = 0;
  for (; digits < line.size() && hex_digit(line[digits]) >= 0; ++digits) {
    constexpr unsigned kLastDigit = 60;
    if (size >> kLastDigit != 0) {
      piece.refusal =
          Refusal{.status = 413, .message = "a chunk's size has more than 64 bits", .code = "body_too_large"};
      return;
    }
    size = size << 4U | static_cast<unsigned>(hex_digit(line[digits]));
  }
  if (digits == 0) {
    piece.refusal = malformed("a chunk's size is no hexadecimal number");
    return;
  }
  if (!are_extensions(line.substr(digits))) {
    piece.refusal =
        malformed("a chunk's extension is malformed; expected ;NAME or ;NAME=VALUE behind its size");
    return;
  }
  if (size > limits_.body_bytes - body_bytes_) {
    piece.refusal =
        Refusal{.status = 413,
                .message = fmt::format("the body is larger than the limit of {} bytes", limits_.body_bytes),
                .code = "body_too_large"};
    return;
  }
  extra_bytes_ += std::max(line.size(), kPlainSize) - kPlainSize;
  line_.clear();
  body_bytes_ += size;
  left_ = size;
  state_ = size == 0 ? State::trailer : State::data;
}

void ChunkedBody::take_trailer(Piece& piece) {
  if (line_.empty()) {
    std::string().swap(line_);
    state_ = State::over;
    return;
  }
  trailer_bytes_ += line_.size() + kEnd.size();
  if (++trailers_ > limits_.header_fields || trailer_bytes_ > limits_.header_bytes) {
    piece.refusal = too_long();
    return;
  }
  std::string_view line = line_;
  const bool is_field =
      take_token(line) && line.starts_with(':') && std::all_of(line.begin(), line.end(), is_plain);
  if (!is_field) {
    piece.refusal = malformed("a trailer is malformed; expected NAME: VALUE on one line");
    return;
  }
  line_.clear();
}

}  // namespace inferno::http
