// What whoever asks for a GPU gets where it cannot do what is wanted: the next backend, and one line that
// says why. Mesa's lavapipe stands in for the GPU.

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sstream>

#include <inferno/engine.hpp>

#include "backend/registry.hpp"
#include "engine/model_parts.hpp"
#include "engine/serving_engine.hpp"
#include "platform/fault.hpp"
#include "platform/log.hpp"
#include "support/random_model.hpp"
#include "synth/synth.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Lavapipe : public testing::Environment {
 public:
  void SetUp() override {
    setenv("VK_ICD_FILENAMES", INFERNO_LAVAPIPE, 1);
    setenv("VK_DRIVER_FILES", INFERNO_LAVAPIPE, 1);
    // So that the next backend is the CPU, on a machine with an NVIDIA GPU, too.
    setenv("INFERNO_CUDA_MODULE", "/no/such/module.so", 1);
  }
};
const auto* const kLavapipe = testing::AddGlobalTestEnvironment(new Lavapipe);

/// Lines that were logged while it lives.
class LoggedLines {
 public:
  LoggedLines() : sink_(std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)) {
    sink_->set_pattern("%l: %v");
    log().sinks().push_back(sink_);
  }
  ~LoggedLines() { std::erase(log().sinks(), sink_); }
  LoggedLines(const LoggedLines&) = delete;
  LoggedLines& operator=(const LoggedLines&) = delete;

  std::vector<std::string> with(std::string_view part) const {
    std::vector<std::string> lines;
    std::istringstream all(text_.str());
    for (std::string line; std::getline(all, line);) {
      if (line.find(part) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink_;
};

/// A file of synth's smallest shape: 144 bytes of cache a position and layer, so that lavapipe, which binds
/// 128 MiB, holds 932,067 positions.
class Offers : public testing::Test {
 protected:
  static constexpr std::uint32_t kTooMany = 1'000'000;

  static void SetUpTestSuite() {
    file_ = std::make_unique<TemporaryFile>();
    SynthOptions shape;
    shape.preset = "tiny";
    synthesize(shape, file_->path());
  }
  static void TearDownTestSuite() { file_.reset(); }

  void SetUp() override { setenv("INFERNO_VULKAN_SOFTWARE", "1", 1); }
  void TearDown() override {
    unsetenv("INFERNO_VULKAN_SOFTWARE");
    fault::arm("");
  }

  static Model model() { return Model::load(file_->path()); }
  static EngineOptions options(const std::string& backend, std::uint32_t context = 0) {
    EngineOptions options;
    options.backend = backend;
    options.context = context;
    return options;
  }
  static Request request(std::uint32_t tokens) {
    Request request;
    request.prompt_ids = {1, 2, 3};
    request.max_tokens = tokens;
    request.ignore_end_tokens = true;
    return request;
  }
  /// Ends after some text, however much was asked for.
  static TextCallback enough() {
    return [count = 0](std::string_view) mutable { return ++count < 3; };
  }

  static std::unique_ptr<TemporaryFile> file_;
};
std::unique_ptr<TemporaryFile> Offers::file_;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(Offers, AGpuIsTakenWhereItCanBe) {
  for (const char* name : {"gpu", "auto"}) {
    const LoggedLines lines;
    Engine engine(model(), options(name));
    EXPECT_EQ(engine.generate(request(5)).ids.size(), 5U);
    EXPECT_EQ(engine.backend(), "vulkan");
    const auto said = lines.with("running on");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_THAT(said[0], testing::StartsWith("info: running on vulkan: cuda: "));
  }
}

/// The cache is only asked for when the first request says how long it is.
TEST_F(Offers, ACacheThatDoesNotFitIsTheNextBackends) {
  Engine expected(model(), options("pool"));
  const auto ids = expected.generate(request(5)).ids;
  for (const char* name : {"gpu", "auto"}) {
    const LoggedLines lines;
    Engine engine(model(), options(name, kTooMany + 100));
    const auto generation = engine.generate(request(kTooMany), enough());
    EXPECT_EQ(generation.ids.front(), ids.front());
    EXPECT_EQ(engine.backend(), "pool");
    EXPECT_TRUE(generation.moved_from.empty()) << "nothing had begun there";
    const auto said = lines.with("running on");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_THAT(said[0], testing::StartsWith("info: running on the CPU: cuda: "));
    EXPECT_THAT(said[0], HasSubstr("; vulkan: a layer's cache of"));
    // For good, and said once.
    EXPECT_EQ(engine.generate(request(5)).ids, ids);
    EXPECT_EQ(lines.with("running on").size(), 1U);
  }
}

TEST_F(Offers, ALongerRequestThatDoesNotFitIsTheNextBackendsToo) {
  const LoggedLines lines;
  Engine engine(model(), options("auto", kTooMany + 100));
  const auto ids = engine.generate(request(5)).ids;
  EXPECT_EQ(engine.backend(), "vulkan");
  EXPECT_FALSE(engine.generate(request(kTooMany), enough()).ids.empty());
  EXPECT_EQ(engine.backend(), "pool");
  EXPECT_EQ(engine.generate(request(5)).ids, ids);
  const auto said = lines.with("running on");
  ASSERT_EQ(said.size(), 2U);
  EXPECT_THAT(said[1], HasSubstr("; vulkan: a layer's cache of"));
}

TEST_F(Offers, AnExplicitBackendFailsWithTheReasonAndCanBeUsedOn) {
  Engine engine(model(), options("vulkan", kTooMany + 100));
  EXPECT_THAT(error_of([&] { engine.generate(request(kTooMany)); }), HasSubstr("a layer's cache of"));
  EXPECT_EQ(engine.generate(request(5)).ids.size(), 5U);
  EXPECT_EQ(engine.backend(), "vulkan");
}

/// Whoever names a device wants that one.
TEST_F(Offers, ANumberIsNotTurnedIntoTheCpu) {
  auto wanted = options("gpu", kTooMany + 100);
  wanted.device = 0;
  Engine engine(model(), wanted);
  const auto error = error_of([&] { engine.generate(request(kTooMany)); });
  EXPECT_THAT(error, HasSubstr("a layer's cache of"));
  EXPECT_EQ(engine.generate(request(5)).ids.size(), 5U) << "what fits runs";
  EXPECT_EQ(engine.backend(), "vulkan");
  wanted.device = 1;
  const auto missing = error_of([&] { const Engine none(model(), wanted); });
  EXPECT_THAT(missing, HasSubstr("gpu finds no GPU number 1: cuda: "));
  EXPECT_THAT(missing, HasSubstr("there is no device 1"));
}

TEST_F(Offers, ACpuThatPosesAsAGpuIsNone) {
  unsetenv("INFERNO_VULKAN_SOFTWARE");
  const LoadedModel loaded(file_->path());
  for (const char* name : {"gpu", "auto"}) {
    const LoggedLines lines;
    EXPECT_EQ(create_executor(name, loaded)->capabilities().backend, "pool");
    const auto said = lines.with("");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_THAT(said[0], HasSubstr("running on the CPU: cuda: "));
    EXPECT_THAT(said[0], HasSubstr("; vulkan: the only device is llvmpipe"));
    EXPECT_THAT(said[0], Not(HasSubstr("--device"))) << "that would not help here";
    EXPECT_THAT(error_of([&] { create_executor(name, loaded, {.device = 0}); }),
                HasSubstr("finds no GPU number 0"));
  }
  EXPECT_EQ(create_executor("vulkan", loaded, {.device = 0})->capabilities().backend, "vulkan");
}

/// Without a size the cache is as large as the device can have it, and that is said; with one it is had or
/// not.
TEST_F(Offers, TheServersCacheFitsTheDevice) {
  ServingOptions serving;
  serving.backend = "vulkan";
  serving.device = 0;
  serving.max_rows = 4;
  serving.context = 0;
  const std::uint32_t context = model().context_length();
  // More than can be bound is good where contexts are many.
  serving.max_rows = kTooMany / context + 2;
  serving.step_tokens = serving.max_rows;
  const LoggedLines lines;
  {
    const ServingEngine engine(model(), serving);
    EXPECT_EQ(engine.metrics().backend, "vulkan");
    const auto said = lines.with("the cache has");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_THAT(said[0], HasSubstr("binds at most 134217728 bytes"));
    EXPECT_LE(std::uint64_t{engine.options().kv_blocks} * serving.block_size * 144, 134217728U);
    EXPECT_GE((std::uint64_t{engine.options().kv_blocks} + 1) * serving.block_size * 144, 134217728U);
  }
  serving.kv_blocks = kTooMany / serving.block_size;
  EXPECT_THAT(error_of([&] { const ServingEngine engine(model(), serving); }),
              HasSubstr("a layer's cache of 62500 blocks"));
  // Left to inferno, somebody else has that room.
  serving.backend = "gpu";
  serving.device.reset();
  const ServingEngine engine(model(), serving);
  EXPECT_EQ(engine.metrics().backend, "pool");
  EXPECT_EQ(engine.options().kv_blocks, serving.kv_blocks);
  const auto said = lines.with("running on");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], HasSubstr("; vulkan: a layer's cache of"));
}

/// Wherever memory runs out, there is a backend, and one line.
TEST_F(Offers, AnyFailedAllocationIsSurvived) {
  if (!fault::kCompiledIn) GTEST_SKIP() << "this build has no fault switches (INFERNO_FAULTS)";
  int replaced = 0;
  for (int k = 1; k < 200; ++k) {
    const LoggedLines lines;
    fault::arm("alloc:" + std::to_string(k));
    Engine engine(model(), options("gpu"));
    EXPECT_EQ(engine.generate(request(3)).ids.size(), 3U) << k;
    ASSERT_EQ(lines.with("running on").size(), 1U) << k;
    if (engine.backend() == "vulkan") break;
    EXPECT_THAT(lines.with("running on")[0], HasSubstr("bytes")) << k;
    ++replaced;
  }
  EXPECT_GT(replaced, 20);
}

}  // namespace
}  // namespace inferno::test
