#include "common/lost_pages.hpp"

#include <csignal>
#include <string_view>
#include <unistd.h>

#include "common/program.hpp"

namespace inferno::cli {
namespace {

// Runs inside a signal: no allocation, no stdio, no destructors.
void on_bus_error(int number, siginfo_t* info, void* /*context*/) {
  if (info->si_code == BUS_ADRERR) {
    constexpr std::string_view kText =
        "error: a mapped file lost pages while they were read: it was shortened or overwritten, or its disk "
        "failed; "
        "give files new contents by renaming another file over them, or load with --no-mmap\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
    ::_exit(kFailed);
  }
  // A fault of the program itself: as if nobody had looked.
  std::signal(number, SIG_DFL);
  std::raise(number);
}

}  // namespace

void report_lost_pages() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = static_cast<int>(SA_SIGINFO | static_cast<unsigned>(SA_RESETHAND));
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace inferno::cli
