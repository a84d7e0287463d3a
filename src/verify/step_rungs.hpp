#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/loaded_model.hpp"
#include "verify/compare.hpp"
#include "verify/goldens.hpp"
#include "verify/probe.hpp"
#include "verify/verify.hpp"

namespace inferno::verify {

/// What all backends are asked about: chosen once, so that they can be compared with one another.
struct Questions {
  Ids sequence;                      ///< whose logits are compared
  Ids other;                         ///< another one, for company
  Ids prompt;                        ///< of the greedy transcript
  std::uint32_t transcript_ids = 0;  ///< tokens of it
  std::uint32_t block_size = 0;      ///< small, so that even short sequences cross blocks
  std::uint32_t positions = 0;       ///< the longest sequence of all
  std::vector<GoldenCase> goldens;
  std::vector<double> reference;  ///< [sequence.size()][V]: logits in double precision
  /// Shares of the largest logit by which roundings of the contract, all else in double precision, make the
  /// logits differ from `reference`; 0 as long as no contract backend climbs.
  double activations_distance = 0;    ///< int8 activations alone
  double contract_distance = 0;       ///< int8 activations, queries and cache
  double activations_divergence = 0;  ///< mean, in nats, of int8 activations alone
};

/// Short sequences for large models, longer ones (beyond an attention split) for small ones. `reference` is
/// left empty.
Questions choose_questions(const LoadedModel& model, std::vector<GoldenCase> goldens);

/// What one backend answered, kept to be compared with the others.
struct Answers {
  std::string backend;
  bool contract = false;
  std::vector<float> logits;  ///< [sequence.size()][V]
  Transcript transcript;
};

/// Where rungs go: those that were climbed, and those that a backend cannot be asked to climb.
class RungWriter {
 public:
  RungWriter(Report& report, RungCallback on_rung, std::string model)
      : report_(report), on_rung_(std::move(on_rung)), model_(std::move(model)) {}

  void add(Rung rung);
  void skip(std::string name, std::string backend, std::string reason);
  /// Runs `work`, which fills in what was found; an Error fails the rung, with its text as the note.
  void climb(const std::string& name, const std::string& backend, const std::function<void(Rung&)>& work);

 private:
  Report& report_;
  RungCallback on_rung_;
  std::string model_;
};

/// Fills in a rung whose two sides must be equal, bit for bit.
void expect_equal(Rung& rung, const Difference& difference, std::string_view what);

/// Share of the largest logit by which a backend may differ from exact arithmetic. Float arithmetic: an order
/// of magnitude above what it shows. The contract: a multiple of what int8 activations cost by themselves on
/// the same model and sequence, which differs from model to model (a trained one averages out what random
/// weights do not).
double distance_bound(bool contract, const Questions& questions);

/// Climbs all rungs that one executor climbs alone.
Answers climb_steps(Executor& executor, const Questions& questions, RungWriter& rungs);

/// Climbs the rungs between two executors' answers. Contract backends must be equal; others may differ by the
/// distance that their arithmetic costs, and their transcripts up to where two logits were that close.
void climb_between(const Answers& first, const Answers& second, const Questions& questions,
                   RungWriter& rungs);

}  // namespace inferno::verify
