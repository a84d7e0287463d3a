#include "platform/thread_placement.hpp"

#ifdef __linux__
#include <ctime>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#endif

namespace inferno {

#ifdef __linux__

namespace {

/// Has a thread (0: the calling one) go on where `choose` says, which is given the processors that it may use
/// and changes them; it may use all of them again afterwards.
template <typename Choose>
bool move(pid_t thread, const Choose& choose) {
  cpu_set_t allowed;
  // Fails where there are more processors than the set has room for.
  if (::sched_getaffinity(thread, sizeof allowed, &allowed) != 0) return false;
  cpu_set_t chosen = allowed;
  choose(chosen);
  if (CPU_COUNT(&chosen) == 0) return false;
  // The system moves a thread at once from a processor that it may not use any more.
  if (::sched_setaffinity(thread, sizeof chosen, &chosen) != 0) return false;
  ::sched_setaffinity(thread, sizeof allowed, &allowed);
  return true;
}

}  // namespace

int current_processor() {
  return ::sched_getcpu();
}

bool leave_processors(std::span<const int> taken) {
  return move(0, [&](cpu_set_t& processors) {
    for (const int processor : taken) {
      if (processor >= 0 && processor < CPU_SETSIZE) CPU_CLR(processor, &processors);
    }
  });
}

ThreadHandle ThreadHandle::current() {
  static thread_local const ThreadHandle handle = [] {
    ThreadHandle self;
    if (::pthread_getcpuclockid(::pthread_self(), &self.clock_) == 0) self.id_ = ::gettid();
    return self;
  }();
  return handle;
}

std::chrono::nanoseconds ThreadHandle::run_time() const {
  timespec time = {};
  if (id_ == 0 || ::clock_gettime(clock_, &time) != 0) return {};
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool ThreadHandle::bring_here() const {
  const int here = current_processor();
  if (id_ == 0 || here < 0 || here >= CPU_SETSIZE) return false;
  return move(id_, [&](cpu_set_t& processors) {
    const bool may = CPU_ISSET(here, &processors);
    CPU_ZERO(&processors);
    if (may) CPU_SET(here, &processors);
  });
}

#else

int current_processor() {
  return -1;
}

bool leave_processors(std::span<const int> /*taken*/) {
  return false;
}

ThreadHandle ThreadHandle::current() {
  return {};
}

std::chrono::nanoseconds ThreadHandle::run_time() const {
  return {};
}

bool ThreadHandle::bring_here() const {
  return false;
}

#endif

}  // namespace inferno
