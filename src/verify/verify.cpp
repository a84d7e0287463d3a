#include "verify/verify.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>

#include "platform/cpu_budget.hpp"
#include "platform/quote.hpp"
#include "platform/terminal.hpp"
#include "quant/format.hpp"
#include "verify/block_formats.hpp"
#include "verify/goldens.hpp"
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

std::vector<double> compute_reference(const LoadedModel& model, const Ids& ids, std::uint32_t threads) {
  ProgressLine progress(fmt::format("verify: {} positions in double precision", ids.size()));
  return reference_logits(model, ids, choose_threads(threads, cpu_budget()).threads,
                          [&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
}

}  // namespace

Report run(const LoadedModel& model, const Options& options, const RungCallback& on_rung) {
  const auto known = list_backends();
  check_names(options.backends, known);
  auto questions = choose_questions(model, find_goldens(model, options));

  Report report;
  RungWriter rungs(report, on_rung, model.config.name);
  for (const auto& format : quant::formats()) rungs.add(check_format(format, model));
  questions.reference = compute_reference(model, questions.sequence, options.backend.threads);

  std::vector<Answers> answers;
  const auto fail = [&](const std::string& name, const Error& error) {
    Rung rung;
    rung.name = "backend";
    rung.backend = name;
    rung.note = error.what();
    rungs.add(std::move(rung));
  };
  const auto climb = [&](const std::string& name, bool required) {
    std::unique_ptr<Executor> executor;
    try {
      executor = create_executor(name, model, options.backend);
    } catch (const Error& error) {
      return required ? fail(name, error) : rungs.skip("backend", name, error.what());
    }
    try {
      answers.push_back(climb_steps(*executor, questions, rungs));
    } catch (const Error& error) {
      fail(name, error);
    }
  };
  if (options.backends.empty()) {
    for (const auto& status : known) {
      if (std::find(kAliases.begin(), kAliases.end(), status.name) == kAliases.end())
        climb(status.name, false);
    }
  } else {
    for (const auto& name : options.backends) climb(name, true);
  }

  // Each against the first contract backend, or where there is none against the first.
  const auto contract =
      std::find_if(answers.begin(), answers.end(), [](const auto& a) { return a.contract; });
  const auto base = contract != answers.end() ? contract : answers.begin();
  for (auto other = answers.begin(); other != answers.end(); ++other) {
    if (other != base) climb_between(*base, *other, rungs);
  }
  return report;
}

}  // namespace inferno::verify
