#pragma once

#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "model/loaded_model.hpp"
#include "step/executor.hpp"

/// The rules of step/executor.hpp as tests, for any executor. A backend takes part with one file:
///
///     INFERNO_CONFORMANCE(Scalar, inferno::conformance::on_small_models([](const LoadedModel& model) {
///       return inferno::create_executor("scalar", model);
///     }));
///
/// linked with inferno_conformance. What it declares not to have is skipped by name.
namespace inferno::conformance {

/// A backend on a model.
struct ExecutorUnderTest {
  std::string name;  ///< of the instance; letters, digits and underscores
  std::function<const ModelConfig&()> config;
  std::function<std::unique_ptr<Executor>()> make;  ///< a new one, nothing reserved
};

std::ostream& operator<<(std::ostream& stream, const ExecutorUnderTest& tested);

/// The backend on each of the small models of the tests' data: odd widths, grouped and multi-query attention,
/// tied and separate heads, F32, F16 and Q8_0.
std::vector<ExecutorUnderTest> on_small_models(
    const std::function<std::unique_ptr<Executor>(const LoadedModel&)>& make);

using Ids = std::vector<std::int32_t>;
using Blocks = std::vector<std::uint32_t>;

/// What came out of a sequence: equality is that of the bits.
struct Transcript {
  Ids ids;                    ///< chosen
  std::vector<float> logits;  ///< [ids, V] they were chosen from; empty if the backend has no such output
};
bool operator==(const Transcript& a, const Transcript& b);
std::ostream& operator<<(std::ostream& stream, const Transcript& transcript);

bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// How to run a sequence, where all ways must lead to the same end.
struct How {
  Blocks blocks = {};       ///< empty: 0, 1, 2, ...
  std::uint32_t chunk = 0;  ///< prompt tokens in one submission; 0: all
  std::uint32_t chain = 1;  ///< steps in one submission
  std::uint32_t slot = kGreedySlot;
};

/// first, first + 1, ... (count of them)
Blocks block_run(std::uint32_t first, std::uint32_t count);
std::vector<TokenInput> inputs(const Ids& ids);
Ids slice(const Ids& ids, std::size_t begin, std::size_t end);
Ids joined(const Ids& a, const Ids& b);

class Conformance : public testing::TestWithParam<ExecutorUnderTest> {
 protected:
  /// Room for every test that is not about limits.
  static Limits roomy();
  /// The test's executor, reserved with roomy().
  Executor& executor();
  /// A new one.
  std::unique_ptr<Executor> make(const Limits& limits = roomy()) const;
  const Capabilities& capabilities() { return executor().capabilities(); }
  const ModelConfig& config() const { return GetParam().config(); }
  std::uint32_t vocab_size() const { return config().vocab_size; }

  /// Random ids, the same for the same arguments.
  Ids prompt(std::uint64_t seed, std::size_t length) const;
  /// Blocks 0, 1, ... up to `positions`.
  static Blocks table_for(const Executor& executor, std::size_t positions, std::uint32_t first = 0);
  /// Runs a prompt without asking for anything, in chunks.
  static void feed(Executor& executor, const Ids& ids, std::uint32_t first_position, const Blocks& blocks,
                   std::uint32_t chunk = 0);
  /// Runs a prompt and chooses `count` ids.
  static Transcript generate(Executor& executor, const Ids& prompt, std::size_t count, const How& how = {});
  /// The logits after every one of `ids`, as one submission. Needs the capability.
  static std::vector<float> all_logits(Executor& executor, const Ids& ids, const Blocks& blocks = {});

  /// A prompt whose greedy continuation has, at index `at`, an id that it did not choose before.
  struct Turn {
    Ids prompt;
    Transcript transcript;
    std::int32_t id() const { return transcript.ids[at]; }
    std::size_t at = 0;
  };
  Turn turn_at(std::size_t at, std::size_t count, std::uint64_t seed = 1);

  /// `act` must throw UsageError with `needle` in its text and change nothing: a sequence in the last three
  /// blocks with the last slot is decoded with and without it in between, to the same ids.
  void expect_refused(const std::function<void()>& act, const std::string& needle);

 private:
  std::unique_ptr<Executor> executor_;
};

}  // namespace inferno::conformance

/// Instantiates the suite for a vector of ExecutorUnderTest.
#define INFERNO_CONFORMANCE(prefix, executors)                                           \
  namespace inferno::conformance {                                                       \
  INSTANTIATE_TEST_SUITE_P(prefix, Conformance, testing::ValuesIn(executors),            \
                           [](const testing::TestParamInfo<ExecutorUnderTest>& tested) { \
                             return tested.param.name;                                   \
                           });                                                           \
  }                                                                                      \
  static_assert(true)

/// Skips the test, visibly, if the backend declares that it lacks an option.
#define INFERNO_NEEDS(option, what) \
  if (!capabilities().option)       \
  GTEST_SKIP() << "backend " << capabilities().backend << " declares no " << (what)
