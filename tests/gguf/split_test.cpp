// Field cases G4a (over shards) and G5: split files.

#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sstream>
#include <string>
#include <vector>

#include <inferno/error.hpp>

#include "gguf/reader.hpp"
#include "gguf/refusal.hpp"
#include "gguf/writer.hpp"
#include "platform/log.hpp"
#include "support/child.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint16_t kShards = 3;

std::string shard_name(int number, int count = kShards) {
  return fmt::format("model-{:05}-of-{:05}.gguf", number, count);
}

/// How a test's shards differ from good ones.
struct Change {
  std::function<void(int shard, gguf::Writer& writer)> add_tensors = [](int, gguf::Writer&) {};
  std::uint16_t number_bias = 0;
  int tensor_count_bias = 0;
  bool numbers = true;
  std::function<void(int shard, gguf::Writer& writer)> add_metadata = [](int, gguf::Writer&) {};
};

/// The shipped model, split as llama-gguf-split does it: metadata in the first shard, tensors in file order.
class SplitFile : public ::testing::Test {
 protected:
  SplitFile() : whole_(gguf::File::open(INFERNO_MODELS "/tale-12m-q8_0.gguf")) {}

  void write_shard(const std::string& name, int shard, std::size_t first, std::size_t end,
                   const Change& change) const {
    gguf::Writer writer;
    if (shard == 0) {
      for (const auto& [key, value] : whole_.metadata()) writer.add(key, value);
    }
    change.add_metadata(shard, writer);
    if (change.numbers) writer.add("split.no", static_cast<std::uint16_t>(shard + change.number_bias));
    writer.add("split.count", kShards);
    writer.add("split.tensors.count",
               static_cast<std::int32_t>(whole_.tensors().size()) + change.tensor_count_bias);
    for (const auto& tensor : whole_.tensors().subspan(first, end - first)) {
      writer.add_tensor(tensor.name, tensor.format->type, tensor.shape, whole_.data(tensor));
    }
    change.add_tensors(shard, writer);
    writer.write(folder_ / name);
  }

  void write_shards(const Change& change = {}) const {
    const std::size_t bounds[] = {0, 10, 70, whole_.tensors().size()};
    for (int shard = 0; shard < kShards; ++shard) {
      write_shard(shard_name(shard + 1), shard, bounds[shard], bounds[shard + 1], change);
    }
  }

  void expect_equal_to_whole(const gguf::File& file) const {
    ASSERT_EQ(file.tensors().size(), whole_.tensors().size());
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      const auto& expected = whole_.tensors()[i];
      const auto& found = file.tensors()[i];
      EXPECT_EQ(found.name, expected.name);
      EXPECT_EQ(found.shape, expected.shape);
      EXPECT_EQ(found.format, expected.format);
      const auto bytes = file.data(found);
      ASSERT_TRUE(
          std::equal(bytes.begin(), bytes.end(), whole_.data(expected).begin(), whole_.data(expected).end()));
      EXPECT_EQ(file.find_tensor(expected.name), &found);
    }
    EXPECT_NE(file.find("general.architecture"), nullptr);
  }

  TemporaryFolder folder_;
  gguf::File whole_;
};

TEST_F(SplitFile, FirstShardLoadsAllOfThem) {
  write_shards();
  std::uint64_t bytes = 0;
  for (int shard = 1; shard <= kShards; ++shard)
    bytes += std::filesystem::file_size(folder_ / shard_name(shard));
  for (const bool map : {true, false}) {
    const auto file = gguf::File::open(folder_ / shard_name(1), {map});
    expect_equal_to_whole(file);
    EXPECT_EQ(file.total_bytes(), bytes);
    EXPECT_EQ(file.tensors().front().shard, 0U);
    EXPECT_EQ(file.tensors().back().shard, 2U);
  }
}

TEST_F(SplitFile, FirstShardWithoutTensors) {
  write_shard(shard_name(1), 0, 0, 0, {});
  write_shard(shard_name(2), 1, 0, 70, {});
  write_shard(shard_name(3), 2, 70, whole_.tensors().size(), {});
  expect_equal_to_whole(gguf::File::open(folder_ / shard_name(1)));
}

