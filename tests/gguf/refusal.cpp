#include "gguf/refusal.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include "gguf/reader.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

constexpr std::size_t kMemory = std::size_t{16} << 20U;
constexpr std::size_t kLongestLine = 1500;

std::string refusal(const std::filesystem::path& path, bool map) {
  const ChildResult result = run_in_child([&] { gguf::File::open(path, {map}); }, kMemory);
  EXPECT_EQ(result.outcome, Outcome::threw_error) << result.message;
  EXPECT_LT(result.seconds, kMemoryIsLimited ? 1.0 : 5.0);
  // A sanitizer keeps what was freed for a while.
  EXPECT_LT(result.peak_growth, kMemoryIsLimited ? kMemory : 8 * kMemory);
  const std::string& line = result.message;
  EXPECT_LT(line.size(), kLongestLine) << line;
  EXPECT_TRUE(std::all_of(line.begin(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ';
  })) << line;
  EXPECT_NE(line.find(path.filename().native()), std::string::npos) << line;
  return line;
}

}  // namespace

std::string refusal(const std::filesystem::path& path) {
  std::string mapped = refusal(path, true);
  EXPECT_EQ(mapped, refusal(path, false));
  return mapped;
}

std::string refusal_of_bytes(std::string_view bytes) {
  const TemporaryFolder folder;
  return refusal(folder.write("x.gguf", bytes));
}

}  // namespace inferno::test
