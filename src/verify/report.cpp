#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "verify/verify.hpp"

namespace inferno::verify {

bool Report::passed() const {
  return std::all_of(rungs.begin(), rungs.end(), [](const Rung& rung) { return rung.passed; });
}

nlohmann::ordered_json to_json(const Report& report) {
  auto rungs = nlohmann::ordered_json::array();
  for (const auto& rung : report.rungs) {
    nlohmann::ordered_json diff;
    if (std::isfinite(rung.max_abs_diff)) diff = rung.max_abs_diff;
    rungs.push_back({{"name", rung.name},
                     {"backend", rung.backend},
                     {"model", rung.model},
                     {"max_abs_diff", diff},
                     {"bound", rung.bound},
                     {"passed", rung.passed},
                     {"note", rung.note}});
  }
  auto skipped = nlohmann::ordered_json::array();
  for (const auto& entry : report.skipped) {
    skipped.push_back({{"name", entry.name}, {"backend", entry.backend}, {"reason", entry.reason}});
  }
  return {{"rungs", rungs}, {"skipped", skipped}, {"passed", report.passed()}};
}

std::string to_text(const Rung& rung) {
  const auto diff =
      std::isfinite(rung.max_abs_diff) ? fmt::format("{:.3g}", rung.max_abs_diff) : std::string("-");
  return fmt::format("{}  {:<27} {:<19} {:>9} of {:<9.3g} {}", rung.passed ? "ok  " : "FAIL", rung.name,
                     rung.backend, diff, rung.bound, rung.note);
}

std::string to_text(const Skipped& skipped) {
  return fmt::format("--    {:<27} {:<19} not compared: {}", skipped.name, skipped.backend, skipped.reason);
}

}  // namespace inferno::verify
