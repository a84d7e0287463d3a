#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/serving_metrics.hpp"
#include "server/http/options.hpp"

namespace inferno::service {

/// What /metrics tells of.
struct Figures {
  const ServingMetrics* engine = nullptr;  ///< nullptr while the model is being loaded
  http::HttpCounters http = {};
  std::map<unsigned, std::uint64_t> answers = {};  ///< by status
  std::string model = {}, version = {};
  double start_time = 0;  ///< seconds since 1970
};

/// In Prometheus' text format, version 0.0.4. docs/server.md lists the names.
std::string metrics_text(const Figures& figures);

}  // namespace inferno::service
