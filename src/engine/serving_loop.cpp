#include "engine/serving_loop.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "platform/log.hpp"

namespace inferno {
namespace {

using Clock = std::chrono::steady_clock;

/// A device that refuses this many submissions in a row counts as lost.
constexpr std::uint32_t kMostRefusals = 5;
/// This many executors may be lost with fewer than kStepsOfTrust steps between them.
constexpr std::uint32_t kMostLosses = 3;
constexpr std::uint64_t kStepsOfTrust = 1000;
/// Of the latest step's time, what constraints may take of everybody before the next one; what takes longer
/// is left to itself.
constexpr int kShareOfConstraints = 8;
constexpr std::chrono::microseconds kLeastPatience{100};
/// Of that, what one constraint is given in this thread: enough for a mask that is remembered.
constexpr std::chrono::microseconds kQuickAnswer{40};

std::uint64_t microseconds(Clock::duration duration) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// What is to be told before the first step.
ServingMetrics at_rest(const Limits& limits, const Capabilities& capabilities) {
  ServingMetrics metrics;
  metrics.block_size = limits.block_size;
  metrics.blocks_total = metrics.blocks_free = limits.blocks;
  metrics.context_limit = limits.max_context;
  metrics.max_rows = limits.max_rows;
  metrics.backend = capabilities.backend;
  metrics.device = capabilities.device;
  return metrics;
}

std::vector<float> embedding_of(const ServedRequest& request) {
  const double count = request.pooled_tokens;
  double squares = 0;
  for (const double sum : request.pooled) squares += (sum / count) * (sum / count);
  const double scale = request.normalize && squares > 0 ? 1 / std::sqrt(squares) : 1;
  std::vector<float> embedding;
  embedding.reserve(request.pooled.size());
  for (const double sum : request.pooled) embedding.push_back(static_cast<float>(sum / count * scale));
  return embedding;
}

/// Whether its own bias bans all that its constraint allows (or all there is).
bool leaves_nothing(const ServedRequest& request, std::uint32_t vocab_size) {
  constexpr float kBan = -100.0F;
  const auto& biases = request.sequence.sampling().logit_bias;
  if (biases.empty()) return false;
  std::vector<bool> left(vocab_size, true);
  if (request.task && !request.task->allowed.empty()) {
    const auto& allowed = request.task->allowed;
    for (std::size_t id = 0; id < vocab_size; ++id) left[id] = (allowed[id / 32] >> (id % 32) & 1U) != 0;
  }
  for (const auto& [id, bias] : biases) {
    if (bias <= kBan) left.at(static_cast<std::size_t>(id)) = false;
  }
  return std::find(left.begin(), left.end(), true) == left.end();
}

/// Time for an answer that is soon found.
class QuickTurn : public ConstraintTurn {
 public:
  explicit QuickTurn(Clock::duration time) : until_(Clock::now() + time) {}
  void go_on() override {
    if (Clock::now() >= until_) throw TurnOver();
  }
  void give_way() override { throw TurnOver(); }

 private:
  Clock::time_point until_;
};

}  // namespace

ServingLoop::ServingLoop(std::unique_ptr<Executor> executor, const ServingLoopSettings& settings,
                         Inbox& inbox)
    : settings_(settings),
      executor_(std::move(executor)),
      inbox_(inbox),
      scheduler_(settings.scheduler),
      now_(at_rest(settings.limits, executor_->capabilities())),
      published_(now_),
      workers_(settings.masks_at_once, [&inbox](std::uint64_t id) { inbox.answer(id); }) {}

ServingMetrics ServingLoop::metrics() const {
  const std::lock_guard lock(metrics_mutex_);
  return published_;
}

void ServingLoop::run() {
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = turn();
    } catch (const std::exception& error) {
      break_down(fmt::format("the serving loop failed: {}", error.what()));
    } catch (...) {
      break_down("the serving loop failed with an exception of an unknown kind");
    }
    inbox_.account(scheduler_.started_since_last(), static_cast<std::uint32_t>(endings_.size()));
    publish();
    tell_ends();
  }
}

bool ServingLoop::turn() {
  auto until = next_deadline();
  bool waits = !scheduler_.has_work() || all_await_;
  if (!waits && is_patient()) {
    waits = true;
    until = std::min(until.value_or(*patient_until_), *patient_until_);
  }
  inbox_.collect(mail_, waits, until);
  const auto begin = Clock::now();
  const auto in_executor = now_.step_microseconds;
  read_mail();
  if (mail_.stop) {
    end_all(RequestEnd::shutdown, {});
    return false;
  }
  end_stalled();
  if (scheduler_.has_work() && !is_patient()) step();
  now_.host_microseconds += microseconds(Clock::now() - begin) - (now_.step_microseconds - in_executor);
  return true;
}

