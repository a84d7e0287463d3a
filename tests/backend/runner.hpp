#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/loaded_model.hpp"
#include "step/executor.hpp"

namespace inferno::test {

using Logits = std::vector<std::vector<float>>;  // [positions][V]

/// How a sequence's blocks lie in the cache, as the kinds of cache lay them.
enum class Layout : std::uint8_t {
  contiguous,  ///< a run of blocks (basic)
  scattered,   ///< anywhere, in no order (paged)
};

struct RunnerOptions {
  std::uint32_t context = 512;
  std::uint32_t block_size = 16;
  Layout layout = Layout::contiguous;
  std::string backend = "scalar";
};

/// Runs one sequence through an executor and collects logits.
class Runner {
 public:
  explicit Runner(const LoadedModel& model, const RunnerOptions& options = {});

  Executor& executor() { return *executor_; }
  const std::vector<std::uint32_t>& blocks() const { return blocks_; }

  /// Feeds `ids` from position 0 in chunks and returns the logits of every position.
  Logits logits(std::span<const std::int32_t> ids, std::size_t chunk);
  /// The same, nothing kept: each position's logits from a pass over all ids up to it.
  Logits logits_recomputed(std::span<const std::int32_t> ids);
  /// The logits after the last id only.
  std::vector<float> last_logits(std::span<const std::int32_t> ids, std::size_t chunk);
  /// Feeds the prompt and then what is chosen, greedily: `count` ids.
  std::vector<std::int32_t> greedy(std::span<const std::int32_t> prompt, std::size_t count,
                                   std::size_t chunk);

 private:
  StepResult feed(std::span<const std::int32_t> ids, std::size_t first_position, OutputKind kind, bool all);

  std::unique_ptr<Executor> executor_;
  std::vector<std::uint32_t> blocks_;
  std::size_t vocab_size_;
};

/// Largest difference divided by the largest magnitude in `expected`.
template <typename Number>
double relative_error(std::span<const Number> expected, std::span<const float> actual);

extern template double relative_error<double>(std::span<const double>, std::span<const float>);
extern template double relative_error<float>(std::span<const float>, std::span<const float>);

/// Where goldens and models lie.
std::filesystem::path golden(const std::string& name);
std::filesystem::path shipped_model();

}  // namespace inferno::test
