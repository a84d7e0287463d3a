#include "synth/preset.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>

#include <inferno/error.hpp>

namespace inferno {
namespace {

ModelConfig shape(std::uint32_t layers, std::uint32_t hidden_size, std::uint32_t ffn_size,
                  std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t head_dim, bool tied_head) {
  ModelConfig config;
  config.layers = layers;
  config.hidden_size = hidden_size;
  config.ffn_size = ffn_size;
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.head_dim = head_dim;
  config.tied_head = tied_head;
  config.vocab_size = 151936;
  config.context_length = 40960;
  return config;
}

ModelConfig with_vocabulary(ModelConfig config, std::uint32_t vocab_size) {
  config.vocab_size = vocab_size;
  return config;
}

ModelConfig tale() {
  ModelConfig config = with_vocabulary(shape(10, 256, 768, 8, 4, 64, true), 8192);
  config.context_length = 8192;
  return config;
}

// The config.json of each published model: num_hidden_layers, hidden_size, intermediate_size,
// num_attention_heads, num_key_value_heads, head_dim, tie_word_embeddings.
const std::array<Preset, 8>& table() {
  static const std::array<Preset, 8> presets = {{
      {"tiny", "132K", with_vocabulary(shape(2, 64, 128, 4, 2, 32, true), 512)},
      {"tale", "12M", tale()},
      {"0.6b", "0.6B", shape(28, 1024, 3072, 16, 8, 128, true)},
      {"1.7b", "1.7B", shape(28, 2048, 6144, 16, 8, 128, true)},
      {"4b", "4B", shape(36, 2560, 9728, 32, 8, 128, true)},
      {"8b", "8B", shape(36, 4096, 12288, 32, 8, 128, false)},
      {"14b", "14B", shape(40, 5120, 17408, 40, 8, 128, false)},
      {"32b", "32B", shape(64, 5120, 25600, 64, 8, 128, false)},
  }};
  return presets;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const Preset> presets() {
  return table();
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) {
    if (!names.empty()) names += ", ";
    names += preset.name;
  }
  return names;
}

const Preset& find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (equal_ignoring_case(preset.name, name)) return preset;
  }
  throw UsageError(fmt::format("preset \"{}\" is unknown; expected one of {}", name, preset_names()));
}

}  // namespace inferno
