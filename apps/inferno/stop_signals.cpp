#include "stop_signals.hpp"

#include <csignal>
#include <cstdlib>
#include <pthread.h>

namespace inferno::cli {
namespace {

sigset_t stop_signals() {
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // nohup has it ignored; a signal that is waited for would come all the same.
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

StopSignals::StopSignals() {
  const auto signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  done_ = true;
  pthread_kill(watcher_.native_handle(), SIGINT);  // one of those it waits for
  watcher_.join();
}

void StopSignals::begin() {
  const std::lock_guard lock(mutex_);
  begun_ = true;
}

bool StopSignals::wait(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return came_.wait_for(lock, timeout, [this] { return wished_; });
}

void StopSignals::watch() {
  const auto signals = stop_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || done_) return;
    const std::lock_guard lock(mutex_);
    if (!begun_) std::_Exit(0);
    if (wished_) std::_Exit(128 + signal);
    wished_ = true;
    came_.notify_all();
  }
}

}  // namespace inferno::cli
