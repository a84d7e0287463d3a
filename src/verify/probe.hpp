#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kv/block_pool.hpp"
#include "kv/sequence_cache.hpp"
#include "step/executor.hpp"

namespace inferno::verify {

using Ids = std::vector<std::int32_t>;

/// The greedy continuation of a prompt, and the logits that each id was chosen from: [ids.size()][V].
struct Transcript {
  Ids ids;
  std::vector<float> logits;
};

/// Asks one executor the same thing in different ways. Reserves it when made; its cache blocks are handed out
/// so that two ways rarely see the same ones.
class Probe {
 public:
  static constexpr std::uint32_t kRows = 3;          ///< most sequences side by side
  static constexpr std::uint32_t kChainedSteps = 4;  ///< most steps in a submission

  /// `positions`: the longest sequence that will be asked for; `block_size` divides 256. `before_submission`
  /// is called before each submission, to show progress.
  Probe(Executor& executor, std::uint32_t positions, std::uint32_t block_size,
        std::function<void()> before_submission);

  /// Logits of every position, [ids.size()][V], fed in chunks of `chunk` tokens.
  std::vector<float> logits(const Ids& ids, std::uint32_t chunk, KvKind kind = KvKind::paged);
  /// The same of several sequences (at most kRows), each fed in chunks of `chunk` while it lasts, all in the
  /// same submissions.
  std::vector<std::vector<float>> logits_together(const std::vector<Ids>& sequences, std::uint32_t chunk);
  /// Logits of the last position alone, nothing kept from token to token: [V].
  std::vector<float> recomputed_logits(std::span<const std::int32_t> ids);
  /// The same as `logits` after half of the sequence was exported, forgotten and imported into other blocks.
  std::vector<float> logits_after_transfer(const Ids& ids);
  /// `steps` chained in one submission. No stop ids: exactly `count` tokens.
  Transcript greedy(const Ids& prompt, std::uint32_t count, std::uint32_t steps);

 private:
  /// One row of a submission.
  struct Part {
    const Ids& ids;
    std::uint32_t begin, end;
    const std::vector<std::uint32_t>& blocks;
    std::vector<float>& logits;  ///< gets those of [begin, end)
  };

  SequenceCache cache(KvKind kind, std::size_t positions);
  void submit(const std::vector<Part>& parts);
  /// Runs a submission; throws Error if one of its rows does not end well.
  StepResult run(const StepBatch& batch, const SubmitOptions& options = {});

  Executor& executor_;
  std::function<void()> before_submission_;
  BlockPool pool_;
};

}  // namespace inferno::verify
