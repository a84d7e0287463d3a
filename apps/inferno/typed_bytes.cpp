#include "typed_bytes.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <system_error>
#include <unistd.h>

#include <inferno/engine.hpp>
#include <inferno/error.hpp>

namespace inferno::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGWINCH, SIGCONT};

/// The engine whose answer Ctrl-C stops.
std::atomic<Engine*> answering = nullptr;
/// The signals' numbers, a byte each.
std::array<int, 2> told = {-1, -1};

extern "C" void on_terminal_signal(int signal) {
  const int before = errno;
  Engine* const engine = answering;
  if (signal == SIGINT && engine != nullptr) {
    engine->cancel();
  } else {
    const auto byte = static_cast<char>(signal);
    [[maybe_unused]] const ssize_t written = ::write(told[1], &byte, 1);
  }
  errno = before;
}

int meaning(char signal) {
  switch (signal) {
    case SIGWINCH:
      return TypedBytes::kResized;
    case SIGCONT:
      return TypedBytes::kContinued;
    default:
      return TypedBytes::kInterrupted;
  }
}

}  // namespace

TypedBytes::TypedBytes() {
  if (::pipe2(told.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(fmt::format("cannot open a pipe: {}", std::generic_category().message(errno)));
  struct sigaction action = {};
  action.sa_handler = on_terminal_signal;
  // Interrupted calls go on: a write that fails halfway would lose a piece of the answer and mark stdout as
  // broken.
  action.sa_flags = SA_RESTART;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

TypedBytes::~TypedBytes() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  for (auto& end : told) {
    ::close(end);
    end = -1;
  }
}

int TypedBytes::next() {
  while (next_ == typed_.size()) {
    std::array<pollfd, 2> waits = {{{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                                    {.fd = told[0], .events = POLLIN, .revents = 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;  // a signal
    char signal = 0;
    if (waits[1].revents != 0 && ::read(told[0], &signal, 1) == 1) return meaning(signal);
    std::array<char, 4096> bytes{};
    const auto count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    // EIO: the terminal is gone.
    if (count < 0 && errno != EIO)
      throw Error(fmt::format("cannot read stdin: {}", std::generic_category().message(errno)));
    if (count <= 0) return kEnd;
    typed_.assign(bytes.data(), static_cast<std::size_t>(count));
    next_ = 0;
  }
  return static_cast<unsigned char>(typed_[next_++]);
}

CancelledByInterrupt::CancelledByInterrupt(Engine& engine) {
  answering = &engine;
}

CancelledByInterrupt::~CancelledByInterrupt() {
  answering = nullptr;
}

}  // namespace inferno::cli
