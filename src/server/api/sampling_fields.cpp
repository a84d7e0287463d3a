#include "server/api/sampling_fields.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "platform/quote.hpp"
#include "server/api/error.hpp"
#include "server/api/foreign_fields.hpp"
#include "server/api/random_ids.hpp"

namespace inferno::api {
namespace {

constexpr float kMaxPenalty = 2.0F;
constexpr float kMaxBias = 100.0F;
constexpr std::int64_t kMaxPriority = 100;

std::uint64_t parse_seed(const Fields& fields) {
  const auto* value = fields.find("seed");
  if (value == nullptr) return random_number();
  if (const auto* beyond = value->unsigned_integer()) return *beyond;
  const auto* number = value->real();
  if (value->big_integer() != nullptr || (number != nullptr && std::abs(*number) >= 0x1p63)) {
    refuse(fields.path_of("seed"),
           fmt::format("expected an integer of 64 bits, found {}", number_text(*value)), "out_of_range");
  }
  // -1 is how clients of other servers ask for any.
  const auto seed = fields.integer("seed");
  return *seed == -1 ? random_number() : static_cast<std::uint64_t>(*seed);
}

std::pair<std::int32_t, float> parse_bias(const Json::Member& member, const Fields& fields,
                                          std::uint32_t vocab_size) {
  const auto& [key, value] = member;
  const auto& path = fields.path_of("logit_bias");
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  // Only the usual spelling, so that no id comes twice.
  const bool is_id = error == std::errc() && end == key.data() + key.size() && std::to_string(id) == key;
  if (!is_id || id < 0 || static_cast<std::uint32_t>(id) >= vocab_size) {
    refuse(path,
           fmt::format("expected token ids from 0 to {} as keys, found {}", vocab_size - 1, quote(key, 40)),
           "out_of_range");
  }
  const auto own_path = fmt::format("{}.{}", path, id);
  const auto bias = real(value);
  if (!bias) wrong_type(own_path, "a number", value);
  if (!(*bias >= -static_cast<double>(kMaxBias) && *bias <= static_cast<double>(kMaxBias))) {
    refuse(own_path, fmt::format("expected a number from -100 to 100, found {}", number_text(value)),
           "out_of_range");
  }
  return {id, static_cast<float>(*bias)};
}

void parse_logit_bias(const Fields& fields, std::uint32_t vocab_size, SamplingSettings& sampling) {
  const auto biases = fields.object("logit_bias");
  if (!biases) return;
  sampling.logit_bias.clear();
  sampling.logit_bias.reserve(biases->members().members().size());
  for (const auto& member : biases->members().members()) {
    sampling.logit_bias.push_back(parse_bias(member, fields, vocab_size));
  }
  const auto banned = std::count_if(sampling.logit_bias.begin(), sampling.logit_bias.end(),
                                    [](const auto& bias) { return bias.second <= -kMaxBias; });
  if (std::cmp_equal(banned, vocab_size)) {
    refuse(fields.path_of("logit_bias"),
           fmt::format("all {} tokens are banned by -100; expected at least one that may come", vocab_size),
           "invalid_value");
  }
}

void parse_sampling(const Fields& fields, const RequestLimits& limits, SamplingSettings& sampling) {
  sampling = limits.sampling;
  sampling.temperature = fields.number("temperature", 0.0F).value_or(sampling.temperature);
  sampling.top_p = fields.number("top_p", 0.0F, 1.0F).value_or(sampling.top_p);
  sampling.min_p = fields.number("min_p", 0.0F, 1.0F).value_or(sampling.min_p);
  if (const auto top_k = fields.integer("top_k", -1)) {
    constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
    sampling.top_k = static_cast<std::int32_t>(std::clamp<std::int64_t>(*top_k, 0, kLargest));  // -1: off
  }
  const auto penalty = [&](std::string_view name, float otherwise) {
    return fields.number(name, -kMaxPenalty, kMaxPenalty).value_or(otherwise);
  };
  sampling.presence_penalty = penalty("presence_penalty", sampling.presence_penalty);
  sampling.frequency_penalty = penalty("frequency_penalty", sampling.frequency_penalty);
  for (const auto* name : {"repeat_penalty", "repetition_penalty"}) {
    const auto value = fields.number(name);
    if (!value) continue;
    if (!(*value > 0.0F && std::isfinite(1.0F / *value))) {
      refuse(fields.path_of(name),
             fmt::format("expected a number above 0 whose reciprocal is finite, found {}", *value),
             "out_of_range");
    }
    sampling.repetition_penalty = *value;
  }
  parse_logit_bias(fields, limits.vocab_size, sampling);
  sampling.seed = parse_seed(fields);
}

std::optional<std::uint32_t> parse_max_tokens(const Fields& fields) {
  const auto most = fields.integer("max_tokens", 0);
  const auto most_completion = fields.integer("max_completion_tokens", 0);
  const auto counts = most_completion ? most_completion : most;
  if (!counts) return std::nullopt;
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(*counts, std::numeric_limits<std::uint32_t>::max()));
}

std::string parse_stop_string(const Json& value, const std::string& path) {
  if (value.string() == nullptr) wrong_type(path, "a string", value);
  const auto& text = *value.string();
  if (text.empty()) refuse(path, "the string is empty; expected at least one character", "out_of_range");
  if (text.size() > kMaxStopBytes) {
    refuse(path, fmt::format("expected at most {} bytes, found {}", kMaxStopBytes, text.size()),
           "out_of_range");
  }
  return text;
}

std::vector<std::string> parse_stop(const Fields& fields) {
  const auto* value = fields.find("stop");
  if (value == nullptr) return {};
  const auto path = fields.path_of("stop");
  if (value->string() != nullptr) return {parse_stop_string(*value, path)};
  if (value->array() == nullptr) wrong_type(path, "a string or an array of strings", *value);
  const auto& values = *value->array();
  if (values.size() > kMaxStops) {
    refuse(path, fmt::format("expected at most {} strings, found {}", kMaxStops, values.size()),
           "out_of_range");
  }
  std::vector<std::string> stops;
  for (const auto& one : values) stops.push_back(parse_stop_string(one, element_path(path, stops.size())));
  return stops;
}

void parse_stream(const Fields& fields, GenerationFields& result) {
  result.stream = fields.boolean("stream").value_or(false);
  const auto options = fields.object("stream_options");
  if (!options) return;
  if (!result.stream) refuse(fields.path_of("stream_options"), "is of use only with \"stream\": true");
  const bool included = options->boolean("include_usage").value_or(false);
  const bool continuous = options->boolean("continuous_usage_stats").value_or(false);
  if (included) result.usage = continuous ? StreamUsage::always : StreamUsage::at_end;
}

}  // namespace

