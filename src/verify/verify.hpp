#pragma once

#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/registry.hpp"
#include "model/loaded_model.hpp"

namespace inferno::verify {

/// One rung of the correctness ladder: something that was compared, how far apart it was, how far it may be.
struct Rung {
  /// Nothing could be compared; the note says why.
  static constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

  std::string name;
  std::string backend;
  std::string model;
  double max_abs_diff = kUnmeasured;
  double bound = 0;  ///< 0: equal, bit for bit
  bool passed = false;
  std::string note;
};

/// Something that could not be compared here and need not be.
struct Skipped {
  std::string name;
  std::string backend;
  std::string reason;
};

struct Report {
  std::vector<Rung> rungs;
  std::vector<Skipped> skipped;

  bool passed() const;
};

struct Options {
  /// Backends that must be available. Empty: all that are, the others are skipped by name.
  std::vector<std::string> backends;
  BackendOptions backend;
  /// Float64 reference values of the model; empty: those beside the model, if there are any (see
  /// goldens_beside).
  std::filesystem::path goldens;
};

/// Told of each rung as soon as it is done.
using RungCallback = std::function<void(const Rung&)>;

/// Climbs the ladder with one model. Throws UsageError for a backend name that does not exist, Error if the
/// golden file cannot be read.
Report run(const LoadedModel& model, const Options& options, const RungCallback& on_rung = {});

/// {rungs: [{name, backend, model, max_abs_diff, bound, passed, note}], skipped: [{name, backend, reason}],
/// passed}. max_abs_diff is null where nothing could be compared.
nlohmann::ordered_json to_json(const Report& report);
/// One line for people.
std::string to_text(const Rung& rung);
std::string to_text(const Skipped& skipped);

}  // namespace inferno::verify
