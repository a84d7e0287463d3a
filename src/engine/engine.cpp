#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <utility>

#include <inferno/engine.hpp>

#include "backend/registry.hpp"
#include "engine/generation_loop.hpp"
#include "engine/model_parts.hpp"
#include "engine/prompt.hpp"
#include "model/training_length.hpp"
#include "platform/log.hpp"
#include "step/plan.hpp"

namespace inferno {
namespace {

/// Cache blocks hold this many positions: the split length of attention, so a block is never cut by a split.
constexpr std::uint32_t kBlockSize = kSplitPositions;

/// So that positions rounded up to whole blocks can still be counted.
constexpr std::uint32_t kMaxContext = std::uint32_t{1} << 31U;

std::uint32_t blocks_for(std::uint32_t positions) {
  return (positions + kBlockSize - 1) / kBlockSize;
}

void check_options(const EngineOptions& options, KvKind kv_kind) {
  if (options.context > kMaxContext) {
    throw UsageError(fmt::format("a context of {} positions was asked for; expected at most {}",
                                 options.context, kMaxContext));
  }
  if (options.steps_per_submit == 0) throw UsageError("steps per submission is 0; expected at least 1");
  if (options.prefill_chunk == 0) throw UsageError("the prefill chunk is 0; expected at least 1 token");
  if (kv_kind == KvKind::none && options.steps_per_submit > 1) {
    throw UsageError(fmt::format("{} steps per submission need a cache; use --kv basic or --kv paged",
                                 options.steps_per_submit));
  }
}

}  // namespace

struct Engine::State {
  Model model;
  EngineOptions options;
  KvKind kv_kind;
  BackendChoice choice;
  std::unique_ptr<Executor> executor;  // none after a failure that left none; the next request makes one
  Capabilities capabilities;           // the latest executor's
  std::uint32_t reserved_context = 0;
  std::atomic<bool> cancelled = false;
  GenerationObserver* observer = nullptr;

  State(Model the_model, EngineOptions the_options)
      : model(std::move(the_model)),
        options(std::move(the_options)),
        kv_kind(parse_kv_kind(options.kv)),
        choice(choice_of(options.backend, options.device)) {
    check_options(options, kv_kind);
    warn_beyond_training(model.parts().loaded.config, options.context);
    executor = choice.next();
    look_at_executor();
    if (!choice.may_go_on()) choice.settle();
  }

  BackendChoice choice_of(std::string_view backend, std::optional<std::uint32_t> device) const {
    return {backend, model.parts().loaded, {.device = device, .threads = options.threads}};
  }

  void look_at_executor() {
    capabilities = executor->capabilities();
    if (options.steps_per_submit > 1 && !capabilities.multi_step) {
      throw Error(
          fmt::format("backend {} does not chain steps; use --steps-per-submit 1", capabilities.backend));
    }
  }

  std::uint32_t context_limit() const {
    return options.context != 0 ? options.context : model.parts().loaded.config.context_length;
  }

  /// Reserving is lazy so that a short request with a long-context model does not take memory for the whole
  /// context. A backend that has no room is replaced for good, if the user left the choice to inferno.
  void reserve(std::uint32_t positions) {
    if (executor == nullptr) {
      choice = choice_of(options.backend, options.device);
      reserved_context = 0;
      executor = choice.next();
      look_at_executor();
    }
    if (positions <= reserved_context) return;
    const auto blocks = blocks_for(positions);
    Limits limits;
    limits.max_rows = 1;
    limits.max_tokens = std::min(options.prefill_chunk, blocks * kBlockSize);
    limits.max_outputs = 2;
    limits.max_steps = options.steps_per_submit;
    limits.max_context = blocks * kBlockSize;
    limits.block_size = kBlockSize;
    limits.blocks = blocks;
    limits.slots = 1;
    reserved_context = 0;
    use_or_replace(choice, executor, [&limits](Executor& candidate) { candidate.reserve(limits); });
    look_at_executor();
    reserved_context = limits.max_context;
  }

  /// The device is gone: this engine goes on with the CPU, for good. Throws `lost` if it was the CPU.
  void move_to_cpu(const DeviceLost& lost) {
    constexpr const char* kSuccessor = "pool";
    if (capabilities.backend == kSuccessor) throw lost;
    log().warn("{}; going on with {}, computing the sequence again", lost.what(), kSuccessor);
    // The memory of the lost one may be needed; it outlives the message that it wrote.
    executor.reset();
    choice = choice_of(kSuccessor, std::nullopt);
    executor = choice.next();
    look_at_executor();
    reserve(std::exchange(reserved_context, 0));
  }
};

Engine::Engine(Model model, EngineOptions options)
    : state_(std::make_unique<State>(std::move(model), std::move(options))) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Generation Engine::generate(const Request& request, const TextCallback& on_text) {
  auto& state = *state_;
  state.cancelled = false;
  check_settings(request.sampling, state.model.vocab_size());

  const TextSpan text{.text = request.prompt, .trusted = true};
  auto prompt =
      make_prompt(state.model.parts().tokenizer, state.model.vocab_size(), request.prompt_ids, {&text, 1});

  const auto limit = state.context_limit();
  if (prompt.size() >= limit) {
    throw UsageError(
        fmt::format("the prompt has {} tokens, the context holds {} and needs room for one more; shorten the "
                    "prompt{}",
                    prompt.size(), limit,
                    limit < state.model.context_length()
                        ? " or raise --ctx"
                        : "; --ctx can give more than the model was trained on, where text may fall apart"));
  }
  const auto room = limit - static_cast<std::uint32_t>(prompt.size());
  const auto needed = static_cast<std::uint32_t>(prompt.size()) + std::min(request.max_tokens, room);
  state.reserve(needed);
  const auto successor = [&state](const DeviceLost& lost) -> Executor& {
    state.move_to_cpu(lost);
    return *state.executor;
  };
  const GenerationContext context{state.model.parts(), *state.executor, state.options, state.kv_kind,
                                  state.cancelled,     state.observer,  successor};
  return GenerationLoop(context, request, prompt, needed, on_text).run();
}

void Engine::cancel() noexcept {
  state_->cancelled = true;
}
const Model& Engine::model() const {
  return state_->model;
}
const EngineOptions& Engine::options() const {
  return state_->options;
}
const std::string& Engine::backend() const {
  return state_->capabilities.backend;
}
const std::string& Engine::device() const {
  return state_->capabilities.device;
}
void Engine::observe(GenerationObserver* observer) {
  state_->observer = observer;
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace inferno
