#include "verify/verify.hpp"

#include "quant/format.hpp"
#include "verify/block_formats.hpp"

namespace inferno::verify {

Report run(const LoadedModel& model, const Options& options, const RungCallback& on_rung) {
  (void)options;
  Report report;
  for (const auto& format : quant::formats()) {
    report.rungs.push_back(check_format(format, model));
    if (on_rung) on_rung(report.rungs.back());
  }
  return report;
}

}  // namespace inferno::verify
