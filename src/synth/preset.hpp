#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/config.hpp"

namespace inferno {

/// A named shape. `config.name` is unset.
struct Preset {
  std::string_view name;        ///< "0.6b"
  std::string_view size_label;  ///< "0.6B", as general.size_label has it
  ModelConfig config;
};

/// All presets, small to large: tiny, tale (the shape of the shipped model), and Qwen3's dense models.
std::span<const Preset> presets();

/// The preset with this name (any case). Throws UsageError listing the names.
const Preset& find_preset(std::string_view name);

/// "tiny, tale, 0.6b, ...", for help and messages.
std::string preset_names();

}  // namespace inferno
