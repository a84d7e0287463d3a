#include "common/program.hpp"

#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <string>
#include <unistd.h>

#include <inferno/error.hpp>

#include "common/lost_pages.hpp"
#include "platform/quote.hpp"

namespace inferno::cli {
namespace {

/// One line on stderr, whatever is in the text; nothing if stderr is closed or full.
void print_error(std::string_view text) {
  constexpr std::size_t kLongest = 8000;
  const auto line = fmt::format("error: {}\n", printable(text, kLongest));
  (void)std::fputs(line.c_str(), stderr);
}

/// A program may be started with any of the three closed. The next file or socket to be opened would get that
/// number, and what is printed would go there. Opened the wrong way round each goes on failing as if it were
/// closed.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free is this one.
    (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int run_program(const std::function<int()>& work, std::string_view usage) {
  fill_standard_streams();
  report_lost_pages();
  try {
    const int code = work();
    // An earlier write may have failed without anybody looking.
    const bool failed = std::ferror(stdout) != 0;
    if (std::fflush(stdout) != 0 || failed) {
      print_error("cannot write to stdout");
      return kFailed;
    }
    return code;
  } catch (const UsageError& error) {
    print_error(error.what());
    (void)std::fwrite(usage.data(), 1, usage.size(), stderr);
    return kBadUsage;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; try a smaller context or a smaller model");
    return kFailed;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailed;
  }
}

}  // namespace inferno::cli
