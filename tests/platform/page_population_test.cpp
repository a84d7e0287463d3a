#include "platform/page_population.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "platform/page_memory.hpp"

namespace inferno::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Bytes of `pages` that the system holds.
std::size_t resident_bytes(std::span<std::byte> pages) {
  std::vector<unsigned char> states((pages.size() + page_bytes() - 1) / page_bytes());
  EXPECT_EQ(::mincore(pages.data(), pages.size(), states.data()), 0);
  const auto resident =
      std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1) != 0; });
  return static_cast<std::size_t>(resident) * page_bytes();
}

TEST(PagePopulation, BringsAllInAndChangesNothing) {
  const PageMemory memory(31 * kMiB);
  const std::span<std::byte> pages(memory.data(), memory.size());
  pages[kMiB] = std::byte{7};
  const auto untouched = resident_bytes(pages);
  populate_pages(pages);
  if (resident_bytes(pages) == untouched) GTEST_SKIP() << "this system does not populate memory";
  EXPECT_EQ(resident_bytes(pages), pages.size());
  EXPECT_EQ(pages[kMiB], std::byte{7});
  EXPECT_EQ(pages[pages.size() - 1], std::byte{0});
  populate_pages(pages);  // there already
  EXPECT_EQ(pages[kMiB], std::byte{7});
}

TEST(PagePopulation, TakesSizesThatAreNoWholePages) {
  const PageMemory memory(16 * kMiB);
  const std::span<std::byte> pages(memory.data(), memory.size());
  if (populate_pages(pages.first(1)); resident_bytes(pages) == 0) {
    GTEST_SKIP() << "this system does not populate memory";
  }
  for (const auto size : {page_bytes() + 1, 2 * kMiB + 5, 5 * kMiB - 3, 9 * kMiB + page_bytes() / 2}) {
    populate_pages(pages.first(size));
    EXPECT_EQ(resident_bytes(pages.first(size)), (size + page_bytes() - 1) / page_bytes() * page_bytes())
        << size;
  }
  populate_pages({});
}

TEST(PagePopulation, LeavesTheRestAlone) {
  const PageMemory memory(16 * kMiB);
  const std::span<std::byte> pages(memory.data(), memory.size());
  populate_pages(pages.first(4 * kMiB));
  EXPECT_EQ(resident_bytes(pages.subspan(8 * kMiB)), 0U);
}

}  // namespace
}  // namespace inferno::test