void check_model(const Fields& fields, const RequestLimits& limits) {
  const auto name = fields.string("model");
  if (!name || std::find(limits.models.begin(), limits.models.end(), *name) != limits.models.end()) return;
  throw unknown_model(*name, limits);
}

ApiError unknown_model(const std::string& name, const RequestLimits& limits) {
  std::string known;
  for (const auto& model : limits.models) known += (known.empty() ? "" : ", ") + quote(model, 100);
  return {404, "invalid_request_error",
          fmt::format("there is no model {}; this server has {}", quote(name, 100), known), "model",
          "model_not_found"};
}

TokenId parse_token_id(const Json& value, const std::string& path, std::uint32_t vocab_size) {
  const auto id = integral(value);
  if (!id) {
    if (real(value))
      refuse(path, fmt::format("expected a token id, found {}", number_text(value)), "invalid_type");
    wrong_type(path, "a token id", value);
  }
  if (*id < 0 || *id >= static_cast<std::int64_t>(vocab_size)) {
    refuse(path,
           fmt::format("expected a token id from 0 to {}, found {}", vocab_size - 1, number_text(value)),
           "out_of_range");
  }
  return static_cast<TokenId>(*id);
}

std::vector<TokenId> parse_token_ids(const Json::Array& values, const std::string& path,
                                     std::uint32_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(values.size());
  for (const auto& value : values) {
    const auto* plain = value.integer();
    if (plain != nullptr && *plain >= 0 && *plain < static_cast<std::int64_t>(vocab_size)) {
      ids.push_back(static_cast<TokenId>(*plain));  // without making the path that is not needed
    } else {
      ids.push_back(parse_token_id(value, element_path(path, ids.size()), vocab_size));
    }
  }
  return ids;
}

Scheduling parse_scheduling(const Fields& fields, const RequestLimits& limits) {
  fields.string("user");
  const auto priority = fields.integer("priority", -kMaxPriority, kMaxPriority).value_or(0);
  return {.priority = static_cast<std::int32_t>(std::min<std::int64_t>(priority, limits.max_priority)),
          .cache_namespace = fields.string("cache_salt").value_or("")};
}

GenerationFields parse_generation_fields(const Fields& fields, const RequestLimits& limits) {
  refuse_foreign_fields(fields);
  GenerationFields result;
  parse_sampling(fields, limits, result.sampling);
  result.max_tokens = parse_max_tokens(fields);
  result.stop = parse_stop(fields);
  if (const auto* ids = fields.array("stop_token_ids")) {
    const auto path = fields.path_of("stop_token_ids");
    if (ids->size() > kMaxStops) {
      refuse(path, fmt::format("expected at most {} ids, found {}", kMaxStops, ids->size()), "out_of_range");
    }
    result.stop_ids = parse_token_ids(*ids, path, limits.vocab_size);
  }
  result.ignore_end_tokens = fields.boolean("ignore_eos").value_or(false);
  result.n = static_cast<std::uint32_t>(fields.integer("n", 1, kMaxChoices).value_or(1));
  parse_stream(fields, result);
  result.scheduling = parse_scheduling(fields, limits);
  return result;
}

}  // namespace inferno::api
