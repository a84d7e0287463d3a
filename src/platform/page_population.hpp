#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace inferno {

/// Brings memory in a little ahead of its use, by a thread of low priority. The first touch of a huge
/// page can take the system several milliseconds (zeroing it, and on a virtual machine asking the host for
/// it): longer than a decode step of a small model. Where the system cannot do it nothing happens and pages
/// come when they are touched.
class PagePopulation {
 public:
  PagePopulation();
  /// `pages` is anonymous memory, used from its beginning on, that outlives this. Others may use it
  /// meanwhile: nothing in it changes.
  explicit PagePopulation(std::span<std::byte> pages, std::size_t ahead = std::size_t{64} << 20U);
  PagePopulation(PagePopulation&&) noexcept;
  PagePopulation& operator=(PagePopulation&&) noexcept;
  ~PagePopulation();

  /// The first `bytes` are used. Any thread; costs nothing unless it is news.
  void use(std::size_t bytes);
  /// Waits until what is to be brought in is there.
  void wait();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace inferno
