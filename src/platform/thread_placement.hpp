#pragma once

#include <chrono>
#include <span>

namespace inferno {

/// The processor that runs the calling thread; -1 where the system does not tell. Takes nanoseconds.
int current_processor();

/// Has the calling thread go on at a processor that it may use and that is none of `taken`. Where it runs
/// later is the system's choice as before. False if there is no such processor, or if the system does not let
/// threads choose. Takes some 20 microseconds.
bool leave_processors(std::span<const int> taken);

/// A thread of this process, for others.
class ThreadHandle {
 public:
  ThreadHandle() = default;  ///< of no thread
  static ThreadHandle current();

  bool operator==(const ThreadHandle&) const = default;
  /// How long it has run; zero where the system does not tell.
  std::chrono::nanoseconds run_time() const;
  /// If it waits for a processor it goes on at that of the calling thread, as soon as that gives it up; one
  /// that runs moves there, too. False if it may not run there, if it is gone, or if the system does not
  /// let threads choose. (Of a thread that ended long ago the number may be somebody else's.)
  bool bring_here() const;

 private:
  int id_ = 0;
  int clock_ = 0;
};

}  // namespace inferno