TEST_F(SplitFile, RelativePath) {
  write_shards();
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  EXPECT_NO_THROW(gguf::File::open(shard_name(1)));
  std::filesystem::current_path(before);
}

TEST_F(SplitFile, AnotherShardNamesTheFirst) {
  write_shards();
  for (int shard = 2; shard <= kShards; ++shard) {
    EXPECT_THAT(refusal(folder_ / shard_name(shard)),
                AllOf(HasSubstr(fmt::format("shard {} of 3", shard)),
                      HasSubstr("load the first shard: \"" + (folder_ / shard_name(1)).native())));
  }
  std::filesystem::rename(folder_ / shard_name(2), folder_ / "renamed.gguf");
  EXPECT_THAT(refusal(folder_ / "renamed.gguf"),
              AllOf(HasSubstr("shard 2 of 3"), HasSubstr("-00001-of-00003.gguf")));
}

TEST_F(SplitFile, MissingShards) {
  write_shards();
  std::filesystem::remove(folder_ / shard_name(2));
  EXPECT_THAT(refusal(folder_ / shard_name(1)),
              AllOf(HasSubstr("1 missing"), HasSubstr((folder_ / shard_name(2)).native())));
  std::filesystem::remove(folder_ / shard_name(3));
  EXPECT_THAT(refusal(folder_ / shard_name(1)),
              AllOf(HasSubstr("2 missing"), HasSubstr(shard_name(2)), HasSubstr(shard_name(3))));
}

TEST_F(SplitFile, ADirectoryOrBadFileForAShard) {
  write_shards();
  std::filesystem::remove(folder_ / shard_name(2));
  std::filesystem::create_directory(folder_ / shard_name(2));
  EXPECT_THROW(gguf::File::open(folder_ / shard_name(1)), Error);
  std::filesystem::remove(folder_ / shard_name(2));
  static_cast<void>(folder_.write(shard_name(2), "<html>"));
  try {
    gguf::File::open(folder_ / shard_name(1));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(shard_name(2)), HasSubstr("HTML")));
  }
}

TEST_F(SplitFile, TruncatedShard) {
  write_shards();
  const auto path = folder_ / shard_name(3);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 32);
  const std::string message = [&] {
    try {
      gguf::File::open(folder_ / shard_name(1));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  }();
  EXPECT_THAT(message, AllOf(HasSubstr(shard_name(3)), HasSubstr("tensor \"blk.9.ffn_down.weight\": data"),
                             HasSubstr("cut off")));
}

std::string failure(const std::filesystem::path& path) {
  try {
    gguf::File::open(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(SplitFile, SwappedShards) {
  write_shards();
  std::filesystem::rename(folder_ / shard_name(2), folder_ / "x");
  std::filesystem::rename(folder_ / shard_name(3), folder_ / shard_name(2));
  std::filesystem::rename(folder_ / "x", folder_ / shard_name(3));
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              AllOf(HasSubstr(shard_name(2)), HasSubstr("\"split.no\": expected 1 at byte")));
}

/// Shards of which the second has also this key.
Change in_second_shard(const std::string& key, const gguf::Value& value) {
  Change change;
  change.add_metadata = [=](int shard, gguf::Writer& writer) {
    if (shard == 1) writer.add(key, value);
  };
  return change;
}

TEST_F(SplitFile, AShardThatContradictsTheFirst) {
  write_shards(in_second_shard("general.architecture", std::string("llama")));
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              AllOf(testing::StartsWith("\"" + (folder_ / shard_name(2)).native()),
                    HasSubstr("metadata key \"general.architecture\": expected \"qwen3\" as in"),
                    HasSubstr(shard_name(1)), HasSubstr("at byte 56, found \"llama\""),
                    HasSubstr("not a shard of the same model")));
  write_shards(in_second_shard("qwen3.block_count", 77U));
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              HasSubstr("metadata key \"qwen3.block_count\": expected 10 as in"));
  const auto* tokens = whole_.find("tokenizer.ggml.tokens")->as_array();
  auto others = std::get<std::vector<std::string>>(tokens->elements);
  others.back() += "x";
  write_shards(in_second_shard("tokenizer.ggml.tokens", gguf::Array{gguf::ValueType::string, others}));
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              AllOf(HasSubstr("\"tokenizer.ggml.tokens\""),
                    HasSubstr("found an array of 8192 string with other elements")));
}

