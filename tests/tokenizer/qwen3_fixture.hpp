#pragma once

#include <filesystem>
#include <gtest/gtest.h>

#include "tokenizer/tokenizer.hpp"

namespace inferno::test {

/// The folder of the fetched tokenizer.json.
std::filesystem::path qwen3_folder();

/// Cases that need Qwen3's real vocabulary. They are skipped, visibly, where it has not been fetched.
class Qwen3Test : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  static const Tokenizer& tokenizer();
};

}  // namespace inferno::test
