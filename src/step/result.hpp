#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace inferno {

/// How a row of a submission ended.
enum class RowStatus : std::uint8_t {
  ok,         ///< every step it was to take was taken
  stopped,    ///< it chose one of its stop ids (which is its last id; its place in the cache is not written)
  skipped,    ///< it refers to a token that does not exist: the row it refers to stopped, failed, was skipped
              ///< or was cancelled. It took no step and wrote nothing
  cancelled,  ///< the submission was cancelled before the row was done; the ids so far are valid, and the
              ///< cache is written up to the input of the last of them. Without ids it took no step
  failed,     ///< see the row's error; other rows are not affected
};

/// "ok", "stopped", ...
std::string_view row_status_name(RowStatus status);

/// What a submission produced. Step 0 runs the batch; step k > 0 feeds each running row the token it chose
/// in step k - 1.
struct StepResult {
  /// [O][steps]: for outputs of kind token the chosen ids, one per step that the row took; else empty.
  std::vector<std::vector<std::int32_t>> ids;
  /// [O][steps]: for outputs of kind score.
  std::vector<std::vector<float>> scores;
  /// [O][steps * V] for logits, [O][steps * D] for hidden, if no sink took them; else empty.
  std::vector<std::vector<float>> values;
  std::vector<RowStatus> status;    ///< [R]
  std::vector<std::string> errors;  ///< [R]; empty unless the row failed
  std::uint32_t steps = 0;          ///< model steps that were run to their end
  /// What the backend made of the steps' stages (fewer by fusion, more by splitting); 0: each stage is one.
  std::uint64_t dispatches = 0;
  /// How often the steps stopped to wait for a device, where they are not its work as a whole (`hybrid`).
  std::uint64_t device_waits = 0;
};

/// Takes outputs as they are produced: logits and hidden states, so that those of a long prompt are never
/// held (what holds a NaN is not handed over: the row fails instead), and chosen ids, so that nobody waits
/// for the end of a chain. It may call Executor::cancel and nothing else of the executor. If it throws, the
/// rows that were running fail with what it said.
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  /// `values` is [V] or [D] by the output's kind; valid during the call. Outputs of one step come in
  /// ascending order, steps in ascending order. Called from the thread that waits or polls.
  virtual void take(std::uint32_t output, std::uint32_t step, std::span<const float> values) = 0;
  /// What an output of kind token chose, which the result holds as well. A device that chains steps may go on
  /// meanwhile: later steps' ids can come after a cancel; or all of a chain's may come at its end.
  virtual void take_token(std::uint32_t /*output*/, std::uint32_t /*step*/, std::int32_t /*id*/) {}
};

}  // namespace inferno
