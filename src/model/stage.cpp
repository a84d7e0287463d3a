#include "model/stage.hpp"

#include <array>
#include <cstddef>

namespace inferno {
namespace {

constexpr std::array<std::string_view, kStageCount> kNames = {
    "embedding",          "attention_norm", "query",    "key",       "value",     "query_norm",
    "key_norm",           "rope_query",     "rope_key", "append_kv", "attention", "attention_output",
    "attention_residual", "ffn_norm",       "gate",     "up",        "swiglu",    "down",
    "ffn_residual",       "final_norm",     "lm_head",  "argmax"};

}  // namespace

std::string_view stage_name(Stage stage) {
  return kNames.at(static_cast<std::size_t>(stage));
}

}  // namespace inferno
