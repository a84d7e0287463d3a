// inspect, tokenize, logits, synth.

#include <algorithm>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/program.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;

/// The floats and the shape of a .npy file of float32.
struct Npy {
  std::string header;
  std::vector<float> values;

  explicit Npy(const std::filesystem::path& path) {
    const auto bytes = read_file(path);
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const std::size_t length =
        static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]);
    EXPECT_EQ((10 + length) % 64, 0U);
    header = bytes.substr(10, length);
    values.resize((bytes.size() - 10 - length) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + 10 + length, values.size() * sizeof(float));
  }
};

TEST(Inspect, JsonHasTheFixedFields) {
  const auto json = run_inferno({"inspect", "--json"}).json();
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["alignment"], 32);
  EXPECT_EQ(json["metadata"]["general.architecture"], "qwen3");
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"].size(), 8192U);
  EXPECT_EQ(json["total_bytes"], 12978752);
  bool found = false;
  for (const auto& tensor : json["tensors"]) {
    for (const char* field : {"name", "type", "shape", "offset", "bytes"})
      EXPECT_TRUE(tensor.contains(field));
    if (tensor["name"] != "blk.3.attn_q.weight") continue;
    found = true;
    EXPECT_EQ(tensor["shape"], (std::vector<int>{256, 512}));
    EXPECT_EQ(tensor["bytes"], 256 / 32 * 34 * 512);
  }
  EXPECT_TRUE(found);
}

TEST(Inspect, TextNamesTensorsAndTotals) {
  const auto ran = run_inferno({"inspect", INFERNO_MODELS "/tale-12m-q8_0.gguf"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, testing::AllOf(HasSubstr("blk.9.ffn_down.weight"), HasSubstr("general.architecture")));
}

/// The shipped model with a tensor of a type that inferno cannot run.
std::filesystem::path write_unsupported(const TemporaryFolder& folder) {
  auto bytes = read_file(INFERNO_MODELS "/tale-12m-q8_0.gguf");
  const std::string name = "blk.3.attn_q.weight";
  const auto type = bytes.find(name) + name.size() + 4 + 16;
  EXPECT_EQ(bytes[type], 8);
  bytes[type] = 12;
  return folder.write("k.gguf", bytes);
}

TEST(Inspect, ShowsTypesThatCannotBeRun) {
  const TemporaryFolder folder;
  const auto path = write_unsupported(folder).string();
  const auto ran = run_inferno({"inspect", path});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out,
              testing::AllOf(HasSubstr("general.architecture"), HasSubstr("q4_k"),
                             HasSubstr("q4_k: 1 tensors, 73728 bytes; inferno cannot run this type")));
  EXPECT_EQ(run_inferno({"inspect", "--json", path}).json()["tensors"].size(), 112U);
}

TEST(Generate, RefusesTypesThatCannotBeRun) {
  const TemporaryFolder folder;
  const auto path = write_unsupported(folder).string();
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"generate", "-m", path, "-p", "a", "-n", "1"},
           {"serve", "-m", path, "--port", "0"},
           {"verify", "-m", path},
           {"logits", "-m", path, "--ids", "1", "--out", (folder / "x.npy").string()}}) {
    const auto ran = run_inferno(command);
    EXPECT_EQ(ran.code, 1) << command[0];
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_THAT(ran.err,
                testing::AllOf(HasSubstr("tensor \"blk.3.attn_q.weight\": type: expected one of f32 (0)"),
                               HasSubstr("found q4_k (12)")))
        << command[0];
  }
}

TEST(Inspect, RefusesAFileThatIsOnlyLarge) {
  const TemporaryFolder folder;
  constexpr std::uint64_t kLength = (std::uint64_t{1} << 31U) - 200;
  const auto path = folder.write(
      "big.gguf", GgufBytes::header(0, 1).key("general.name", gguf::ValueType::string).number(kLength).get());
  std::filesystem::resize_file(path, std::uint64_t{1} << 41U);
  for (const char* command : {"inspect", "generate"}) {
    const auto ran = run_inferno({command, "-m", path.string()});
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.err,
                testing::AllOf(HasSubstr("big.gguf"), HasSubstr("\"general.name\": value"),
                               HasSubstr("at most 134217728 bytes of memory"), HasSubstr("at byte 48")));
  }
}

