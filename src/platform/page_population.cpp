#include "platform/page_population.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <sys/mman.h>
#include <system_error>
#include <thread>

#include "platform/log.hpp"
#include "platform/thread_priority.hpp"

namespace inferno {

class PagePopulation::Worker {
 public:
  Worker(std::span<std::byte> pages, std::size_t ahead)
      : pages_(pages),
        ahead_(ahead),
        wanted_(std::min(ahead, pages.size())),
        thread_([this](const std::stop_token& stop) { work(stop); }) {}

  void use(std::size_t bytes) {
    const auto wanted = std::min(bytes + ahead_, pages_.size());
    if (wanted <= wanted_.load(std::memory_order_relaxed)) return;
    {
      const std::lock_guard lock(mutex_);
      wanted_ = std::max(wanted, wanted_.load());
    }
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ >= wanted_; });
  }

 private:
  /// A huge page at a time, so that it can be stopped at once.
  static constexpr std::size_t kPiece = std::size_t{2} << 20U;

  void work(const std::stop_token& stop) {
    lower_thread_priority();
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return done_ < wanted_; })) {
      const auto piece = pages_.subspan(done_, std::min(kPiece, wanted_ - done_));
      lock.unlock();
      const int error = populate(piece);
      lock.lock();
      if (error == EINTR || error == EAGAIN) continue;
      done_ += piece.size();
      if (error != 0) {
        log().debug("memory is not brought in ahead of its use: {}", std::generic_category().message(error));
        done_ = pages_.size();
      }
      if (done_ >= wanted_) changed_.notify_all();
      if (stop.stop_requested()) return;
    }
  }

  static int populate(std::span<std::byte> piece) {
#ifdef MADV_POPULATE_WRITE
    return ::madvise(piece.data(), piece.size(), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
#else
    (void)piece;
    return ENOSYS;
#endif
  }

  std::span<std::byte> pages_;
  std::size_t ahead_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t done_ = 0;
  std::atomic<std::size_t> wanted_;  // written under the mutex
  std::jthread thread_;              // the last: ends before what it uses
};

PagePopulation::PagePopulation(std::span<std::byte> pages, std::size_t ahead) {
  if (pages.empty()) return;
  try {
    worker_ = std::make_unique<Worker>(pages, ahead);
  } catch (const std::system_error& error) {
    log().debug("memory is not brought in ahead of its use: {}", error.what());
  }
}

PagePopulation::PagePopulation() = default;
PagePopulation::PagePopulation(PagePopulation&&) noexcept = default;
PagePopulation& PagePopulation::operator=(PagePopulation&&) noexcept = default;
PagePopulation::~PagePopulation() = default;

void PagePopulation::use(std::size_t bytes) {
  if (worker_) worker_->use(bytes);
}

void PagePopulation::wait() {
  if (worker_) worker_->wait();
}

}  // namespace inferno
