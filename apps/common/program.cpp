#include "common/program.hpp"

#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <new>

#include <inferno/error.hpp>

namespace inferno::cli {

int run_program(const std::function<int()>& work, std::string_view usage) {
  try {
    const int code = work();
    if (std::fflush(stdout) != 0) {
      fmt::print(stderr, "error: cannot write to stdout\n");
      return kFailed;
    }
    return code;
  } catch (const UsageError& error) {
    fmt::print(stderr, "error: {}\n{}", error.what(), usage);
    return kBadUsage;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory; try a smaller context or a smaller model\n");
    return kFailed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kFailed;
  }
}

}  // namespace inferno::cli
