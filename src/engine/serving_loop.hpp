#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint_workers.hpp"
#include "engine/inbox.hpp"
#include "engine/scheduler.hpp"
#include "engine/serving_metrics.hpp"
#include "engine/step_assembly.hpp"
#include "step/executor.hpp"

namespace inferno {

struct ServingLoopSettings {
  SchedulerSettings scheduler;
  Limits limits;  ///< the executor was reserved for
  std::uint32_t vocab_size = 0;
  std::size_t mask_words = 0;       ///< of a constraint's bit set
  std::uint32_t masks_at_once = 1;  ///< threads that work out constraints beside the steps
  std::uint32_t buffered_tokens = 256;
  std::chrono::milliseconds stall_timeout{30'000};
  std::function<std::unique_ptr<Executor>()> failover;  ///< throws if there is none
};

/// The worker of a serving engine: reads the inbox, runs steps, hands out what they bring.
class ServingLoop {
 public:
  ServingLoop(std::unique_ptr<Executor> executor, const ServingLoopSettings& settings, Inbox& inbox);

  /// Until the inbox says stop. Throws nothing: what goes wrong ends requests.
  void run();
  /// From any thread; without what the inbox counts.
  ServingMetrics metrics() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool turn();
  void read_mail();
  void end_stalled();
  std::optional<Clock::time_point> next_deadline() const;
  bool is_patient() const;
  void step();
  void begin_round(Clock::duration step);
  void ask_constraints();
  bool ask_constraint(ServedRequest& request, std::optional<TokenId> chosen);
  bool take_answer(ServedRequest& request);
  std::optional<StepResult> run_step();
  void take_result(const StepResult& result);
  void take_row(std::size_t row, const StepResult& result);
  void take_token(std::size_t row, TokenId id);
  void take_prompt_end(ServedRequest& request);
  void end(std::uint64_t id, RequestEnd reason, std::string error = {}, std::optional<TokenEvent> last = {});
  void finish(ServedRequest& request, RequestEnd reason, std::string error, std::optional<TokenEvent> last);
  void tell_ends();
  void end_all(RequestEnd reason, const std::string& error);
  void replace_executor(const std::string& reason);
  void break_down(const std::string& reason);
  void publish();

  ServingLoopSettings settings_;
  std::unique_ptr<Executor> executor_;
  Inbox& inbox_;
  Scheduler scheduler_;
  StepAssembly assembly_;
  Inbox::Mail mail_;
  std::vector<ScheduledRow> rows_;  // of the step that runs
  // Between a step and the next, constraints are waited for, but not long: see begin_round.
  std::uint64_t round_ = 0;
  std::uint32_t asked_now_ = 0;  // in this round, and not answered yet
  Clock::duration patience_{};   // that is left in this round
  std::optional<Clock::time_point> patient_until_;
  bool all_await_ = false;      // every request that runs awaits its constraint
  std::uint32_t refusals_ = 0;  // submissions refused in a row
  std::uint32_t losses_ = 0;    // executors lost with few steps between
  std::uint64_t steps_since_loss_ = 0;
  std::string broken_;

  /// What a consumer is still to be told.
  struct Ending {
    std::shared_ptr<RequestChannel> channel;
    RequestOutcome outcome;
    std::optional<TokenEvent> last;
  };
  std::vector<Ending> endings_;  // of this turn

  ServingMetrics now_;  // the worker's own copy
  mutable std::mutex metrics_mutex_;
  ServingMetrics published_;

  ConstraintWorkers workers_;  // the last: its threads end first
};

}  // namespace inferno