void ServingLoop::read_mail() {
  for (auto& request : mail_.requests) {
    const bool nothing_to_do =
        request->generates() && request->sequence.finish_reason() && !request->prompt_logprobs;
    if (broken_.empty() && !nothing_to_do) {
      scheduler_.add(std::move(request));
      continue;
    }
    inbox_.account(1, 0);  // the scheduler never sees it
    finish(*request, broken_.empty() ? RequestEnd::length : RequestEnd::failed, broken_, {});
  }
  for (const auto& [id, reason] : mail_.cancelled) end(id, reason);
  for (const auto id : mail_.resumed) scheduler_.resume(id);
  for (const auto id : mail_.answered) {
    auto* request = scheduler_.find(id);
    if (request == nullptr) continue;
    if (request->task->round == round_) --asked_now_;
    take_answer(*request);
  }
}

std::optional<Clock::time_point> ServingLoop::next_deadline() const {
  if (scheduler_.stalled().empty()) return std::nullopt;
  return scheduler_.stalled().front()->stalled_since + settings_.stall_timeout;
}

void ServingLoop::end_stalled() {
  while (!scheduler_.stalled().empty() && *next_deadline() <= Clock::now()) {
    end(scheduler_.stalled().front()->id, RequestEnd::stalled);
  }
}

void ServingLoop::step() {
  all_await_ = false;
  if (scheduler_.running() == 0) begin_round({});  // nobody is held up
  scheduler_.start_waiting();
  ask_constraints();
  if (is_patient()) return;  // who has just started will know in a moment
  rows_ = scheduler_.form_rows();
  all_await_ =
      rows_.empty() && std::any_of(scheduler_.running_requests().begin(), scheduler_.running_requests().end(),
                                   [](const auto& request) { return request->is_asked; });
  if (rows_.empty()) return;
  const auto begin = Clock::now();
  const auto result = run_step();
  const auto elapsed = microseconds(Clock::now() - begin);
  now_.step_microseconds += elapsed;
  begin_round(std::chrono::microseconds(elapsed));
  if (!result) return;
  refusals_ = 0;
  if (++steps_since_loss_ >= kStepsOfTrust) losses_ = 0;

  StepLoad load;
  std::uint32_t decoding = 0;
  for (const auto& row : rows_) {
    if (row.first >= row.request->known()) ++decoding;
    if (row.decodes) {
      load.add_row(row.first);
    } else {
      load.add_prompt(row.first, row.count);
    }
  }
  scheduler_.budget().observe(load, static_cast<double>(elapsed));
  ++now_.steps;
  now_.rows += rows_.size();
  now_.batch_rows = static_cast<std::uint32_t>(rows_.size());
  now_.batch_tokens = load.rows + load.prompt_tokens;
  now_.decoding = decoding;
  take_result(*result);
}

/// A step of that length was run. What is chosen next is asked of constraints anew, and a little of the time
/// of all is spent on their answers, so that a request with a grammar need not sit out every other step. It
/// is a share of what the step took, however many ask and however long they take.
void ServingLoop::begin_round(Clock::duration step) {
  ++round_;
  asked_now_ = 0;
  patience_ = std::max<Clock::duration>(step / kShareOfConstraints, kLeastPatience);
  patient_until_.reset();
}

/// Whether answers of this round are still waited for.
bool ServingLoop::is_patient() const {
  return asked_now_ > 0 && Clock::now() < *patient_until_;
}

/// Of those who have just started, what may come first.
void ServingLoop::ask_constraints() {
  std::vector<std::uint64_t> unasked;
  for (const auto& request : scheduler_.running_requests()) {
    if (request->awaits_constraint() && !request->is_asked) unasked.push_back(request->id);
  }
  for (const auto id : unasked) ask_constraint(*scheduler_.find(id), std::nullopt);
}