TEST_F(SplitFile, AShardThatRepeatsWhatTheFirstSays) {
  Change change;
  change.add_metadata = [&](int shard, gguf::Writer& writer) {
    if (shard == 0) return;
    for (const auto& [key, value] : whole_.metadata()) writer.add(key, value);
  };
  write_shards(change);
  expect_equal_to_whole(gguf::File::open(folder_ / shard_name(1)));
  write_shards(in_second_shard("qwen3.block_count", std::int64_t{10}));
  expect_equal_to_whole(gguf::File::open(folder_ / shard_name(1)));
}

TEST_F(SplitFile, KeysThatOnlyALaterShardHasAreIgnoredWithOneWarning) {
  Change change;
  change.add_metadata = [](int shard, gguf::Writer& writer) {
    if (shard == 0) return;
    writer.add("general.strange", static_cast<std::uint32_t>(shard));
    if (shard == 2) writer.add("general.other", 1U);
  };
  write_shards(change);
  std::ostringstream text;
  log().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  const auto file = gguf::File::open(folder_ / shard_name(1));
  log().sinks().pop_back();
  EXPECT_EQ(file.find("general.strange"), nullptr);
  EXPECT_THAT(
      text.str(),
      HasSubstr(
          "2 metadata keys are only in later shards and ignored: \"general.other\", \"general.strange\""));
  const std::string lines = text.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
}

TEST_F(SplitFile, ATensorIsFoundInItsShard) {
  write_shards();
  const auto file = gguf::File::open(folder_ / shard_name(1));
  EXPECT_EQ(file.path(), folder_ / shard_name(1));
  EXPECT_EQ(file.shard_path(file.tensors().back().shard), folder_ / shard_name(3));
}

// If all were kept they would take 150 MB.
TEST_F(SplitFile, MetadataOfLaterShardsTakesNoMemoryForLong) {
  constexpr std::uint16_t kMany = 16;
  for (std::uint16_t shard = 0; shard < kMany; ++shard) {
    gguf::Writer writer;
    writer.add("split.no", shard);
    writer.add("split.count", kMany);
    writer.add("split.tensors.count", std::int32_t{0});
    if (shard != 0) writer.add("text", std::string(std::size_t{10} << 20U, 'x'));
    writer.write(folder_ / shard_name(shard + 1, kMany));
  }
  const ChildResult result = run_in_child([&] { gguf::File::open(folder_ / shard_name(1, kMany)); },
                                          std::size_t{512} << 20U);  // the files are mapped, too
  EXPECT_EQ(result.outcome, Outcome::returned) << result.message;
  EXPECT_LT(result.peak_growth, std::size_t{kMemoryIsLimited ? 64U : 1024U} << 20U);
}

TEST(TrailingBytes, AreReportedForWhatTheyFollow) {
  const TemporaryFolder folder;
  const auto warning = [&](const std::string& bytes) {
    std::ostringstream text;
    log().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
    gguf::File::open(folder.write("x.gguf", bytes + std::string(128, '\1')));
    log().sinks().pop_back();
    return text.str();
  };
  EXPECT_THAT(warning(GgufBytes::header(0, 0).pad().get()),
              HasSubstr("128 bytes follow the end of the header, which declares no tensor, at byte 32"));
  EXPECT_THAT(warning(GgufBytes::header(1, 0).tensor("a", {8}, 0, 0).pad().zeros(32).get()),
              HasSubstr("128 bytes follow the end of the last tensor at byte 96"));
}

