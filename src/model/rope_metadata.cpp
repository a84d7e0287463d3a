#include "model/rope_metadata.hpp"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <string_view>

#include "gguf/refusal.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

/// Every rope key that is read below or says nothing about the angles (finetuned).
constexpr std::array<std::string_view, 13> kKnownKeys = {"rope.dimension_count",
                                                         "rope.freq_base",
                                                         "rope.scale_linear",
                                                         "rope.scaling.type",
                                                         "rope.scaling.factor",
                                                         "rope.scaling.original_context_length",
                                                         "rope.scaling.attn_factor",
                                                         "rope.scaling.finetuned",
                                                         "rope.scaling.yarn_ext_factor",
                                                         "rope.scaling.yarn_attn_factor",
                                                         "rope.scaling.yarn_beta_fast",
                                                         "rope.scaling.yarn_beta_slow",
                                                         "rope.scaling.yarn_log_multiplier"};

constexpr std::string_view kScalingType = "rope.scaling.type";
constexpr std::string_view kScalingFactor = "rope.scaling.factor";
constexpr std::string_view kOlderFactor = "rope.scale_linear";

constexpr std::uint32_t kMaxOriginalContext = 1U << 30U;

void refuse_unknown_keys(const MetadataReader& metadata) {
  const std::string prefix = metadata.full_key("rope.");
  for (const auto& [key, value] : metadata.file().metadata()) {
    if (key.compare(0, prefix.size(), prefix) != 0) continue;
    bool known = false;
    for (const auto name : kKnownKeys) known = known || key == metadata.full_key(name);
    if (!known) {
      gguf::refuse_value(
          metadata.file(), key,
          "a setting of the scaling types none, linear and yarn (inferno supports no others)",
          fmt::format("{}; inferno does not know this one and will not ignore it", describe(value)));
    }
  }
}

/// `key` if present must be `expected`, the only value inferno computes.
void require(const MetadataReader& metadata, std::string_view key, double expected) {
  const auto number = metadata.optional_number(key);
  if (number && *number != expected) {
    metadata.refuse(key, fmt::format("{} (inferno supports nothing else)", expected));
  }
}

float positive(const MetadataReader& metadata, std::string_view key, float otherwise) {
  const auto number = metadata.optional_number(key);
  if (!number) return otherwise;
  const auto narrow = static_cast<float>(*number);
  if (!(narrow > 0.0F) || !std::isfinite(narrow)) {
    metadata.refuse(key, "a number above 0");
  }
  return narrow;
}

RopeScaling::Type read_type(const MetadataReader& metadata, bool has_factor) {
  const auto type = metadata.optional_text(kScalingType);
  // A factor without a type is linear: files from before there were other types hold nothing else.
  if (!type) return has_factor ? RopeScaling::Type::linear : RopeScaling::Type::none;
  if (*type == "none") return RopeScaling::Type::none;
  if (*type == "linear") return RopeScaling::Type::linear;
  if (*type == "yarn") return RopeScaling::Type::yarn;
  metadata.refuse(kScalingType, "one of none, linear and yarn (inferno supports no others)");
}

/// The factor under its present and its older name.
std::optional<double> read_factor(const MetadataReader& metadata) {
  const auto present = metadata.optional_number(kScalingFactor);
  const auto older = metadata.optional_number(kOlderFactor);
  if (present && older && *present != *older) {
    metadata.refuse(kScalingFactor,
                    fmt::format("{}, the same as {}", *older, metadata.with_value(kOlderFactor)),
                    fmt::format("{}", *present));
  }
  const auto factor = present ? present : older;
  if (factor && !(*factor >= 1.0 && std::isfinite(static_cast<float>(*factor)))) {
    metadata.refuse(present ? kScalingFactor : kOlderFactor, "a number of at least 1");
  }
  return factor;
}

