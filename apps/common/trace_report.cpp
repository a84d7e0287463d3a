#include "common/trace_report.hpp"

#include <fmt/format.h>
#include <iterator>

namespace inferno::cli {
namespace {

void append_table(std::string& text, std::string_view title, const StageTrace& trace, std::uint32_t steps,
                  std::uint32_t layers) {
  if (steps == 0) return;
  auto out = std::back_inserter(text);
  fmt::format_to(
      out, "\ntrace: {}, {} step{} of {} stages ({} a layer x {} layers + {}, after the embedding)\n", title,
      steps, steps == 1 ? "" : "s", trace.stages() / steps, kStagesPerLayer, layers, kStagesAtEnd);
  fmt::format_to(out, "{:<20} {:>9} {:>9} {:>11} {:>7} {:>9}\n", "stage", "count", "per step", "ms", "share",
                 "GB/s");
  const double total = trace.milliseconds();
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    const auto& totals = trace.of(stage);
    const double rate =
        totals.milliseconds > 0 ? static_cast<double>(totals.bytes) / totals.milliseconds / 1e6 : 0;
    fmt::format_to(out, "{:<20} {:>9} {:>9} {:>11.3f} {:>5.1f} % {:>9.2f}\n", stage_name(stage), totals.count,
                   totals.count / steps, totals.milliseconds,
                   total > 0 ? 100.0 * totals.milliseconds / total : 0.0, rate);
  }
  fmt::format_to(out, "{:<20} {:>9} {:>9} {:>11.3f}\n", "after the embedding", trace.stages(),
                 trace.stages() / steps, total - trace.of(Stage::embedding).milliseconds);
}

nlohmann::ordered_json phase_to_json(const StageTrace& trace, std::uint32_t steps) {
  auto stages = nlohmann::ordered_json::array();
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    const auto& totals = trace.of(stage);
    stages.push_back({{"name", stage_name(stage)},
                      {"count", totals.count},
                      {"ms", totals.milliseconds},
                      {"bytes", totals.bytes},
                      {"operations", totals.operations}});
  }
  return {{"steps", steps}, {"stages_per_step", steps == 0 ? 0 : trace.stages() / steps}, {"stages", stages}};
}

}  // namespace

std::string trace_to_text(const TraceObserver& trace, std::uint32_t layers) {
  std::string text;
  append_table(text, "prefill", trace.prefill(), trace.prefill_steps(), layers);
  append_table(text, "decode", trace.decode(), trace.decode_steps(), layers);
  return text;
}

nlohmann::ordered_json trace_to_json(const TraceObserver& trace, std::uint32_t layers) {
  return {{"layers", layers},
          {"stages_per_layer", kStagesPerLayer},
          {"prefill", phase_to_json(trace.prefill(), trace.prefill_steps())},
          {"decode", phase_to_json(trace.decode(), trace.decode_steps())}};
}

}  // namespace inferno::cli
