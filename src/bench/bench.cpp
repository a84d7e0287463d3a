#include "bench/bench.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/trace.hpp"
#include "model/training_length.hpp"
#include "platform/terminal.hpp"
#include "step/plan.hpp"

namespace inferno::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The engine's own: the split length of attention.
constexpr std::uint32_t kBlockSize = kSplitPositions;
/// Decode steps that are run before those that are timed.
constexpr std::uint32_t kWarmUpSteps = 4;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Token ids that look like nothing in particular, the same in every run.
class RandomTokens {
 public:
  RandomTokens(std::uint32_t vocab_size, std::uint64_t seed) : vocab_size_(vocab_size), state_(seed) {}
  std::int32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int32_t>((state_ >> 33U) % vocab_size_);
  }

 private:
  std::uint32_t vocab_size_;
  std::uint64_t state_;
};

/// Positions that a sequence of this workload reaches.
std::uint32_t positions_needed(const Workload& workload) {
  const auto decoded = workload.gen == 0 ? 0 : workload.depth_or_prompt() + workload.gen;
  return std::max(workload.prompt, decoded);
}

Limits limits_for(const Workload& workload) {
  const auto blocks = (positions_needed(workload) + kBlockSize - 1) / kBlockSize;
  const std::uint64_t all_blocks = std::uint64_t{blocks} * workload.rows;
  if (all_blocks >= UINT32_MAX) {
    throw UsageError(
        fmt::format("bench: {} rows of {} positions need {} cache blocks, more than can be counted",
                    workload.rows, positions_needed(workload), all_blocks));
  }
  Limits limits;
  limits.max_rows = workload.rows;
  limits.max_tokens = std::max(workload.prefill_chunk, workload.rows);
  limits.max_outputs = workload.rows;
  limits.max_steps = workload.steps_per_submit;
  limits.max_context = blocks * kBlockSize;
  limits.block_size = kBlockSize;
  limits.blocks = static_cast<std::uint32_t>(all_blocks);
  limits.slots = 1;
  return limits;
}

/// The sequences of a workload and how they are fed to the executor.
class Sequences {
 public:
  Sequences(const LoadedModel& model, Executor& executor, const Workload& workload)
      : executor_(executor), workload_(workload), pool_(executor.limits().blocks) {
    const auto positions = positions_needed(workload);
    RandomTokens random(model.config.vocab_size, workload.seed);
    for (std::uint32_t row = 0; row < workload.rows; ++row) {
      caches_.emplace_back(pool_, workload.kv, executor.limits().block_size, positions);
      if (!caches_.back().extend(positions)) throw Error("bench: the cache is too small for its own limits");
      // One place more than there are positions: the last token chosen is never fed.
      auto& tokens = tokens_.emplace_back(positions + 1);
      std::generate(tokens.begin(), tokens.end(), [&] { return random.next(); });
    }
  }

  /// Feeds tokens [first, end) of every row, chunk by chunk, all rows side by side. The last submission
  /// chooses `steps` tokens for each row, which become the sequence's next ones.
  void feed(std::uint32_t first, std::uint32_t end, std::uint32_t steps, StageObserver* observer = nullptr) {
    const auto slice = std::max(1U, workload_.prefill_chunk / workload_.rows);
    for (auto begin = first; begin < end; begin += slice) {
      const auto stop = std::min(begin + slice, end);
      submit(0, workload_.rows, begin, stop, stop == end ? steps : 0, observer);
    }
  }

  /// Makes the caches of all rows hold positions up to `depth`, cheaply: see Workload. Rows that
  /// hold `length` positions already keep nothing of them.
  void fill(std::uint32_t depth, const std::function<void(std::uint32_t)>& progress) {
    for (std::uint32_t begin = 0; begin < depth; begin += workload_.prefill_chunk) {
      progress(begin);
      submit(0, 1, begin, std::min(begin + workload_.prefill_chunk, depth), 0, nullptr);
    }
    const auto block_size = executor_.limits().block_size;
    const auto blocks = (depth + block_size - 1) / block_size;
    std::vector<BlockCopy> copies;
    for (std::size_t row = 1; row < caches_.size(); ++row) {
      for (std::uint32_t i = 0; i < blocks; ++i) {
        copies.push_back({caches_[0].blocks()[i], caches_[row].blocks()[i]});
      }
    }
    executor_.copy_blocks(copies);
  }

  /// Decodes `count` tokens for every row from position `depth` on.
  void decode(std::uint32_t depth, std::uint32_t count, StageObserver* observer = nullptr) {
    for (std::uint32_t done = 0; done < count;) {
      const auto steps = std::min(workload_.steps_per_submit, count - done);
      const auto position = depth + done;
      feed(workload_.kv == KvKind::none ? 0 : position, position + 1, steps, observer);
      done += steps;
    }
  }