/// Here, if it is soon answered, or beside the steps. False if that has ended the request.
bool ServingLoop::ask_constraint(ServedRequest& request, std::optional<TokenId> chosen) {
  if (!request.task) {
    auto task = std::make_shared<ConstraintTask>();
    task->request = request.id;
    task->constraint = request.constraint;
    task->mask_words = settings_.mask_words;
    request.task.hold(std::move(task));
  }
  auto& task = *request.task;
  task.chosen = chosen;
  task.round = round_;
  request.is_asked = true;
  request.allowed_is_known = false;
  const auto begin = Clock::now();
  if (patience_ > Clock::duration::zero()) {
    try {
      QuickTurn turn(std::min<Clock::duration>(patience_, kQuickAnswer));
      task.work(turn);
      patience_ -= Clock::now() - begin;
      return take_answer(request);
    } catch (const TurnOver&) {
      patience_ -= Clock::now() - begin;
    }
  }
  if (!workers_.add(request.task.get())) {
    request.is_asked = false;
    end(request.id, RequestEnd::failed, "the system has no thread for a constraint");
    return false;
  }
  ++asked_now_;
  if (!patient_until_) patient_until_ = Clock::now() + patience_;
  return true;
}

/// False if that has ended the request.
bool ServingLoop::take_answer(ServedRequest& request) {
  auto& task = *request.task;
  request.is_asked = false;
  switch (task.answer) {
    case ConstraintTask::Answer::tokens:
      request.allowed_is_known = true;
      return true;
    case ConstraintTask::Answer::complete:
      request.sequence.finish(FinishReason::stop);
      end(request.id, RequestEnd::stop);
      break;
    case ConstraintTask::Answer::refused:
      request.is_refused = true;
      [[fallthrough]];
    case ConstraintTask::Answer::failed:
      end(request.id, RequestEnd::failed, std::move(task.error));
      break;
  }
  return false;
}

/// Nullopt if nothing was run: the step is to be formed anew.
std::optional<StepResult> ServingLoop::run_step() {
  try {
    assembly_.build(rows_, *executor_);
    const auto ticket = executor_->submit(assembly_.batch(), {.stop_ids = {}, .sink = &assembly_});
    return executor_->wait(ticket);
  } catch (const DeviceLost& error) {
    replace_executor(error.what());
  } catch (const UsageError&) {
    throw;  // a batch that breaks the rules is our own mistake
  } catch (const Error& error) {
    // Refused, and nothing changed: what the device lacks now it may have in a moment.
    if (++refusals_ >= kMostRefusals) {
      replace_executor(error.what());
    } else {
      log().warn("{}; trying again", error.what());
      std::this_thread::sleep_for(std::chrono::milliseconds(1U << refusals_));
    }
  }
  return std::nullopt;
}

void ServingLoop::take_result(const StepResult& result) {
  for (std::size_t row = 0; row < rows_.size(); ++row) take_row(row, result);
}

void ServingLoop::take_row(std::size_t row, const StepResult& result) {
  auto& request = *rows_[row].request;
  if (result.status[row] != RowStatus::ok) {
    if (leaves_nothing(request, settings_.vocab_size)) {
      request.is_refused = true;
      return end(request.id, RequestEnd::failed,
                 "logit_bias: every token is banned that could come next; expected one to be left");
    }
    return end(
        request.id, RequestEnd::failed,
        fmt::format("{} failed at position {}: {}", now_.backend, rows_[row].first + rows_[row].count - 1,
                    result.errors[row].empty() ? row_status_name(result.status[row]) : result.errors[row]));
  }
  const bool completes = rows_[row].completes();
  scheduler_.written(request, rows_[row].first + rows_[row].count);
  if (!completes) return;
  if (request.sequence.generated() == 0) take_prompt_end(request);
  const auto id = assembly_.chosen(row, result);
  if (id >= 0) return take_token(row, id);
  end(request.id, RequestEnd::length);
}

/// The prompt has been run.
void ServingLoop::take_prompt_end(ServedRequest& request) {
  request.usage.first_token_ms = milliseconds_since(request.submitted);
  now_.first_token_time.add(request.usage.first_token_ms / 1000.0);
  if (request.prompt_logprobs) {
    if (request.scored == 0)
      request.prompt_events.push_back({.id = request.sequence.tokens()[request.scored++]});
    request.channel->push_prompt(std::move(request.prompt_events));
  }
  if (!request.generates()) request.channel->push_embedding(embedding_of(request));
}

void ServingLoop::take_token(std::size_t row, TokenId id) {
  auto& request = *rows_[row].request;
  TokenEvent event{.id = id};
  assembly_.describe(row, event);
  event.text = request.sequence.accept(id);
  request.allowed_is_known = false;
  ++now_.generated_tokens;
  const auto now = Clock::now();
  if (request.sequence.generated() > 1) {
    now_.between_tokens_time.add(std::chrono::duration<double>(now - request.latest_token).count());
  }
  request.latest_token = now;
  if (const auto reason = request.sequence.finish_reason()) {
    return end(request.id, *reason == FinishReason::stop ? RequestEnd::stop : RequestEnd::length, {},
               std::move(event));
  }
  const auto held = request.channel->push(std::move(event));
  if (request.constraint && !ask_constraint(request, id)) return;
  if (held >= settings_.buffered_tokens && request.channel->begin_stall(settings_.buffered_tokens)) {
    request.stalled_since = Clock::now();
    scheduler_.stall(request.id);
  }
}

