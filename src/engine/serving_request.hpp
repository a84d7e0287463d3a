#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <inferno/sampling.hpp>

#include "engine/token_constraint.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// What is made of a request's tokens.
enum class RequestKind : std::uint8_t {
  generate,         ///< text
  embed_mean,       ///< one vector: the mean of all tokens' hidden states after the final norm
  embed_last_token  ///< one vector: the last token's hidden state after the final norm
};

/// What is wanted from the serving engine. `n` choices of one prompt are n requests, submitted together.
struct ServingRequest {
  RequestKind kind = RequestKind::generate;

  /// The prompt: ids, or (if there are no ids) stretches of text that are put together and encoded by
  /// `submit`, in its caller's thread; their texts need to live until it returns. At least one token in the
  /// end, and fewer than the context has positions.
  std::vector<TokenId> prompt_ids = {};
  std::vector<TextSpan> prompt_spans = {};

  /// Most tokens to generate. None, or more than the context has room for: up to the context's end. 0: none;
  /// the prompt is still run if its log-probabilities are wanted.
  std::optional<std::uint32_t> max_tokens = std::nullopt;
  SamplingSettings sampling = {};      ///< the seed too: the same seed gives the same text, see `choice_seed`
  std::vector<std::string> stop = {};  ///< the text ends right before the first of these; none may be empty
  std::vector<TokenId> stop_ids = {};  ///< end the text like end tokens, also if those are ignored
  bool ignore_end_tokens = false;      ///< go on after the model's end tokens
  std::shared_ptr<TokenConstraint> constraint = nullptr;  ///< nullptr: every token may come

  /// Log-probabilities of generated tokens: nullopt: none; k: the chosen token's and those of the k most
  /// likely. They are natural logarithms under the whole distribution of the model, before bias, penalties,
  /// temperature, filters and constraint.
  std::optional<std::uint32_t> logprobs = std::nullopt;
  /// The same for the prompt's tokens. Such a request takes nothing from the prefix cache: what is cached has
  /// no logits.
  std::optional<std::uint32_t> prompt_logprobs = std::nullopt;

  std::int32_t priority = 0;  ///< higher goes first and is paused last; equal ones in order of arrival
  /// Prompts share cached prefixes only with requests of the same namespace, so that nobody learns from a
  /// response time what others asked.
  std::string cache_namespace = {};
  bool use_prefix_cache = true;  ///< false: neither takes from the cache nor leaves anything in it
  bool normalize = true;         ///< embeddings: scaled to length 1

  /// Called when something is there for a consumer that had taken everything before (from the worker thread,
  /// with no lock held). Must not block, throw, or call the engine; post to an event loop. May be empty: use
  /// `wait`. A call may still be on its way when the stream is destroyed: let it own what it uses.
  std::function<void()> notify = {};
};

/// The most log-probabilities that may be asked for beside the chosen token's.
inline constexpr std::uint32_t kMaxTopLogprobs = 20;

/// The seed of choice `index` of a request with n choices: the seed itself for choice 0.
std::uint64_t choice_seed(std::uint64_t seed, std::uint32_t index);

struct TokenLogprob {
  TokenId id = -1;
  float logprob = 0;
};

/// One token and what is known of it.
struct TokenEvent {
  TokenId id = -1;  ///< the chosen one; an end token or the one that completed a stop string too
  /// What became certain of the text: whole characters, never part of a stop string. Empty while a character
  /// or a possible stop string is incomplete. A prompt's tokens have none.
  std::string text = {};
  float logprob = 0;                   ///< if log-probabilities are wanted; of a prompt's first token: 0
  std::vector<TokenLogprob> top = {};  ///< as many as were wanted, most likely first, ties by lower id
};

/// Why a request is over.
enum class RequestEnd : std::uint8_t {
  stop,       ///< an end token, a stop id, a stop string, or the constraint is complete
  length,     ///< max_tokens, or the context is full
  cancelled,  ///< its consumer asked for it
  stalled,    ///< its consumer took nothing for too long
  shutdown,   ///< the engine was stopped
  failed,     ///< see `error`
};

/// "stop", "length", "cancelled", ...
std::string_view request_end_name(RequestEnd end);

/// Counts of one request.
struct RequestUsage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;      ///< of the prompt, taken from the prefix cache when it was first run;
                                        ///< always fewer than prompt_tokens
  std::uint32_t completion_tokens = 0;  ///< generated, with the end token if one was chosen
  std::uint32_t pauses = 0;   ///< how often it lost its place because the cache was full or its consumer
                              ///< slow
  double queue_ms = 0;        ///< from submission to the first step it took part in
  double first_token_ms = 0;  ///< from submission to the first token (embedding); 0 if there was none
  double total_ms = 0;        ///< from submission to the end
};

/// How a request ended.
struct RequestOutcome {
  RequestEnd end = RequestEnd::length;
  std::string text = {};  ///< held back until now (half a character becomes U+FFFD); belongs after all events
  std::optional<TokenId> stop_id = std::nullopt;          ///< the end token or stop id that ended it
  std::optional<std::string> stop_string = std::nullopt;  ///< the stop string that ended it
  std::string error = {};                                 ///< one line, if it failed
  bool refused = false;  ///< it failed by its own fault: its constraint is more work than is done for one
  RequestUsage usage = {};
};

/// What a consumer takes at once.
struct StreamUpdate {
  std::vector<TokenEvent>
      prompt;  ///< prompt_logprobs: the prompt's tokens, all at once, before the first token
  std::vector<TokenEvent> tokens;         ///< generated, in order
  std::vector<float> embedding;           ///< [D], once, before the outcome
  std::optional<RequestOutcome> outcome;  ///< the last thing that comes
};

}  // namespace inferno
