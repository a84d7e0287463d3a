#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/loaded_model.hpp"
#include "step/executor.hpp"
#include "support/random_model.hpp"

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

using Ids = std::vector<std::int32_t>;

/// One sequence in any number of equal or different companions, chunk by chunk; the logits of every position
/// of row 0. Reserves the executor for it.
Logits run_rows(Executor& executor, const LoadedModel& model, const std::vector<Ids>& rows, std::size_t chunk,
                std::uint32_t block_size = 64);

/// Why a model of Qwen3-0.6B's shape is not made here, a file of 640 MB that is packed in memory more than
/// once; empty if there is room.
std::string no_room_for_large_model();

/// A model with formats mixed within a layer.
RandomModel mixed_formats();

/// `make` refuses a model with a scale that is infinite, by tensor and row.
void expect_spoilt_weights_are_refused(const std::function<void(const LoadedModel& model)>& make);

/// Blocks that `one` wrote are what `other` would have written, and it goes on from them.
void expect_blocks_move(Executor& one, Executor& other, const LoadedModel& model);

/// Largest difference divided by the largest magnitude in `expected`.
template <typename Number>
double relative_error(std::span<const Number> expected, std::span<const float> actual);

extern template double relative_error<double>(std::span<const double>, std::span<const float>);
extern template double relative_error<float>(std::span<const float>, std::span<const float>);

/// Where goldens and models lie.
std::filesystem::path golden(const std::string& name);
/// Those of the model that ships with the project stand beside it.
std::filesystem::path shipped_golden();
std::filesystem::path shipped_model();
/// A golden by its name, or the shipped model: "tale".
std::filesystem::path model_path(const std::string& name);

}  // namespace inferno::test
