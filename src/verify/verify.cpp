#include "verify/verify.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <memory>

#include "platform/cpu_budget.hpp"
#include "platform/quote.hpp"
#include "platform/terminal.hpp"
#include "quant/format.hpp"
#include "verify/block_formats.hpp"
#include "verify/compare.hpp"
#include "verify/goldens.hpp"
#include "verify/kernel_rungs.hpp"
#include "verify/reference.hpp"
#include "verify/step_rungs.hpp"

namespace inferno::verify {
namespace {

/// Names that stand for another backend: nothing would be learnt from them.
constexpr std::array<std::string_view, 3> kAliases = {"metal", "gpu", "auto"};

void check_names(const std::vector<std::string>& names, const std::vector<BackendStatus>& known) {
  for (const auto& name : names) {
    const auto matches = [&](const BackendStatus& status) { return status.name == name; };
    if (std::any_of(known.begin(), known.end(), matches)) continue;
    std::string list;
    for (const auto& status : known) list += (list.empty() ? "" : ", ") + status.name;
    throw UsageError(fmt::format("unknown backend {}; expected one of {}", quote(name), list));
  }
}

std::vector<GoldenCase> find_goldens(const LoadedModel& model, const Options& options) {
  if (!options.goldens.empty()) return read_goldens(options.goldens, model.config.vocab_size);
  const auto beside = goldens_beside(model.file.path());
  std::error_code error;
  if (!std::filesystem::exists(beside, error)) return {};
  return read_goldens(beside, model.config.vocab_size);
}

/// Whether one of the backends computes with vector kernels.
bool asks_for_kernels(const std::vector<std::string>& backends) {
  const auto has_kernels = [](const std::string& name) { return name != "scalar" && name != "reference"; };
  return backends.empty() || std::any_of(backends.begin(), backends.end(), has_kernels);
}

/// All of one run.
class Verification {
 public:
  Verification(const LoadedModel& model, const Options& options, const RungCallback& on_rung)
      : model_(model),
        options_(options),
        questions_(choose_questions(model, find_goldens(model, options))),
        rungs_(report_, on_rung, model.config.name) {}

  Report run(const std::vector<BackendStatus>& known) {
    for (const auto& format : quant::formats()) rungs_.add(check_format(format, model_));
    if (asks_for_kernels(options_.backends)) climb_kernels(model_, rungs_);
    if (questions_.goldens.empty()) {
      rungs_.skip("float64 goldens", "",
                  fmt::format("there is no {} beside the model; see --goldens",
                              goldens_beside(model_.file.path()).filename().string()));
    }
    questions_.reference = reference({}, "in double precision");
    for (const auto& name : options_.backends) climb(name, true);
    if (options_.backends.empty()) {
      for (const auto& status : known) {
        if (std::find(kAliases.begin(), kAliases.end(), status.name) != kAliases.end()) continue;
        climb(status.name, false);
      }
    }
    compare_answers();
    return std::move(report_);
  }

 private:
  std::vector<double> reference(Roundings roundings, std::string_view how) {
    const auto threads = choose_threads(options_.backend.threads, cpu_budget()).threads;
    ProgressLine progress(fmt::format("verify: {} positions {}", questions_.sequence.size(), how));
    return reference_logits(model_, questions_.sequence, roundings, threads,
                            [&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
  }

  /// How far logits with some of the contract's roundings are from exact ones, as a share of the largest
  /// logit.
  double distance(const std::vector<double>& rounded) const {
    double largest = 0;
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      largest = std::max(largest, std::abs(rounded[i] - questions_.reference[i]));
    }
    // Logits may all be zero, and differ by nothing.
    return largest == 0 ? 0 : largest / largest_magnitude(questions_.reference);
  }

  /// Each costs as much as the reference itself, so they are worked out only once somebody is judged by them.
  void measure_contract() {
    if (questions_.contract_distance != 0) return;
    const auto rounded = reference({.activations = true}, "with int8 activations");
    questions_.activations_distance = distance(rounded);
    questions_.activations_divergence =
        divergence(questions_.reference, rounded, model_.config.vocab_size).mean;
    questions_.contract_distance =
        distance(reference({.activations = true, .queries = true, .keys = true, .values = true},
                           "with int8 activations and cache"));
  }

  void climb(const std::string& name, bool required) {
    std::unique_ptr<Executor> executor;
    try {
      executor = create_executor(name, model_, options_.backend);
    } catch (const Error& error) {
      return required ? fail(name, error) : rungs_.skip("backend", name, error.what());
    }
    if (executor->capabilities().contract) measure_contract();
    try {
      answers_.push_back(climb_steps(*executor, questions_, rungs_));
    } catch (const Error& error) {
      fail(name, error);
    }
  }

  void fail(const std::string& name, const Error& error) {
    Rung rung;
    rung.name = "backend";
    rung.backend = name;
    rung.note = error.what();
    rungs_.add(std::move(rung));
  }

  /// Each against the first contract backend, or where there is none against the first.
  void compare_answers() {
    const auto contract =
        std::find_if(answers_.begin(), answers_.end(), [](const auto& a) { return a.contract; });
    const auto base = contract != answers_.end() ? contract : answers_.begin();
    for (auto other = answers_.begin(); other != answers_.end(); ++other) {
      if (other != base) climb_between(*base, *other, questions_, rungs_);
    }
  }

  const LoadedModel& model_;
  const Options& options_;
  Questions questions_;
  Report report_;
  RungWriter rungs_;
  std::vector<Answers> answers_;
};

}  // namespace

Report run(const LoadedModel& model, const Options& options, const RungCallback& on_rung) {
  const auto known = list_backends();
  check_names(options.backends, known);
  return Verification(model, options, on_rung).run(known);
}

}  // namespace inferno::verify