  std::uint64_t submissions() const { return submissions_; }
  std::uint64_t dispatches() const { return dispatches_; }

 private:
  void submit(std::uint32_t first_row, std::uint32_t end_row, std::uint32_t begin, std::uint32_t end,
              std::uint32_t steps, StageObserver* observer) {
    StepBatch batch;
    std::vector<TokenInput> inputs(end - begin);
    for (auto row = first_row; row < end_row; ++row) {
      for (auto i = begin; i < end; ++i) inputs[i - begin] = TokenInput::of(tokens_[row][i]);
      batch.add_row(inputs, begin, caches_[row].blocks());
      if (steps > 0) batch.add_output(OutputKind::token);
    }
    SubmitOptions options;
    options.max_steps = std::max(steps, 1U);
    options.observer = observer;
    const auto result = executor_.wait(executor_.submit(batch, options));
    // Whoever hands a device one product after the other asks that often.
    submissions_ += std::max<std::uint64_t>(result.device_waits, 1);
    dispatches_ += result.dispatches;
    for (std::size_t row = 0; row < result.status.size(); ++row) {
      if (result.status[row] != RowStatus::ok) {
        throw Error(fmt::format("bench: row {} ended as {} at position {}{}{}", row + first_row,
                                row_status_name(result.status[row]), end - 1,
                                result.errors[row].empty() ? "" : ": ", result.errors[row]));
      }
    }
    if (steps == 0) return;
    for (auto row = first_row; row < end_row; ++row) {
      const auto& ids = result.ids[row - first_row];
      std::copy(ids.begin(), ids.end(), tokens_[row].begin() + end);
    }
  }

  Executor& executor_;
  const Workload& workload_;
  BlockPool pool_;
  std::vector<SequenceCache> caches_;              // [rows]
  std::vector<std::vector<std::int32_t>> tokens_;  // [rows][positions + 1]
  std::uint64_t submissions_ = 0;
  std::uint64_t dispatches_ = 0;
};

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto middle = values.size() / 2;
  const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

void measure_prefill(Result& result, Sequences& sequences) {
  const auto& workload = result.workload;
  ProgressLine progress(fmt::format("bench {}: prefill", result.backend));
  sequences.feed(0, workload.prompt, 1);
  const auto tokens = static_cast<double>(workload.rows) * workload.prompt;
  std::vector<double> rates;
  for (std::uint32_t i = 0; i < workload.repeats; ++i) {
    progress.update(i, workload.repeats);
    const auto start = Clock::now();
    sequences.feed(0, workload.prompt, 1);
    rates.push_back(tokens / seconds_since(start));
  }
  result.prefill_tokens_per_second = spread_of(std::move(rates));
}

void set_prefill_share(Result& result) {
  const auto& machine = result.machine;
  const auto& operations = result.prefill_operations;
  const double seconds = static_cast<double>(result.workload.rows) * result.workload.prompt /
                         result.prefill_tokens_per_second.median;
  result.prefill_gops = operations.total() / seconds / 1e9;
  if (machine.int8_gops == 0 || machine.fp32_gflops == 0) return;  // of a device that cannot be measured
  const double ideal =
      operations.int8 / (machine.int8_gops * 1e9) + operations.float32 / (machine.fp32_gflops * 1e9);
  result.prefill_share = ideal / seconds;
}

double gb_per_second(const Result& result, double tokens_per_second) {
  const double bytes = static_cast<double>(result.weight_bytes_per_step) + result.cache_bytes_per_step;
  return bytes * tokens_per_second / result.workload.rows / 1e9;
}

