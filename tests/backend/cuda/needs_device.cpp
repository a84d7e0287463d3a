// Skips every test of a program, with the reason, where there is no CUDA device.

#include <gtest/gtest.h>
#include <iostream>

#include "backend/cuda/library.hpp"

namespace {

class NeedsDevice : public testing::Environment {
 public:
  void SetUp() override {
    const auto& cuda = inferno::cuda::library();
    if (cuda.reason.empty()) return;
    std::cout << "[  SKIPPED ] cuda: " << cuda.reason << "\n";  // as CTest knows it
    GTEST_SKIP();
  }
};

const auto* const kNeedsDevice = testing::AddGlobalTestEnvironment(new NeedsDevice);

}  // namespace
