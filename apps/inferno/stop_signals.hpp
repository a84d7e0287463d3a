#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace inferno::cli {

/// SIGINT, SIGTERM and SIGHUP (unless it is ignored, as by nohup) as a wish that can be waited for. Make it
/// before any other thread: they inherit that these signals are not delivered to them.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From here on the first signal is a wish; before, it ends the program at once (nothing has begun).
  void begin();
  /// Waits for a wish, at most so long; whether it came.
  bool wait(std::chrono::milliseconds timeout);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable came_;
  bool begun_ = false, wished_ = false;
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

}  // namespace inferno::cli