TEST_F(SplitFile, FirstShardSwappedWithAnother) {
  write_shards();
  std::filesystem::rename(folder_ / shard_name(1), folder_ / "x");
  std::filesystem::rename(folder_ / shard_name(2), folder_ / shard_name(1));
  std::filesystem::rename(folder_ / "x", folder_ / shard_name(2));
  EXPECT_THAT(refusal(folder_ / shard_name(1)),
              AllOf(HasSubstr("\"split.no\""), HasSubstr("expected 0"), HasSubstr("found 1")));
  EXPECT_THAT(failure(folder_ / shard_name(2)),
              HasSubstr("shard 1 of 3: expected a name that ends in -00001-of-00003.gguf"));
}

TEST_F(SplitFile, NumbersThatCountFromOne) {
  write_shards({.number_bias = 1});
  EXPECT_THAT(failure(folder_ / shard_name(1)), AllOf(HasSubstr(shard_name(1)), HasSubstr("\"split.no\"")));
}

TEST_F(SplitFile, WithoutNumbers) {
  write_shards({.numbers = false});
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              HasSubstr("\"split.no\": expected it in a split file, found none"));
}

TEST_F(SplitFile, TensorCountOffByOne) {
  for (const int bias : {-1, 1}) {
    write_shards({.tensor_count_bias = bias});
    EXPECT_THAT(
        failure(folder_ / shard_name(1)),
        AllOf(HasSubstr("\"split.tensors.count\": expected 112 (the tensors of its 3 shards) at byte"),
              HasSubstr(fmt::format("found {}", 112 + bias))));
  }
}

TEST_F(SplitFile, TensorCountDiffersBetweenShards) {
  write_shards();
  write_shard(shard_name(2), 1, 10, 70, {.tensor_count_bias = 1});
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              AllOf(HasSubstr(shard_name(2)), HasSubstr("\"split.tensors.count\": expected 112 at byte")));
}

TEST_F(SplitFile, TensorInTwoShards) {
  const std::vector<std::byte> data(4);
  write_shards({.add_tensors = [&](int shard, gguf::Writer& writer) {
    if (shard != 0) writer.add_tensor("twice", quant::TensorType::f32, {1}, data);
  }});
  EXPECT_THAT(failure(folder_ / shard_name(1)),
              AllOf(HasSubstr("tensor \"twice\""), HasSubstr(shard_name(2)), HasSubstr(shard_name(3))));
}

TEST_F(SplitFile, SymbolicLinksToBlobs) {
  write_shards();
  const TemporaryFolder links;
  for (int shard = 1; shard <= kShards; ++shard) {
    const auto blob = folder_ / fmt::format("{:064x}", shard * 7919);
    std::filesystem::rename(folder_ / shard_name(shard), blob);
    std::filesystem::create_symlink(blob, links / shard_name(shard));
  }
  expect_equal_to_whole(gguf::File::open(links / shard_name(1)));
  EXPECT_THAT(failure(folder_ / fmt::format("{:064x}", 7919)),
              HasSubstr("expected a name that ends in -00001-of-00003.gguf"));
}

TEST_F(SplitFile, JoinedByCat) {
  write_shards();
  std::string joined;
  for (int shard = 1; shard <= kShards; ++shard) joined += read_file(folder_ / shard_name(shard));
  for (const std::string& name : {std::string("joined.gguf"), shard_name(1)}) {
    EXPECT_THAT(refusal(folder_.write(name, joined)),
                AllOf(HasSubstr("shard 1 of 3"), HasSubstr("trailing bytes"), HasSubstr("cat"),
                      HasSubstr("llama-gguf-split --merge")));
  }
}

TEST_F(SplitFile, JoinedByCatAfterAFirstShardWithoutTensors) {
  write_shard(shard_name(1), 0, 0, 0, {});
  write_shards();
  const std::string tail = read_file(folder_ / shard_name(2));
  write_shard(shard_name(1), 0, 0, 0, {});
  EXPECT_THAT(refusal(folder_.write("joined.gguf", read_file(folder_ / shard_name(1)) + tail)),
              HasSubstr("shard 1 of 3"));
}

