#pragma once

#include <inferno/engine.hpp>

namespace inferno::cli {

/// How a generation is shown.
struct GenerateOutput {
  bool json = false;
  bool verbose = false;  ///< log each step to stderr
  bool trace = false;    ///< how often each stage ran, and how long
};

/// Runs one request: streams the text to stdout, then prints the metrics (or, with `json`, one JSON object
/// instead of both). Ctrl-C ends the text, not the program: what was generated so far is reported. Returns
/// the exit code.
int run_generate(const Model& model, const EngineOptions& engine_options, const Request& request,
                 const GenerateOutput& output);

}  // namespace inferno::cli
