#include "engine/serving_engine.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "backend/registry.hpp"
#include "engine/inbox.hpp"
#include "engine/model_parts.hpp"
#include "engine/prompt.hpp"
#include "engine/request_channel.hpp"
#include "engine/serving_loop.hpp"
#include "model/training_length.hpp"
#include "platform/cpu_budget.hpp"
#include "platform/log.hpp"
#include "sampling/philox.hpp"
#include "step/plan.hpp"

namespace inferno {
namespace {

void at_least(std::string_view name, std::uint64_t value, std::uint64_t least) {
  if (value < least) throw UsageError(fmt::format("{}: expected at least {}, found {}", name, least, value));
}

void check_options(const ServingOptions& options) {
  at_least("max_rows", options.max_rows, 1);
  at_least("step_tokens", options.step_tokens, options.max_rows);
  at_least("buffered_tokens", options.buffered_tokens, 1);
  if (!(options.step_stretch == 0 || options.step_stretch >= 1)) {
    throw UsageError(fmt::format("step_stretch: expected 0 or at least 1, found {}", options.step_stretch));
  }
  if (options.block_size == 0 || kSplitPositions % options.block_size != 0) {
    throw UsageError(
        fmt::format("block_size: expected a divisor of {}, found {}", kSplitPositions, options.block_size));
  }
}

std::uint64_t blocks_for(std::uint64_t positions, std::uint32_t block_size) {
  return (positions + block_size - 1) / block_size;
}

/// What an executor is to be ready for. The size of the cache is what was asked for, or else as large as is
/// good and as there is room for; `shrunk` says why it is smaller than that, or than the context needs.
Limits limits_for(const ServingOptions& options, bool whole_context, const Executor& executor,
                  std::string& shrunk) {
  shrunk.clear();
  Limits limits;
  limits.max_rows = options.max_rows;
  limits.max_tokens = options.step_tokens;
  limits.max_outputs = options.step_tokens + 2 * options.max_rows;
  limits.max_steps = 1;
  limits.populate = true;
  limits.block_size = options.block_size;
  limits.slots = executor.capabilities().sampling_slots ? options.max_rows : 0;
  limits.max_context = options.context;
  limits.blocks = options.kv_blocks;
  if (limits.blocks == 0) {
    limits.blocks = 1;
    const auto block_bytes = std::max<std::uint64_t>(executor.memory_need(limits).cache_bytes, 1);
    const auto context_blocks = blocks_for(options.context, options.block_size);
    const auto wanted = std::min<std::uint64_t>(
        std::max(std::min(context_blocks * options.max_rows, options.kv_bytes / block_bytes), context_blocks),
        kGreedySlot - 1);
    const BlockRoom room = executor.block_room(limits);
    // A context that was asked for is had, or refused.
    const auto blocks = std::max(std::min(wanted, room.blocks), whole_context ? context_blocks : 1);
    limits.blocks = static_cast<std::uint32_t>(blocks);
    if (blocks < wanted) {
      shrunk = fmt::format("the cache has {} blocks of {} positions instead of {}: {}", blocks,
                           options.block_size, wanted, room.bound);
      if (blocks < context_blocks) {
        shrunk += fmt::format("; a request has at most {} positions", blocks * options.block_size);
      }
    }
  }
  limits.max_context = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(options.context, std::uint64_t{limits.blocks} * options.block_size));
  if (options.kv_blocks != 0 && limits.max_context < options.context) {
    shrunk =
        fmt::format("a request has at most {} positions, not {}: for those the cache needs {} blocks of {}",
                    limits.max_context, options.context, blocks_for(options.context, options.block_size),
                    options.block_size);
  }
  return limits;
}

}  // namespace

struct ServingEngine::State {
  Model model;
  ServingOptions options;
  Capabilities capabilities;
  Limits limits;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<ServingLoop> loop;
  std::mutex stop_mutex;
  std::thread worker;

