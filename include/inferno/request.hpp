#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/sampling.hpp>

namespace inferno {

/// What to generate.
struct Request {
  std::string prompt = {};                    ///< raw text; control tokens in it are recognized
  std::vector<std::int32_t> prompt_ids = {};  ///< taken instead of `prompt` if not empty
  std::uint32_t max_tokens = 128;  ///< ends earlier at an end token, a stop string or the context's end
  SamplingSettings sampling = {};
  std::vector<std::string> stop = {};  ///< the text ends right before the first of these
  bool ignore_end_tokens = false;      ///< go on after end tokens
  bool hash_logits = false;            ///< read logits back and hash them (Generation::logits_hash)
};

enum class FinishReason : std::uint8_t {
  stop,       ///< an end token or a stop string
  length,     ///< max_tokens, or the context is full
  cancelled,  ///< the callback or another thread asked for it
};

/// "stop", "length", "cancelled".
std::string_view finish_reason_name(FinishReason reason);

/// Times of one generation. A *forward* is one submission to the backend: a chunk of the prompt, or one or
/// more chained decode steps.
struct GenerationTimes {
  double time_to_first_token_ms = 0;  ///< from the prompt's ids, with room for them, to the first token's id
  double decode_tokens_per_second =
      0;  ///< tokens after the first, over the time after the first; 0 if there is none
  double forward_min_ms = 0;
  double forward_max_ms = 0;
  double forward_mean_ms = 0;
  std::uint32_t forwards = 0;
};

/// What came of a request.
struct Generation {
  std::string text;               ///< valid UTF-8, without end tokens and stop strings
  std::vector<std::int32_t> ids;  ///< generated, with the end token if one was chosen
  std::vector<std::int32_t> prompt_ids;
  FinishReason finish_reason = FinishReason::length;
  GenerationTimes times;
  std::uint32_t steps = 0;  ///< model steps that decoded (without those of the prompt)
  /// XXH3-64, in 16 hex digits, over the little-endian float32 logits of every generated position in order;
  /// empty unless asked for.
  std::string logits_hash;
  /// The backend that it began on, if that lost its device on the way and another went on; else empty.
  std::string moved_from;
};

/// Takes text as it becomes certain: always whole characters, never part of a stop string. Returns false to
/// cancel.
using TextCallback = std::function<bool(std::string_view)>;

}  // namespace inferno
