#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <inferno/engine.hpp>

#include "engine/generation_observer.hpp"
#include "engine/logits_hash.hpp"
#include "engine/model_parts.hpp"
#include "engine/sequence.hpp"
#include "kv/sequence_cache.hpp"
#include "step/executor.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// What a loop needs beside the request; all of it outlives the loop.
struct GenerationContext {
  const ModelParts& model;
  Executor& executor;  ///< reserved for at least the request's positions
  const EngineOptions& options;
  KvKind kv_kind;
  const std::atomic<bool>& cancelled;
  GenerationObserver* observer;  ///< may be nullptr
  /// Gives another executor, reserved alike, when the device of the one before is lost; throws what it was
  /// told if there is none.
  std::function<Executor&(const DeviceLost& lost)> successor;
};

/// One sequence from prompt to end: feeds the prompt in chunks, then asks once per token (or once per K
/// tokens, which it takes in as they come).
class GenerationLoop : private OutputSink {
 public:
  /// `prompt` is not empty; `limit`: positions that the sequence may fill, more than the prompt has.
  GenerationLoop(const GenerationContext& context, const Request& request, const std::vector<TokenId>& prompt,
                 std::uint32_t limit, const TextCallback& on_text);

  /// Runs to the end; once.
  Generation run();

 private:
  /// Brings every token into the cache that is not there yet, in chunks, the last of which chooses the next
  /// token and chains further ones up to `steps` in all.
  void advance(std::uint32_t steps, bool prefill);
  /// The same on a device that may get lost meanwhile.
  void try_to_advance(std::uint32_t steps, bool prefill);
  /// Goes on with another executor, whose cache is empty: everything is computed again, with the same bits.
  void move_to(Executor& executor);
  /// One submission: tokens [first, first + count) of the sequence; `steps` 0: chooses nothing.
  void forward(std::uint32_t first, std::uint32_t count, std::uint32_t steps, bool prefill);
  void take(std::uint32_t output, std::uint32_t step, std::span<const float> logits) override;
  void take_token(std::uint32_t output, std::uint32_t step, std::int32_t id) override;
  /// Takes in one chosen token.
  void accept(TokenId id);
  void emit(const std::string& text);

  const GenerationContext& context_;
  const TextCallback& on_text_;
  Executor* executor_;
  BlockPool pool_;
  SequenceCache cache_;
  std::uint32_t slot_ = kGreedySlot;
  Sequence sequence_;
  std::optional<LogitsHash> hash_;
  Generation generation_;
  double forward_total_ms_ = 0;
  // Of the submission that runs.
  Ticket ticket_ = 0;
  bool prefill_ = false;
  std::vector<float> logits_;  // [V] of the token that comes next, or empty if nobody wanted them
  std::exception_ptr thrown_;  // by who is told of tokens
};

}  // namespace inferno