void read_yarn(const MetadataReader& metadata, std::uint32_t context_length, RopeScaling& scaling) {
  // An extrapolation mix other than 1 and the multiplier of the logarithm (whose meaning differs between
  // writers) belong to other architectures.
  require(metadata, "rope.scaling.yarn_ext_factor", 1.0);
  require(metadata, "rope.scaling.yarn_log_multiplier", 0.0);
  constexpr std::string_view kOriginal = "rope.scaling.original_context_length";
  if (const auto original = metadata.optional_count(kOriginal, kMaxOriginalContext)) {
    scaling.original_context = *original;
  } else {
    scaling.original_context = context_length;
    log().warn("{}: metadata {} is missing; taking the context length {} for YaRN",
               gguf::name_for_messages(metadata.file().path()), metadata.full_key(kOriginal), context_length);
  }
  constexpr std::string_view kFast = "rope.scaling.yarn_beta_fast";
  constexpr std::string_view kSlow = "rope.scaling.yarn_beta_slow";
  scaling.beta_fast = positive(metadata, kFast, scaling.beta_fast);
  scaling.beta_slow = positive(metadata, kSlow, scaling.beta_slow);
  if (scaling.beta_fast < scaling.beta_slow) {
    // One of them may be missing: then the other is wrong.
    if (metadata.optional_number(kFast)) {
      metadata.refuse(kFast,
                      fmt::format("at least {}, which is {}", scaling.beta_slow, metadata.full_key(kSlow)),
                      fmt::format("{}", scaling.beta_fast));
    }
    metadata.refuse(kSlow,
                    fmt::format("at most {}, which is {}", scaling.beta_fast, metadata.full_key(kFast)),
                    fmt::format("{}", scaling.beta_slow));
  }
}

}  // namespace

float read_rope_base(const MetadataReader& metadata) {
  constexpr std::string_view kKey = "rope.freq_base";
  constexpr double kFormatDefault = 10000.0;
  const auto number = metadata.optional_number(kKey);
  if (!number) {
    log().warn("{}: metadata {} is missing; taking the format's default {}",
               gguf::name_for_messages(metadata.file().path()), metadata.full_key(kKey), kFormatDefault);
  }
  const auto base = static_cast<float>(number.value_or(kFormatDefault));
  if (!(base > 1.0F) || !std::isfinite(base)) {
    metadata.refuse(kKey, "a number above 1");
  }
  return base;
}

RopeScaling read_rope_scaling(const MetadataReader& metadata, std::uint32_t context_length) {
  refuse_unknown_keys(metadata);
  const auto factor = read_factor(metadata);
  RopeScaling scaling;
  scaling.type = read_type(metadata, factor.has_value());
  scaling.factor = static_cast<float>(factor.value_or(1.0));
  if (scaling.type == RopeScaling::Type::none && scaling.factor != 1.0F) {
    metadata.refuse(kScalingType,
                    fmt::format("linear or yarn (the scaling factor is {} and not 1)", scaling.factor));
  }
  if (scaling.type != RopeScaling::Type::none && !factor) {
    metadata.refuse(kScalingFactor,
                    fmt::format("a number of at least 1, which {} needs", metadata.with_value(kScalingType)));
  }
  if (scaling.type == RopeScaling::Type::yarn) read_yarn(metadata, context_length, scaling);

  // attn_factor multiplies what the type gives; yarn_attn_factor replaces YaRN's own.
  const bool yarn = scaling.type == RopeScaling::Type::yarn;
  const float own = yarn ? 0.1F * std::log(scaling.factor) + 1.0F : 1.0F;
  const float replaced = positive(metadata, "rope.scaling.yarn_attn_factor", yarn ? 0.0F : 1.0F);
  const float multiplier = positive(metadata, "rope.scaling.attn_factor", 1.0F);
  if (!yarn && replaced != 1.0F) {
    metadata.refuse("rope.scaling.yarn_attn_factor", "1 or no such key (the scaling type is not yarn)");
  }
  if (replaced != 0.0F || multiplier != 1.0F) {
    scaling.attention_factor = (replaced != 0.0F ? replaced : own) * multiplier;
  }
  return scaling;
}

}  // namespace inferno
