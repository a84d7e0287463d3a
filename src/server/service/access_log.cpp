#include "server/service/access_log.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "platform/quote.hpp"

namespace inferno::service {
namespace {

/// As it is if it looks like a path, else in quotes.
std::string shown(const std::string& text) {
  const bool is_plain =
      !text.empty() && text.size() <= 80 && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
               c == '-' || c == '_' || c == '.' || c == '*';
      });
  return is_plain ? text : quote(text, 80);
}

}  // namespace

std::string access_line(const http::Answered& answered) {
  const auto& request = *answered.request;
  std::string what = request.method.empty() ? "unreadable request" : shown(request.method);
  if (!request.path.empty()) what.append(" ").append(shown(request.path));
  std::string line = fmt::format("{} {} {} {:.1f} ms {} B", request.peer, what, answered.status,
                                 answered.milliseconds, answered.body_bytes);
  if (!answered.request_id.empty()) line.append(" ").append(answered.request_id);
  if (!answered.note.empty()) line.append(" ").append(answered.note);
  return line;
}

}  // namespace inferno::service
