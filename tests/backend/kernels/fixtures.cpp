#include "backend/kernels/fixtures.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace inferno::cpu {

void KernelTest::SetUp() {
  if (!kernels().supported()) {
    GTEST_SKIP() << "the kernels '" << kernels().name << "' need a processor with " << kernels().needs;
  }
}

std::string set_name(const testing::TestParamInfo<const KernelSet*>& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

testing::AssertionResult same(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " values instead of " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    return testing::AssertionFailure()
           << "value " << i << " of " << actual.size() << " is " << actual[i] << " (" << std::hex
           << std::bit_cast<std::uint32_t>(actual[i]) << "), expected " << expected[i] << " ("
           << std::bit_cast<std::uint32_t>(expected[i]) << ")";
  }
  return testing::AssertionSuccess();
}

float Random::uniform(float low, float high) {
  constexpr float kStep = 0x1p-24F;
  return low + (high - low) * (static_cast<float>(engine_() >> 8U) * kStep);
}

int Random::integer(int low, int high) {
  return low + static_cast<int>(engine_() % static_cast<std::uint32_t>(high - low + 1));
}

std::vector<float> Random::vector(std::size_t count, float largest) {
  std::vector<float> x(count);
  std::generate(x.begin(), x.end(), [&] { return uniform(-largest, largest); });
  return x;
}

std::vector<float> Random::activations(std::size_t count, bool broken) {
  enum Kind { ordinary, wide, zero, tiny, nearly_tiny, huge, outlier, infinite, not_a_number };
  std::vector<float> x(count);
  for (std::size_t begin = 0; begin < count; begin += 32) {
    const auto block = std::span(x).subspan(begin, std::min<std::size_t>(32, count - begin));
    const int kind = integer(0, broken ? 24 : 20);
    const auto fill = [&](float largest) {
      for (float& value : block) value = uniform(-largest, largest);
    };
    const auto one = [&](float value) {
      fill(1.0F);
      block[static_cast<std::size_t>(integer(0, static_cast<int>(block.size()) - 1))] = value;
    };
    switch (kind) {
      case wide:
        fill(std::exp2(static_cast<float>(integer(-30, 30))));
        break;
      case zero:
        fill(0.0F);
        break;
      case tiny:
        fill(0x1p-101F);
        break;
      case nearly_tiny:
        fill(0x1.8p-100F);
        break;
      case huge:
        fill(0x1p124F);
        break;
      case outlier:
        one(1000.0F);
        break;
      case infinite:
        one(integer(0, 1) == 0 ? kInfinity : -kInfinity);
        break;
      case not_a_number:
        one(kNaN);
        break;
      default:
        fill(3.0F);
        break;
    }
    if (kind == huge && !broken) fill(0x1p100F);
    if ((kind == infinite || kind == not_a_number) && !broken) fill(0.25F);
  }
  return x;
}

Batch::Batch(std::size_t tokens, std::uint32_t columns)
    : values_((tokens + QuantizedBatch::kSpareTokens) * columns, 77),
      scales_((tokens + QuantizedBatch::kSpareTokens) * columns / 32, kNaN),
      offsets_((tokens + QuantizedBatch::kSpareTokens) * columns / 32, 123456),
      view_{.values = values_.data(),
            .scales = scales_.data(),
            .offsets = offsets_.data(),
            .columns = columns} {}

}  // namespace inferno::cpu
