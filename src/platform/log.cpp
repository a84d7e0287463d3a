#include "platform/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace inferno {

spdlog::logger& log() {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("inferno", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%^%l%$: %v");
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace inferno