TEST_F(SplitFile, WholeFilesJoinedByCat) {
  const std::string bytes = read_file(INFERNO_MODELS "/tale-12m-q8_0.gguf");
  EXPECT_THAT(refusal(folder_.write("joined.gguf", bytes + bytes)),
              AllOf(HasSubstr("a whole file"), HasSubstr("trailing bytes")));
}

TEST_F(SplitFile, OneOfOne) {
  const std::vector<std::byte> data(4);
  gguf::Writer writer;
  writer.add("split.no", std::uint16_t{0});
  writer.add("split.count", std::uint16_t{1});
  writer.add("split.tensors.count", std::int32_t{1});
  writer.add_tensor("a", quant::TensorType::f32, {1}, data);
  writer.write(folder_ / shard_name(1, 1));
  EXPECT_EQ(gguf::File::open(folder_ / shard_name(1, 1)).tensors().size(), 1U);
  std::filesystem::copy_file(INFERNO_MODELS "/tale-12m-q8_0.gguf", folder_ / "plain-00001-of-00001.gguf");
  EXPECT_EQ(gguf::File::open(folder_ / "plain-00001-of-00001.gguf").tensors().size(), 112U);
}

TEST_F(SplitFile, OneOfOneIsCheckedAsWell) {
  const std::vector<std::byte> data(4);
  const auto write = [&](std::uint16_t number, std::int32_t tensors) {
    gguf::Writer writer;
    writer.add("split.no", number);
    writer.add("split.count", std::uint16_t{1});
    writer.add("split.tensors.count", tensors);
    writer.add_tensor("a", quant::TensorType::f32, {1}, data);
    writer.write(folder_ / shard_name(1, 1));
    return failure(folder_ / shard_name(1, 1));
  };
  EXPECT_THAT(write(0, 5),
              AllOf(HasSubstr("\"split.tensors.count\": expected 1 (the tensors of its 1 shard)"),
                    HasSubstr("found 5")));
  EXPECT_THAT(write(7, 1),
              AllOf(HasSubstr("\"split.no\": expected less than split.count = 1"), HasSubstr("found 7")));
}

TEST_F(SplitFile, HugeCountsAreRefusedWithoutOpeningMany) {
  gguf::Writer writer;
  writer.add("split.no", std::uint16_t{0});
  writer.add("split.count", std::uint16_t{65535});
  writer.add("split.tensors.count", std::int32_t{1});
  writer.write(folder_ / shard_name(1, 65535));
  EXPECT_THAT(refusal(folder_ / shard_name(1, 65535)), AllOf(HasSubstr("65534 missing"), HasSubstr(", ...")));
}

TEST_F(SplitFile, BadSplitKeys) {
  const auto message = [&](gguf::Value number, gguf::Value count, gguf::Value tensors) {
    gguf::Writer writer;
    writer.add("split.no", std::move(number));
    writer.add("split.count", std::move(count));
    writer.add("split.tensors.count", std::move(tensors));
    writer.write(folder_ / shard_name(1));
    return refusal(folder_ / shard_name(1));
  };
  EXPECT_THAT(message(3U, 3U, 1U),
              HasSubstr("\"split.no\": expected less than split.count = 3 at byte 44, found 3"));
  EXPECT_THAT(message(0U, std::string("3"), 1U),
              AllOf(HasSubstr("\"split.count\""), HasSubstr("found \"3\"")));
  EXPECT_THAT(message(0U, 70000U, 1U), AllOf(HasSubstr("\"split.count\""), HasSubstr("found 70000")));
  EXPECT_THAT(message(0U, -1, 1U), HasSubstr("\"split.count\""));
  EXPECT_THAT(message(0U, 3U, -1), HasSubstr("\"split.tensors.count\""));
  EXPECT_THAT(message(1.0F, 3U, 1U), HasSubstr("\"split.no\""));
}

}  // namespace
}  // namespace inferno::test
