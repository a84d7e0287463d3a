#include "engine/logits_hash.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <vector>
#include <xxhash.h>

namespace inferno {
namespace {

TEST(LogitsHash, IsXxh3OverTheBytesInOrderHoweverTheyAreCut) {
  const std::vector<float> values = {1.0F, -0.0F, 0.5F, 3e-39F, 7.0F, 8.0F};
  LogitsHash whole;
  whole.add(values);
  LogitsHash parts;
  parts.add(std::span(values).first(1));
  parts.add(std::span(values).subspan(1, 3));
  parts.add(std::span(values).subspan(4));
  EXPECT_EQ(whole.hex(), parts.hex());
  EXPECT_EQ(whole.hex(), fmt::format("{:016x}", XXH3_64bits(values.data(), values.size() * sizeof(float))));
}

TEST(LogitsHash, TellsZerosApart) {
  LogitsHash plus;
  plus.add(std::vector<float>{0.0F});
  LogitsHash minus;
  minus.add(std::vector<float>{-0.0F});
  EXPECT_NE(plus.hex(), minus.hex());
}

}  // namespace
}  // namespace inferno
