#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/constraint_task.hpp"
#include "engine/request_channel.hpp"
#include "engine/sequence.hpp"
#include "engine/serving_request.hpp"
#include "kv/prefix_tree.hpp"
#include "kv/sequence_cache.hpp"

namespace inferno {

/// A request as the worker knows it: what is wanted, how far it is, and what it holds.
struct ServedRequest {
  using Clock = std::chrono::steady_clock;

  ServedRequest(RequestKind the_kind, Sequence the_sequence)
      : kind(the_kind), sequence(std::move(the_sequence)) {}

  // What is wanted.
  std::uint64_t id = 0;  ///< in order of arrival
  RequestKind kind;
  std::int32_t priority = 0;
  Sequence sequence;
  std::shared_ptr<TokenConstraint> constraint;
  std::optional<std::uint32_t> logprobs, prompt_logprobs;
  std::string cache_namespace;
  bool use_prefix_cache = true;
  bool normalize = true;
  std::shared_ptr<RequestChannel> channel;
  Clock::time_point submitted;

  // What it holds of the cache, while it runs.
  std::optional<SequenceCache> cache;
  PrefixTree::Namespace space = PrefixTree::kNone;
  std::uint32_t shared = 0;    ///< of its blocks, those that are the tree's (and pinned), from the beginning
  std::uint32_t promised = 0;  ///< of its blocks, those that are shared or were promised
  /// The promise that it waits for, if it waits for one: a node and the promise's number.
  std::uint32_t awaited = PrefixTree::kNone;
  std::uint64_t awaited_promise = 0;

  // Its sampling slot, while it runs and needs one.
  std::uint32_t slot = kGreedySlot;
  bool slot_is_set = false;

  // What the constraint says of the next token.
  ConstraintTaskHolder task;  ///< its `allowed` are meant for the next token once they are known
  bool is_asked = false;
  bool is_refused = false;
  bool allowed_is_known = false;

  // How far it is.
  bool started = false;
  std::uint32_t lookahead = 0;       ///< see ServingOptions
  std::uint32_t known_at_pause = 0;  ///< tokens that had been computed once
  Clock::time_point stalled_since;
  Clock::time_point latest_token;         ///< when it came
  std::vector<TokenEvent> prompt_events;  ///< of the prompt's tokens, until they are handed over
  std::uint32_t scored = 0;               ///< tokens of the prompt that have theirs, from the first
  std::vector<double> pooled;  ///< [D] sum of the hidden states of the first `pooled_tokens` tokens
  std::uint32_t pooled_tokens = 0;
  RequestUsage usage;

  bool generates() const { return kind == RequestKind::generate; }
  bool needs_slot() const { return constraint != nullptr || sequence.needs_slot(); }
  /// Its next token cannot be chosen yet.
  bool awaits_constraint() const { return constraint != nullptr && !allowed_is_known; }
  /// Its tokens before this one need no choice: they are run as a prompt is, also if it is one at a time.
  std::uint32_t known() const { return std::max(sequence.prompt_size(), known_at_pause); }
  std::uint32_t written() const { return cache ? cache->length() : 0; }
  /// Whether all its tokens but the latest are in the cache.
  bool decodes() const { return written() + 1 == sequence.size(); }
  /// How many of its tokens can be run now: what makes the next one be chosen waits for the constraint.
  std::uint32_t runnable() const { return sequence.size() - written() - (awaits_constraint() ? 1 : 0); }
  /// The first position whose output is still wanted: what lies before it may come from the prefix cache.
  std::uint32_t wanted_from() const {
    if (kind == RequestKind::embed_mean) return pooled_tokens;
    if (!prompt_logprobs || scored >= sequence.prompt_size()) return sequence.size() - 1;
    return scored == 0 ? 0 : scored - 1;
  }
};

}  // namespace inferno