  State(Model the_model, std::unique_ptr<Executor> executor, ServingOptions the_options)
      : model(std::move(the_model)), options(std::move(the_options)) {
    check_options(options);
    const auto& loaded = model.parts().loaded;
    const bool whole_context = options.context != 0;
    if (options.context == 0) options.context = loaded.config.context_length;
    warn_beyond_training(loaded.config, options.context);
    std::string shrunk;
    const auto reserve = [&](Executor& candidate) {
      limits = limits_for(options, whole_context, candidate, shrunk);
      candidate.reserve(limits);
    };
    if (executor) {
      reserve(*executor);
    } else {
      BackendChoice choice(options.backend, loaded, {.device = options.device, .threads = options.threads});
      executor = choice.next();
      use_or_replace(choice, executor, reserve);
    }
    if (!shrunk.empty()) log().warn("{}", shrunk);
    capabilities = executor->capabilities();
    options.kv_blocks = limits.blocks;
    if (!options.failover) {
      // The same arithmetic, so that nobody notices.
      const std::string name = capabilities.contract ? "pool" : capabilities.backend;
      options.failover = [this, name] {
        return create_executor(name, model.parts().loaded, {.threads = options.threads});
      };
    }

    ServingLoopSettings settings;
    settings.scheduler = {.max_rows = options.max_rows,
                          .step_tokens = options.step_tokens,
                          .step_stretch = options.step_stretch,
                          .block_size = options.block_size,
                          .blocks = limits.blocks,
                          .lookahead = options.lookahead,
                          .prefix_cache = options.prefix_cache,
                          .hash_seed = std::random_device()()};
    settings.limits = limits;
    settings.vocab_size = model.vocab_size();
    settings.mask_words = (std::size_t{settings.vocab_size} + 31) / 32;
    // Few: what they take is taken from the steps where the processors are the device.
    settings.masks_at_once = std::clamp(cpu_budget().threads / 4, 1U, 8U);
    settings.buffered_tokens = options.buffered_tokens;
    settings.stall_timeout = options.stall_timeout;
    settings.failover = options.failover;
    inbox = std::make_shared<Inbox>(options.max_queue, options.max_rows);
    loop = std::make_unique<ServingLoop>(std::move(executor), settings, *inbox);
    worker = std::thread([this] { loop->run(); });
  }

  void check_capabilities(const ServingRequest& request) const {
    const auto need = [&](bool wanted, bool can, std::string_view what) {
      if (wanted && !can) throw Error(fmt::format("backend {} cannot give {}", capabilities.backend, what));
    };
    need(request.logprobs || request.prompt_logprobs, capabilities.logits, "log-probabilities");
    need(request.kind != RequestKind::generate, capabilities.hidden, "embeddings");
    need(request.constraint != nullptr, capabilities.token_masks, "constrained output");
  }

  void check_request(const ServingRequest& request) const {
    check_settings(request.sampling, model.vocab_size());
    for (const auto& wanted : {request.logprobs, request.prompt_logprobs}) {
      if (!wanted || *wanted <= kMaxTopLogprobs) continue;
      throw UsageError(fmt::format("log-probabilities: expected at most the {} most likely, found {}",
                                   kMaxTopLogprobs, *wanted));
    }
    for (const auto id : request.stop_ids) {
      if (id >= 0 && static_cast<std::uint32_t>(id) < model.vocab_size()) continue;
      throw UsageError(
          fmt::format("stop id {} is outside the vocabulary of {} tokens", id, model.vocab_size()));
    }
    check_capabilities(request);
  }

