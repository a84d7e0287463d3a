#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inferno {

/// Finds stop strings in a stream of text. Text that could still become part of a stop string is held back,
/// so nothing of one is ever let through, however it is cut into pieces.
class StopMatcher {
 public:
  /// Throws UsageError for an empty stop string, which would end everything at once.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Takes more text; returns what is certain to stand before any stop string. After a match it returns
  /// nothing more.
  std::string push(std::string_view text);
  /// The text is over: what was held back was no stop string.
  std::string finish();
  bool matched() const { return match_.has_value(); }
  /// The stop string that was found (where several begin at one place the first of the list); nullptr: none.
  const std::string* match() const { return match_ ? &stops_[*match_] : nullptr; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::size_t> match_;
};

}  // namespace inferno
