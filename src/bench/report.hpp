#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "bench/bench.hpp"
#include "bench/ladder.hpp"

namespace inferno::bench {

nlohmann::ordered_json to_json(const MachineLimits& machine);
nlohmann::ordered_json to_json(const Result& result);
/// {ladder: [result | {backend, available: false, reason}], machine}.
nlohmann::ordered_json to_json(std::span<const LadderEntry> ladder);

/// One backend's figures for people: each with its share of the machine's limit beside it.
std::string to_text(const Result& result);
/// All backends side by side.
std::string to_text(std::span<const LadderEntry> ladder);

}  // namespace inferno::bench
