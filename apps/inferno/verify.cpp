#include "verify/verify.hpp"

#include <fmt/format.h>
#include <memory>

#include "command.hpp"
#include "common/options.hpp"

namespace inferno::cli {
namespace {

struct VerifyOptions {
  ModelOption model;
  verify::Options verify;
  bool json = false;
};

int run(const VerifyOptions& options) {
  const LoadedModel model(options.model.resolved(), {.map = !options.model.no_mmap});
  const auto print_rung = [&](const verify::Rung& rung) {
    if (!options.json) fmt::print("{}\n", verify::to_text(rung));
  };
  const auto report = verify::run(model, options.verify, print_rung);
  if (options.json) {
    fmt::print("{}\n", verify::to_json(report).dump(2));
  } else {
    for (const auto& skipped : report.skipped) fmt::print("{}\n", verify::to_text(skipped));
    fmt::print("{}\n", report.passed() ? "every rung passed" : "a rung FAILED");
  }
  return report.passed() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "verify", "check on this machine, with this model, that every backend computes what it should");
  const auto options = std::make_shared<VerifyOptions>();
  options->model.add_to(*command);
  command
      ->add_option("--backend", options->verify.backends,
                   "backends that must pass, separated by commas (default: all that are available)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--device", options->verify.backend.device,
                      "device number of the backend (default: the best)");
  command
      ->add_option("--threads", options->verify.backend.threads,
                   "CPU threads (0: what quota and affinity allow)")
      ->capture_default_str();
  command->add_option(
      "--goldens", options->verify.goldens,
      "float64 reference values of this model (default: MODEL.golden.json beside it, if it is there)");
  command->add_flag("--json", options->json, "as JSON");
  add_verbose(*command);
  set_examples(*command,
               "  inferno verify\n"
               "  inferno verify -m Qwen3-0.6B-Q8_0.gguf --backend scalar,pool\n"
               "  inferno verify --json");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace inferno::cli
