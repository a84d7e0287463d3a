#pragma once

#include <memory>
#include <spdlog/logger.h>

namespace inferno {

/// The project's logger: warnings and notes go to stderr, never to stdout, coloured on terminals only.
spdlog::logger& log();

}  // namespace inferno