TEST(Tokenize, TextFromAnArgumentOrStdin) {
  const auto json = run_inferno({"tokenize", "--json", "Once upon a time"}).json();
  EXPECT_EQ(json["ids"], (std::vector<int>{466, 470, 258, 412}));
  EXPECT_EQ(json["tokens"].size(), 4U);
  EXPECT_EQ(run_inferno({"tokenize", "--json"}, "Once upon a time").json(), json);
  EXPECT_EQ(run_inferno({"tokenize", "--json", ""}).json()["ids"].size(), 0U);
}

TEST(Tokenize, ControlTokensAreTextWithNoSpecial) {
  const auto parsed = run_inferno({"tokenize", "--json", "<|im_start|>user"}).json()["ids"];
  const auto text = run_inferno({"tokenize", "--json", "--no-special", "<|im_start|>user"}).json()["ids"];
  EXPECT_LT(parsed.size(), text.size());
}

TEST(Tokenize, DecodeIsTheWayBack) {
  EXPECT_EQ(run_inferno({"tokenize", "--decode", "466,470,258,412"}).out, "Once upon a time");
  EXPECT_EQ(run_inferno({"tokenize", "--json", "--decode", "466, 470,258,412"}).json()["text"],
            "Once upon a time");
  EXPECT_EQ(run_inferno({"tokenize", "--decode", ""}).out, "");
}

TEST(Logits, LastPositionAndAllAgreeWhateverTheChunk) {
  const TemporaryFolder folder;
  const auto ids = std::string("466,470,258,412,11,401,285");
  for (const char* backend : {"scalar", "pool"}) {
    const auto write = [&](const std::string& name, std::vector<std::string> more) {
      const auto path = (folder / name).string();
      more.insert(more.begin(), {"logits", "--ids", ids, "--out", path, "--backend", backend});
      const auto ran = run_inferno(more);
      EXPECT_EQ(ran.code, 0) << ran.err;
      return Npy(path);
    };
    const auto last = write("last.npy", {});
    const auto all = write("all.npy", {"--all"});
    const auto chunked = write("chunked.npy", {"--all", "--chunk", "2"});
    EXPECT_THAT(last.header, HasSubstr("(8192,)"));
    EXPECT_THAT(all.header, HasSubstr("(7, 8192,)"));
    ASSERT_EQ(all.values.size(), 7U * 8192);
    EXPECT_TRUE(std::equal(last.values.begin(), last.values.end(), all.values.end() - 8192));
    EXPECT_EQ(all.values, chunked.values);
    for (const char* kv : {"none", "basic", "paged"}) {
      EXPECT_EQ(write("kv.npy", {"--all", "--chunk", "3", "--kv", kv, "--ctx", "7"}).values, all.values)
          << kv;
    }
  }
}

TEST(Logits, TheContextBoundsTheIds) {
  const TemporaryFolder folder;
  const auto path = (folder / "x.npy").string();
  std::string ids = "1";
  for (int i = 0; i < 1024; ++i) ids += ",1";
  const auto refused = run_inferno({"logits", "--ids", ids, "--out", path});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("1025 tokens were given, the context holds 1024; raise --ctx"));
  const auto beyond = run_inferno({"logits", "--ids", ids, "--out", path, "--ctx", "2000"});
  EXPECT_EQ(beyond.code, 0);
  EXPECT_THAT(beyond.err, HasSubstr("1025 positions were asked for, tale-12m was trained on 1024"));
}

TEST(Synth, WritesAModelThatRunsTheSameBytesForTheSameSeed) {
  const TemporaryFolder folder;
  const auto a = (folder / "a.gguf").string();
  const auto b = (folder / "b.gguf").string();
  const auto c = (folder / "c.gguf").string();
  EXPECT_EQ(run_inferno({"synth", "--preset", "tiny", "--seed", "1", a}).code, 0);
  EXPECT_EQ(run_inferno({"synth", "--preset", "tiny", "--seed", "1", b}).code, 0);
  EXPECT_EQ(run_inferno({"synth", "--preset", "tiny", "--seed", "2", c, "--json"}).json()["preset"], "tiny");
  EXPECT_EQ(read_file(a), read_file(b));
  EXPECT_NE(read_file(a), read_file(c));
  const auto json =
      run_inferno({"generate", "-m", a, "-p", "hello", "-n", "3", "--ignore-eos", "--json"}).json();
  EXPECT_EQ(json["ids"].size(), 3U);
}

}  // namespace
}  // namespace inferno::test
