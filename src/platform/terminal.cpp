#include "platform/terminal.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace inferno {
namespace {

constexpr std::int64_t kQuietMs = 1000;  // shorter work needs no progress line
constexpr std::int64_t kRedrawMs = 100;
constexpr std::uint64_t kBarWidth = 30;

std::int64_t now_ms() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

bool stderr_is_terminal() {
  return is_terminal(STDERR_FILENO);
}

bool stdout_is_terminal() {
  return is_terminal(STDOUT_FILENO);
}

ProgressLine::ProgressLine(std::string_view what)
    : what_(what), enabled_(stderr_is_terminal()), started_ms_(now_ms()) {}

ProgressLine::~ProgressLine() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_) return;
  const auto now = now_ms();
  if (now - started_ms_ < kQuietMs || now - drawn_ms_ < kRedrawMs) return;
  drawn_ = true;
  drawn_ms_ = now;
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const auto filled = static_cast<std::uint64_t>(share * static_cast<double>(kBarWidth));
  fmt::print(stderr, "\r\033[K{} [{:=<{}}{: <{}}] {:.0f} %", what_, "", filled, "", kBarWidth - filled,
             share * 100.0);
  std::fflush(stderr);
}

}  // namespace inferno
