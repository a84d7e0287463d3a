// Field case G3: a real model whose end is missing.

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/reader.hpp"
#include "gguf/refusal.hpp"
#include "gguf/writer.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CutFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy_file(INFERNO_MODELS "/tale-12m-q8_0.gguf", path_);
    size_ = std::filesystem::file_size(path_);
    const auto file = gguf::File::open(path_);
    const auto& last = file.tensors().back();
    ASSERT_EQ(file.data(last).size(), last.bytes);
    data_start_ = size_ - (last.offset + last.bytes + 31) / 32 * 32;
    end_ = data_start_ + last.offset + last.bytes;
    last_ = last.name;
  }
  std::string cut_at(std::uint64_t size) {
    std::filesystem::resize_file(path_, size);
    return refusal(path_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.gguf";
  std::uint64_t size_ = 0;
  std::uint64_t data_start_ = 0;
  std::uint64_t end_ = 0;
  std::string last_;
};

TEST_F(CutFile, LastByteOfTheLastTensor) {
  EXPECT_THAT(cut_at(end_ - 1), AllOf(HasSubstr("tensor \"" + last_ + "\": data"), HasSubstr("208896 bytes"),
                                      HasSubstr("a file of " + std::to_string(end_ - 1) + " bytes")));
}

TEST_F(CutFile, Half) {
  EXPECT_THAT(cut_at(size_ / 2), AllOf(HasSubstr("tensor \"blk."), HasSubstr("cut off")));
}

TEST_F(CutFile, AtTheDataStart) {
  EXPECT_THAT(cut_at(data_start_),
              AllOf(HasSubstr("tensor \"token_embd.weight\": data"), HasSubstr("2228224 bytes"),
                    HasSubstr("0 bytes in its data section")));
}

TEST_F(CutFile, InTheTensorTable) {
  EXPECT_THAT(cut_at(data_start_ - 200), AllOf(HasSubstr("tensor "), HasSubstr("cut off")));
}

TEST_F(CutFile, InTheVocabulary) {
  EXPECT_THAT(cut_at(20'000),
              AllOf(HasSubstr("metadata key \"tokenizer.ggml.tokens\": array"), HasSubstr("cut off")));
}

TEST_F(CutFile, InTheMetadata) {
  EXPECT_THAT(cut_at(100), AllOf(HasSubstr("count"), HasSubstr("cut off")));
  EXPECT_THAT(cut_at(10), HasSubstr("cut off"));
}

TEST_F(CutFile, ShortenedWhileInUse) {
  const auto file = gguf::File::open(path_, {false});
  std::filesystem::resize_file(path_, 0);
  const auto data = file.data(file.tensors().back());  // read into memory: it is still there
  EXPECT_EQ(data.size(), 208896U);
  EXPECT_NO_FATAL_FAILURE(static_cast<void>(data.back()));
}

}  // namespace
}  // namespace inferno::test
