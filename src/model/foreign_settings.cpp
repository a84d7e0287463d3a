#include "model/foreign_settings.hpp"

#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>

#include "gguf/refusal.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno {

void refuse_foreign_settings(const MetadataReader& metadata, std::uint32_t context_length) {
  struct Setting {
    std::string_view key;
    double neutral;
  };
  static constexpr std::array<Setting, 16> kSettings = {{
      {"expert_count", 0.0},
      {"expert_used_count", 0.0},
      {"attention.clamp_kqv", 0.0},
      {"attention.max_alibi_bias", 0.0},
      {"attention.scale", 0.0},
      {"attention.output_scale", 1.0},
      {"attention.temperature_scale", 0.0},
      {"attention.temperature_length", 0.0},
      {"attn_logit_softcapping", 0.0},
      {"final_logit_softcapping", 0.0},
      {"logit_scale", 1.0},
      {"embedding_scale", 1.0},
      {"residual_scale", 1.0},
      {"nextn_predict_layers", 0.0},
      {"n_deepstack_layers", 0.0},
      {"swin_norm", 0.0},
  }};
  for (const auto& [key, neutral] : kSettings) {
    const auto number = metadata.optional_number(key);
    if (number && *number != neutral) {
      metadata.refuse(
          key, fmt::format("{} (inferno computes qwen3 models without this setting and will not ignore it)",
                           neutral));
    }
  }
  constexpr std::string_view kCausal = "attention.causal";
  if (!metadata.optional_flag(kCausal).value_or(true)) {
    metadata.refuse(kCausal, "true (inferno computes causal attention only)");
  }
  // A window as wide as the context hides nothing.
  constexpr std::string_view kWindow = "attention.sliding_window";
  const auto window = metadata.optional_number(kWindow);
  if (window && *window != 0.0 && *window < context_length) {
    metadata.refuse(kWindow, fmt::format("0 or at least {} (inferno computes full attention only)",
                                         metadata.with_value("context_length")));
  }
}

void report_unread_keys(const MetadataReader& metadata) {
  constexpr std::size_t kShown = 10;
  std::string list;
  std::size_t count = 0;
  for (const auto& key : metadata.unread_keys()) {
    // YaRN's settings beside another scaling type say nothing.
    if (key.compare(0, metadata.full_key("rope.").size(), metadata.full_key("rope.")) == 0) continue;
    ++count;
    if (count <= kShown) list += fmt::format("{}{}", count == 1 ? "" : ", ", quote(key));
  }
  if (count == 0) return;
  log().warn("{}: {} unknown metadata {} not used: {}{}", gguf::name_for_messages(metadata.file().path()),
             count, count == 1 ? "key is" : "keys are", list, count > kShown ? ", ..." : "");
}

}  // namespace inferno