void ServingLoop::end(std::uint64_t id, RequestEnd reason, std::string error,
                      std::optional<TokenEvent> last) {
  const auto request = scheduler_.remove(id);
  if (!request) return;  // over already
  if (request->is_asked && request->task->round == round_ && asked_now_ > 0) --asked_now_;
  finish(*request, reason, std::move(error), std::move(last));
  const double seconds = milliseconds_since(request->submitted) / 1000.0;
  now_.total_time.add(seconds);
  now_.queue_time.add(request->started ? request->usage.queue_ms / 1000.0 : seconds);
}

void ServingLoop::finish(ServedRequest& request, RequestEnd reason, std::string error,
                         std::optional<TokenEvent> last) {
  RequestOutcome outcome;
  outcome.end = reason;
  outcome.error = std::move(error);
  outcome.refused = request.is_refused;
  outcome.text = request.sequence.flush();
  outcome.stop_id = request.sequence.stop_id();
  if (const auto* stop = request.sequence.stop_string()) outcome.stop_string = *stop;
  outcome.usage = request.usage;
  outcome.usage.prompt_tokens = request.sequence.prompt_size();
  outcome.usage.completion_tokens = request.sequence.generated();
  outcome.usage.total_ms = milliseconds_since(request.submitted);
  endings_.push_back({std::move(request.channel), std::move(outcome), std::move(last)});
  ++now_.ended[static_cast<std::size_t>(reason)];
}

/// Last of all, when rows, blocks and metrics no longer count them: who asks again at once, or asks for the
/// metrics, finds what is true without this request.
void ServingLoop::tell_ends() {
  for (auto& ending : endings_) ending.channel->finish(std::move(ending.outcome), std::move(ending.last));
  endings_.clear();
  inbox_.told();
}

void ServingLoop::end_all(RequestEnd reason, const std::string& error) {
  while (const auto* request = scheduler_.any()) end(request->id, reason, error);
}

void ServingLoop::replace_executor(const std::string& reason) {
  scheduler_.lose_cache();
  refusals_ = 0;
  steps_since_loss_ = 0;
  if (++losses_ > kMostLosses) {
    return break_down(fmt::format("{}; {} executors were lost shortly after each other", reason, losses_));
  }
  try {
    executor_.reset();  // what it holds of a device may be what the next one needs
    executor_ = settings_.failover();
    executor_->reserve(settings_.limits);
  } catch (const std::exception& error) {
    return break_down(fmt::format("{}; no other executor could take over: {}", reason, error.what()));
  }
  ++now_.failovers;
  now_.backend = executor_->capabilities().backend;
  now_.device = executor_->capabilities().device;
  log().warn("{}; going on with {} ({})", reason, now_.backend, now_.device);
}

void ServingLoop::break_down(const std::string& reason) {
  if (broken_.empty()) {
    broken_ = reason;
    log().error("{}; no more requests are accepted", reason);
  }
  inbox_.close(broken_);
  end_all(RequestEnd::failed, broken_);
}

void ServingLoop::publish() {
  const auto& counts = scheduler_.counts();
  now_.queued = scheduler_.queued();
  now_.paused = scheduler_.paused();
  now_.stalled = static_cast<std::uint32_t>(scheduler_.stalled().size());
  now_.running = scheduler_.running();
  if (now_.running == 0) now_.batch_rows = now_.batch_tokens = now_.decoding = 0;
  now_.blocks_free = scheduler_.blocks_free();
  now_.blocks_cached = scheduler_.blocks_cached();
  now_.blocks_in_use = now_.blocks_total - now_.blocks_free - now_.blocks_cached;
  now_.prompt_tokens = counts.prompt_tokens;
  now_.prefilled_tokens = counts.prefilled_tokens;
  now_.recomputed_tokens = counts.recomputed_tokens;
  now_.cached_prompt_tokens = counts.cached_prompt_tokens;
  now_.cache_hits = counts.cache_hits;
  now_.cache_misses = counts.cache_misses;
  now_.evictions = counts.evictions;
  now_.pauses = counts.pauses;
  now_.stalls = counts.stalls;
  if (now_.broken != broken_) now_.broken = broken_;
  const std::lock_guard lock(metrics_mutex_);
  published_ = now_;
}

}  // namespace inferno