void measure_decode(Result& result, Sequences& sequences, Executor& executor, Machine& machine) {
  const auto& workload = result.workload;
  const auto depth = workload.depth_or_prompt();
  if (workload.kv != KvKind::none && depth > workload.prompt) {
    ProgressLine filling(fmt::format("bench {}: filling the cache to depth {}", result.backend, depth));
    sequences.fill(depth, [&](std::uint32_t done) { filling.update(done, depth); });
  }
  ProgressLine progress(fmt::format("bench {}: decode", result.backend));
  sequences.decode(depth, std::min(workload.gen, std::max(kWarmUpSteps, workload.steps_per_submit)));
  const auto submissions = sequences.submissions();
  const auto tokens = static_cast<double>(workload.rows) * workload.gen;
  std::vector<double> rates;
  std::vector<double> shares;
  std::vector<double> reads{machine.read_gb_per_second()};
  for (std::uint32_t i = 0; i < workload.repeats; ++i) {
    progress.update(i, workload.repeats);
    const auto start = Clock::now();
    sequences.decode(depth, workload.gen);
    rates.push_back(tokens / seconds_since(start));
    reads.push_back(machine.read_gb_per_second());
    const double read = (reads[i] + reads[i + 1]) / 2;
    shares.push_back(read > 0 ? gb_per_second(result, rates.back()) / read : 0);
  }
  result.decode_tokens_per_second = spread_of(std::move(rates));
  result.decode_gb_per_second = gb_per_second(result, result.decode_tokens_per_second.median);
  result.decode_share = spread_of(std::move(shares)).median;
  result.machine.read_gb_per_second = spread_of(std::move(reads)).median;
  const double steps = static_cast<double>(workload.gen) * workload.repeats;
  result.submissions_per_token = static_cast<double>(sequences.submissions() - submissions) / steps;

  // Stages are counted in a step of their own: being watched may cost a backend its fusions.
  result.stages_per_token = stages_per_step(static_cast<int>(result.layers));
  if (executor.capabilities().observation) {
    StageTrace trace;
    sequences.decode(depth, 1, &trace);
    result.stages_per_token = static_cast<double>(trace.stages());
  }
  const auto dispatches = sequences.dispatches();
  sequences.decode(depth, 1);
  const auto counted = sequences.dispatches() - dispatches;
  result.dispatches_per_token = counted > 0 ? static_cast<double>(counted) : result.stages_per_token;
}

}  // namespace

void check(const Workload& workload, const ModelConfig& config, const Capabilities& capabilities) {
  const auto positive = [](std::uint32_t value, std::string_view option) {
    if (value == 0) throw UsageError(fmt::format("bench: {} is 0; expected at least 1", option));
  };
  positive(workload.rows, "--rows");
  positive(workload.repeats, "--repeats");
  positive(workload.steps_per_submit, "--steps-per-submit");
  positive(workload.prefill_chunk, "--prefill-chunk");
  if (workload.prompt == 0 && workload.gen == 0) {
    throw UsageError("bench: --prompt and --gen are both 0: there is nothing to measure");
  }
  const std::uint64_t depth = workload.depth_or_prompt();
  const std::uint64_t limit = workload.context != 0 ? workload.context : config.context_length;
  const auto* source = workload.context != 0 ? "--ctx" : "the model's context";
  if (workload.prompt > limit) {
    throw UsageError(fmt::format("bench: --prompt {} needs as many positions, {} holds {}", workload.prompt,
                                 source, limit));
  }
  if (workload.gen > 0 && depth + workload.gen > limit) {
    throw UsageError(fmt::format("bench: --gen {} at depth {} needs {} positions, {} holds {}", workload.gen,
                                 depth, depth + workload.gen, source, limit));
  }
  warn_beyond_training(config, workload.context);
  if (workload.steps_per_submit > 1 && workload.kv == KvKind::none) {
    throw UsageError(fmt::format("bench: {} steps per submission need a cache; use --kv basic or --kv paged",
                                 workload.steps_per_submit));
  }
  if (workload.steps_per_submit > 1 && !capabilities.multi_step) {
    throw UsageError(fmt::format("bench: backend {} does not chain steps; use --steps-per-submit 1",
                                 capabilities.backend));
  }
}

void prepare(const LoadedModel& model, Executor& executor, const Workload& workload) {
  check(workload, model.config, executor.capabilities());
  executor.reserve(limits_for(workload));
}

Result run(const LoadedModel& model, Executor& executor, const Workload& workload, Machine& machine) {
  const auto& capabilities = executor.capabilities();

  Result result;
  result.backend = capabilities.backend;
  result.device = capabilities.device;
  result.model = model.config.name;
  result.layers = model.config.layers;
  result.cache_format = capabilities.cache_format;
  result.workload = workload;
  result.prefill_operations =
      prefill_operations(model.weights, capabilities.contract, workload.rows, workload.prompt);
  result.weight_bytes_per_step = weight_bytes_per_step(model.weights, model.config.tied_head, workload.rows);
  if (workload.kv != KvKind::none) {
    result.cache_bytes_per_step = cache_bytes_per_position(executor, executor.limits()) * workload.rows *
                                  positions_read_per_step(workload.depth_or_prompt(), workload.gen);
  }

  Sequences sequences(model, executor, workload);
  result.machine = machine.limits();
  if (workload.prompt > 0) measure_prefill(result, sequences);
  if (workload.gen > 0) measure_decode(result, sequences, executor, machine);
  result.machine = best_peaks(result.machine, machine.limits());
  if (workload.prompt > 0) set_prefill_share(result);
  return result;
}

}  // namespace inferno::bench
