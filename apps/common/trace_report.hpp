#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/trace.hpp"

namespace inferno::cli {

/// The trace as tables: how often each stage ran and how long, the prompt's and decoding's apart.
std::string trace_to_text(const TraceObserver& trace, std::uint32_t layers);
/// `{prefill: {steps, stages_per_step, stages: [{name, count, ms, bytes, operations}]}, decode: {...}}`.
nlohmann::ordered_json trace_to_json(const TraceObserver& trace, std::uint32_t layers);

}  // namespace inferno::cli
