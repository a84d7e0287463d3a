#include "support/child.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <inferno/error.hpp>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INFERNO_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define INFERNO_SANITIZED 1
#endif
#endif
#ifndef INFERNO_SANITIZED
#define INFERNO_SANITIZED 0
#endif

namespace inferno::test {

const bool kMemoryIsLimited = INFERNO_SANITIZED == 0;

namespace {

/// What the child sends through its pipe before the message.
struct Report {
  Outcome outcome;
  std::size_t peak_growth;
};

/// A line of /proc/self/status such as "VmHWM:   1234 kB", in bytes; 0 where there is none.
std::size_t status_bytes(const char* name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind(name, 0) == 0) return std::strtoul(line.c_str() + std::strlen(name), nullptr, 10) * 1024;
  }
  return 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

[[noreturn]] void run(const std::function<void()>& work, std::size_t memory, int pipe_end) {
  ::alarm(20);
  std::ofstream("/proc/self/clear_refs") << "5";  // starts the peak resident size anew
  const std::size_t before = status_bytes("VmRSS:");
  if (kMemoryIsLimited) {
    const rlimit limit{status_bytes("VmSize:") + memory, RLIM_INFINITY};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
  }
  Report report{Outcome::returned, 0};
  std::string message;
  try {
    work();
  } catch (const Error& error) {
    report.outcome = Outcome::threw_error;
    message = error.what();
  } catch (const std::exception& error) {
    report.outcome = Outcome::threw_other;
    message = error.what();
  }
  const std::size_t peak = status_bytes("VmHWM:");
  report.peak_growth = peak - std::min(peak, before);
  bool sent = ::write(pipe_end, &report, sizeof report) == sizeof report;
  sent = sent && ::write(pipe_end, message.data(), message.size()) == static_cast<ssize_t>(message.size());
  ::_exit(sent ? 0 : 1);  // no destructors and no leak check: the parent's objects are not the child's
}

}  // namespace

ChildResult run_in_child(const std::function<void()>& work, std::size_t memory) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    ::close(ends[0]);
    run(work, memory, ends[1]);
  }
  ::close(ends[1]);
  std::string received;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = ::read(ends[0], buffer.data(), buffer.size())) > 0) {
    received.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  ChildResult result;
  result.seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || received.size() < sizeof(Report)) {
    result.message = WIFSIGNALED(status) ? std::string("signal ") + ::strsignal(WTERMSIG(status))
                                         : "exit without a report";
    return result;
  }
  Report report{};
  std::memcpy(&report, received.data(), sizeof report);
  result.outcome = report.outcome;
  result.peak_growth = report.peak_growth;
  result.message = received.substr(sizeof report);
  return result;
}

}  // namespace inferno::test
