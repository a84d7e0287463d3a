#include "answer_reader.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include <inferno/error.hpp>

namespace inferno::load {

namespace {

std::size_t number(std::string_view text, int base) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end == text.data())
    throw Error(fmt::format("the server's answer has '{}' where a number was expected", text));
  return value;
}

bool starts_with_any_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() &&
         std::equal(lower.begin(), lower.end(), text.begin(), [](char expected, char found) {
           return found == expected || (found >= 'A' && found <= 'Z' && found - 'A' + 'a' == expected);
         });
}

}  // namespace

AnswerReader::AnswerReader(std::function<void(std::string_view)> on_event,
                           std::function<void(int, std::string_view)> on_end)
    : on_event_(std::move(on_event)), on_end_(std::move(on_end)) {}

void AnswerReader::take(std::string_view bytes) {
  unread_ += bytes;
  for (bool more = true; more;) {
    switch (part_) {
      case Part::head:
        more = read_head();
        break;
      case Part::chunk_size:
        more = read_chunk_size();
        break;
      case Part::whole_body:
      case Part::chunk: {
        const auto count = std::min(left_, unread_.size() - at_);
        body_bytes(std::string_view(unread_).substr(at_, count));
        at_ += count;
        left_ -= count;
        more = left_ == 0;
        if (more && part_ == Part::whole_body) finish();
        if (more && part_ == Part::chunk) part_ = Part::chunk_end;
        break;
      }
      case Part::chunk_end: {
        std::string_view line;
        more = read_line(line);
        if (more) part_ = Part::chunk_size;
        break;
      }
      case Part::trailer: {
        std::string_view line;
        more = read_line(line);
        if (more && line.empty()) finish();
        break;
      }
    }
  }
  unread_.erase(0, at_);
  at_ = 0;
}

bool AnswerReader::read_line(std::string_view& line) {
  const auto end = unread_.find("\r\n", at_);
  if (end == std::string::npos) return false;
  line = std::string_view(unread_).substr(at_, end - at_);
  at_ = end + 2;
  return true;
}

bool AnswerReader::read_head() {
  const auto end = unread_.find("\r\n\r\n", at_);
  if (end == std::string::npos) return false;
  std::string_view head = std::string_view(unread_).substr(at_, end - at_ + 2);
  at_ = end + 4;
  if (!head.starts_with("HTTP/1.1 ")) throw Error("the server's answer is not HTTP/1.1");
  status_ = static_cast<int>(number(head.substr(9, 3), 10));
  if (status_ / 100 == 1) return true;  // an interim answer; the real one follows
  events_ = false;
  left_ = 0;
  bool chunked = false;
  for (head.remove_prefix(head.find("\r\n") + 2); !head.empty(); head.remove_prefix(head.find("\r\n") + 2)) {
    const auto line = head.substr(0, head.find("\r\n"));
    const auto value = line.substr(std::min(line.find(':') + 2, line.size()));
    if (starts_with_any_case(line, "content-length:")) left_ = number(value, 10);
    if (starts_with_any_case(line, "transfer-encoding:")) chunked = value == "chunked";
    if (starts_with_any_case(line, "content-type:")) events_ = value.starts_with("text/event-stream");
  }
  part_ = chunked ? Part::chunk_size : Part::whole_body;
  return true;
}

bool AnswerReader::read_chunk_size() {
  std::string_view line;
  if (!read_line(line)) return false;
  left_ = number(line, 16);
  part_ = left_ > 0 ? Part::chunk : Part::trailer;
  return true;
}

void AnswerReader::body_bytes(std::string_view bytes) {
  body_ += bytes;
  if (!events_) return;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = body_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const auto event = std::string_view(body_).substr(begin, end - begin);
    if (event.starts_with("data: ")) on_event_(event.substr(6));
  }
  body_.erase(0, begin);
}

void AnswerReader::finish() {
  part_ = Part::head;
  const auto body = std::exchange(body_, {});
  on_end_(status_, body);
}

}  // namespace inferno::load
