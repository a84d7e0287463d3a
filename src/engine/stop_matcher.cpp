#include "engine/stop_matcher.hpp"

#include <algorithm>
#include <utility>

#include <inferno/error.hpp>

namespace inferno {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const auto& stop : stops_) {
    if (stop.empty()) throw UsageError("a stop string is empty; expected at least one character");
  }
}

std::string StopMatcher::push(std::string_view text) {
  if (match_) return {};
  if (stops_.empty()) return std::string(text);
  held_ += text;
  auto first_match = std::string::npos;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const auto at = held_.find(stops_[i]);
    if (at >= first_match) continue;
    first_match = at;
    match_ = i;
  }
  if (match_) {
    held_.resize(first_match);
    return std::exchange(held_, {});
  }
  // The longest end of the text that begins a stop string stays. held_ is at most one piece longer than the
  // longest stop string, so trying every length costs nothing that would show.
  std::size_t keep = 0;
  for (const auto& stop : stops_) {
    for (auto length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (std::string_view(held_).substr(held_.size() - length) == std::string_view(stop).substr(0, length))
        keep = length;
    }
  }
  std::string certain = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return certain;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace inferno
