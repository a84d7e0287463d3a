#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/chat_options.hpp"
#include "common/options.hpp"
#include "engine/serving_engine.hpp"
#include "server/http/options.hpp"

namespace inferno::cli {

struct ServeSettings {
  ModelOption model;
  ChatTemplateOption chat_template;
  ServingOptions engine;
  http::HttpOptions http;
  std::string api_key_file;
  std::vector<std::string>
      names;  ///< the first is the model's name, the others are aliases; none: the file's
  std::string pooling = "mean";
  std::chrono::seconds drain_time{30};
  bool no_page = false, no_prefix_cache = false;
};

/// Serves until SIGINT or SIGTERM, then drains. Returns the exit code: 0, or kFailed if the engine broke
/// down.
int serve(ServeSettings settings);

}  // namespace inferno::cli
