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

/// Bytes of [begin, end) that the system holds.
std::size_t resident_bytes(const PageMemory& memory, std::size_t begin, std::size_t end) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> states((end - begin) / page);
  EXPECT_EQ(::mincore(memory.data() + begin, end - begin, states.data()), 0);
  const auto resident =
      std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1) != 0; });
  return static_cast<std::size_t>(resident) * page;
}

TEST(PagePopulation, StaysAheadAndChangesNothing) {
  constexpr std::size_t kAhead = 4 * kMiB;
  const PageMemory memory(4 * kAhead);
  memory.data()[kMiB] = std::byte{7};
  PagePopulation population({memory.data(), memory.size()}, kAhead);
  population.wait();
  if (resident_bytes(memory, 0, memory.size()) < 2 * kMiB)
    GTEST_SKIP() << "this system does not populate memory";
  EXPECT_EQ(resident_bytes(memory, 0, kAhead), kAhead);
  EXPECT_EQ(resident_bytes(memory, 2 * kAhead, memory.size()), 0U) << "nobody uses so much";
  population.use(kAhead);
  population.wait();
  EXPECT_EQ(resident_bytes(memory, 0, 2 * kAhead), 2 * kAhead);
  population.use(1);  // no news
  population.use(memory.size());
  population.wait();
  EXPECT_EQ(resident_bytes(memory, 0, memory.size()), memory.size());
  EXPECT_EQ(memory.data()[kMiB], std::byte{7});
  EXPECT_EQ(memory.data()[memory.size() - 1], std::byte{0});
}

TEST(PagePopulation, EndsEarlyWhenItsMemoryGoes) {
  for (int i = 0; i < 20; ++i) {
    const PageMemory memory(64 * kMiB);
    PagePopulation first({memory.data(), memory.size()});
    PagePopulation second(std::move(first));
    second = PagePopulation();
  }
  PagePopulation nothing(std::span<std::byte>{});
  nothing.use(5);
  nothing.wait();
}

}  // namespace
}  // namespace inferno::test
