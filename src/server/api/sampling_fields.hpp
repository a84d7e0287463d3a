#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <inferno/sampling.hpp>

#include "server/api/request_limits.hpp"
#include "server/api/sse.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// Stop strings are looked for at every token, in every other request's way.
inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 256;

/// Whose request it is, and how it stands to others.
struct Scheduling {
  std::int32_t priority = 0;
  std::string cache_namespace;
};
/// `user`, `priority`, `cache_salt`. Throws ApiError naming the field.
Scheduling parse_scheduling(const Fields& fields, const RequestLimits& limits);

/// What chat and completions share: how tokens are chosen and where they end.
struct GenerationFields {
  SamplingSettings sampling;
  std::optional<std::uint32_t> max_tokens;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_ids;
  bool ignore_end_tokens = false;
  std::uint32_t n = 1;
  bool stream = false;
  StreamUsage usage = StreamUsage::never;
  Scheduling scheduling;
};

/// Throws ApiError naming the field. Without a seed one is drawn.
GenerationFields parse_generation_fields(const Fields& fields, const RequestLimits& limits);

/// An id of the vocabulary. Throws ApiError.
TokenId parse_token_id(const Json& value, const std::string& path, std::uint32_t vocab_size);
/// A list of them, possibly empty.
std::vector<TokenId> parse_token_ids(const Json::Array& values, const std::string& path,
                                     std::uint32_t vocab_size);

}  // namespace inferno::api