  std::unique_ptr<ServedRequest> make(ServingRequest& request) const {
    check_request(request);
    const bool generates = request.kind == RequestKind::generate;
    auto prompt = make_prompt(model.parts().tokenizer, model.vocab_size(), std::move(request.prompt_ids),
                              request.prompt_spans);
    const std::uint64_t limit = limits.max_context;
    const bool needs_room = generates && request.max_tokens != 0U;
    if (prompt.size() > limit || (needs_room && prompt.size() == limit)) {
      throw ContextExceeded(fmt::format("the prompt has {} tokens; {} is the limit{}{}", prompt.size(), limit,
                                        generates ? " of prompt and completion together" : "",
                                        limit < options.context ? ", for that is all the cache holds" : ""),
                            prompt.size(), limit);
    }
    const auto room = static_cast<std::uint32_t>(limit - prompt.size());
    SequenceEnding ending;
    ending.max_tokens = generates ? std::min(request.max_tokens.value_or(room), room) : 0;
    ending.stop = std::move(request.stop);
    ending.stop_ids = std::move(request.stop_ids);
    ending.ignore_end_tokens = request.ignore_end_tokens;
    auto served = std::make_unique<ServedRequest>(
        request.kind,
        Sequence(model.parts().tokenizer, std::move(prompt), std::move(request.sampling), std::move(ending)));
    served->priority = request.priority;
    served->constraint = std::move(request.constraint);
    served->logprobs = generates ? request.logprobs : std::nullopt;
    served->prompt_logprobs = generates ? request.prompt_logprobs : std::nullopt;
    served->cache_namespace = std::move(request.cache_namespace);
    served->use_prefix_cache = request.use_prefix_cache;
    served->normalize = request.normalize;
    served->channel =
        std::make_shared<RequestChannel>(inbox, std::move(request.notify), served->sequence.prompt_size());
    served->submitted = ServedRequest::Clock::now();
    if (served->needs_slot() && !capabilities.sampling_slots) {
      throw Error(fmt::format("backend {} has no sampling; ask for greedy choice", capabilities.backend));
    }
    return served;
  }
};

ServingEngine::ServingEngine(Model model, ServingOptions options)
    : ServingEngine(std::move(model), nullptr, std::move(options)) {}
ServingEngine::ServingEngine(Model model, std::unique_ptr<Executor> executor, ServingOptions options)
    : state_(std::make_unique<State>(std::move(model), std::move(executor), std::move(options))) {}

ServingEngine::~ServingEngine() {
  stop();
}

RequestStream ServingEngine::submit(ServingRequest request) {
  std::vector<ServingRequest> requests;
  requests.push_back(std::move(request));
  return std::move(submit(std::move(requests)).front());
}

std::vector<RequestStream> ServingEngine::submit(std::vector<ServingRequest> requests) {
  std::vector<std::unique_ptr<ServedRequest>> served;
  std::vector<std::shared_ptr<RequestChannel>> channels;
  for (auto& request : requests) {
    served.push_back(state_->make(request));
    channels.push_back(served.back()->channel);
  }
  state_->inbox->submit(std::move(served));
  std::vector<RequestStream> streams;
  streams.reserve(channels.size());
  for (auto& channel : channels) streams.emplace_back(std::move(channel));
  return streams;
}

std::vector<TokenId> ServingEngine::prompt_of(const ServingRequest& request) const {
  return make_prompt(state_->model.parts().tokenizer, state_->model.vocab_size(), request.prompt_ids,
                     request.prompt_spans);
}

ServingMetrics ServingEngine::metrics() const {
  auto metrics = state_->loop->metrics();
  metrics.max_queue = state_->options.max_queue;
  metrics.queued += state_->inbox->unseen();
  metrics.submitted = state_->inbox->submitted();
  metrics.refused = state_->inbox->refused();
  return metrics;
}

const Model& ServingEngine::model() const {
  return state_->model;
}
const ServingOptions& ServingEngine::options() const {
  return state_->options;
}

bool ServingEngine::drain(std::chrono::milliseconds timeout) {
  state_->inbox->close("the server is shutting down");
  return state_->inbox->wait_until_idle(timeout);
}

void ServingEngine::stop() {
  state_->inbox->close("the server is shutting down");
  state_->inbox->stop();
  const std::lock_guard lock(state_->stop_mutex);
  if (state_->worker.joinable()) state_->worker.join();
}

std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t index) {
  if (index == 0) return seed;
  const auto words = sampling::philox({index, 0, 0, 1}, static_cast<std::uint32_t>(seed),
                                      static_cast<std::uint32_t>(seed >> 32));
  return std::uint64_t{words.b} << 32 | words.a;
}

std::string_view request_end_name(RequestEnd end) {
  switch (end) {
    case RequestEnd::stop:
      return "stop";
    case RequestEnd::length:
      return "length";
    case RequestEnd::cancelled:
      return "cancelled";
    case RequestEnd::stalled:
      return "stalled";
    case RequestEnd::shutdown:
      return "shutdown";
    case RequestEnd::failed:
      return "failed";
  }
  return "unknown";
}

}  // namespace inferno
