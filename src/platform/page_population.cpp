#include "platform/page_population.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <vector>

#include "platform/cpu_budget.hpp"
#include "platform/log.hpp"

namespace inferno {
namespace {

/// A huge page: what a thread takes at a time. The system refuses pieces that begin within a page.
constexpr std::size_t kPiece = std::size_t{2} << 20U;

/// 0, or what the system says against it.
int populate(std::span<std::byte> piece) {
#ifdef MADV_POPULATE_WRITE
  int error = 0;
  do {
    error = ::madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  return error;
#else
  (void)piece;
  return ENOSYS;
#endif
}

}  // namespace

void populate_pages(std::span<std::byte> pages) {
  std::atomic<std::size_t> next = 0;
  std::atomic<int> error = 0;
  const auto work = [&] {
    while (error == 0) {
      const auto begin = next.fetch_add(kPiece);
      if (begin >= pages.size()) return;
      if (const int refused = populate(pages.subspan(begin, std::min(kPiece, pages.size() - begin))))
        error = refused;
    }
  };
  const auto pieces = (pages.size() + kPiece - 1) / kPiece;
  const auto threads = std::min<std::size_t>(cpu_budget().threads, pieces);
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < threads) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // the system gives no more threads: those that run do it
  }
  work();
  helpers.clear();
  if (error != 0) {
    log().debug("memory comes when it is touched: {}", std::generic_category().message(error));
  }
}

}  // namespace inferno
