#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace inferno {

/// Whether stderr is a terminal that a person watches (and may be given colours and progress bars).
bool stderr_is_terminal();
/// The same of stdout.
bool stdout_is_terminal();

/// A progress line on stderr for work that takes longer than a second; nothing on anything but a terminal.
class ProgressLine {
 public:
  /// `what` names the work: "writing model.gguf".
  explicit ProgressLine(std::string_view what);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// Redraws at most ten times a second.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string what_;
  bool enabled_;
  bool drawn_ = false;
  std::int64_t started_ms_;
  std::int64_t drawn_ms_ = 0;
};

}  // namespace inferno
