#include "verify/step_rungs.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "platform/terminal.hpp"
#include "verify/compare.hpp"

namespace inferno::verify {
namespace {

/// Multiply-adds that one way through a sequence may cost: about a second of plain float loops.
constexpr double kBudget = 1.5e9;
constexpr std::uint32_t kFewestPositions = 5;
constexpr std::uint32_t kMostPositions = 300;  // beyond one attention split
constexpr std::uint32_t kMostTranscriptIds = 48;
constexpr std::uint32_t kPromptIds = 4;
constexpr std::uint32_t kChunk = 3;
constexpr std::uint32_t kLargerChunk = 17;
constexpr double kFloatDistance = 2e-4;
constexpr double kContractFactor = 2.0;

double multiplies_per_token(const LoadedModel& model) {
  const auto elements = [](const Matrix& matrix) {
    return static_cast<double>(matrix.rows) * matrix.columns;
  };
  double sum = elements(model.weights.lm_head);
  for (const auto& layer : model.weights.layers) {
    for (const auto* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate,
                               &layer.up, &layer.down}) {
      sum += elements(*matrix);
    }
  }
  return sum;
}

/// Ids that look like nothing in particular, the same in every run.
Ids random_ids(std::uint32_t count, std::uint32_t vocab_size, std::uint64_t seed) {
  Ids ids(count);
  auto state = seed;
  for (auto& id : ids) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    id = static_cast<std::int32_t>((state >> 33U) % vocab_size);
  }
  return ids;
}

/// Fills in a rung whose two sides may be `bound` of the largest logit apart.
void expect_close(Rung& rung, double max_abs_diff, double largest, double bound, std::string_view what) {
  rung.bound = bound * largest;
  rung.max_abs_diff = max_abs_diff;
  rung.passed = max_abs_diff <= rung.bound;
  rung.note = fmt::format("{}: {:.2g} of the largest logit, {:.4g}; up to {:.2g} is allowed", what,
                          largest > 0 ? max_abs_diff / largest : 0.0, largest, bound);
}

/// Index of the first id in which two lists differ, if any.
std::optional<std::size_t> first_difference(const Ids& a, const Ids& b) {
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (left == a.end() && right == b.end()) return std::nullopt;
  return static_cast<std::size_t>(left - a.begin());
}

void expect_equal(Rung& rung, const Transcript& a, const Transcript& b, std::string_view what) {
  expect_equal(rung, compare(a.logits, b.logits), what);
  const auto differ = first_difference(a.ids, b.ids);
  if (!differ) return;
  rung.passed = false;
  rung.note += fmt::format("; ids differ from token {} on", *differ);
}

/// One executor on the ladder.
class StepClimber {
 public:
  static constexpr std::uint64_t kRungs = 9;  // for the progress line

  StepClimber(Executor& executor, const Questions& questions, RungWriter& rungs)
      : executor_(executor),
        questions_(questions),
        rungs_(rungs),
        name_(executor.capabilities().backend),
        progress_(fmt::format("verify {}", name_)),
        probe_(executor, questions.positions, questions.block_size,
               [this] { progress_.update(done_, kRungs); }) {}

  Answers climb() {
    Answers answers{name_, executor_.capabilities().contract, {}, {}};
    if (executor_.capabilities().logits) {
      const auto whole = static_cast<std::uint32_t>(questions_.sequence.size());
      rung("float64 reference", [&](Rung& rung) {
        answers.logits = probe_.logits(questions_.sequence, whole);
        expect_close(rung, compare(answers.logits, questions_.reference).max_abs,
                     largest_magnitude(questions_.reference), bound(),
                     fmt::format("{} positions", questions_.sequence.size()));
        const auto vocab_size = questions_.reference.size() / questions_.sequence.size();
        rung.note += fmt::format("; mean KL {:.2g}",
                                 divergence(questions_.reference, answers.logits, vocab_size).mean);
        if (!executor_.capabilities().contract) return;
        rung.note += fmt::format(
            "; in exact arithmetic int8 activations alone cost {:.2g} (mean KL {:.2g}), with an int8 cache "
            "{:.2g}",
            questions_.activations_distance, questions_.activations_divergence, questions_.contract_distance);
      });
      climb_goldens();
      if (!answers.logits.empty()) climb_invariance(answers.logits);
    } else {
      for (const auto* name :
           {"float64 reference", "float64 goldens", "prefill in chunks", "prefill by decode",
            "alone and in a batch", "kinds of cache", "blocks moved"}) {
        rungs_.skip(name, name_, "it does not hand out logits");
      }
    }
    climb_transcripts(answers);
    return answers;
  }

 private:
  void rung(const std::string& name, const std::function<void(Rung&)>& work) {
    rungs_.climb(name, name_, work);
  }
  double bound() const { return distance_bound(executor_.capabilities().contract, questions_); }

  void climb_goldens() {
    if (questions_.goldens.empty()) return;
    rung("float64 goldens", [&](Rung& rung) {
      double largest = 0;
      double max_abs_diff = 0;
      for (const auto& golden : questions_.goldens) {
        const auto logits = probe_.recomputed_logits(golden.ids);
        std::vector<float> picked;
        picked.reserve(golden.logit_ids.size());
        for (const auto id : golden.logit_ids) picked.push_back(logits[static_cast<std::size_t>(id)]);
        max_abs_diff = std::max(max_abs_diff, compare(picked, golden.logits).max_abs);
        largest = std::max(largest, largest_magnitude(golden.logits));
      }
      expect_close(rung, max_abs_diff, largest, bound(),
                   fmt::format("{} prompts", questions_.goldens.size()));
      compare_golden_transcripts(rung);
    });
  }

  /// Float arithmetic must choose what float64 chooses. The contract's may choose otherwise where two
  /// logits are close; where is told.
  void compare_golden_transcripts(Rung& rung) {
    std::uint32_t compared = 0;
    for (std::size_t i = 0; i < questions_.goldens.size(); ++i) {
      const auto& golden = questions_.goldens[i];
      if (golden.greedy_ids.empty()) continue;
      const auto count = static_cast<std::uint32_t>(golden.greedy_ids.size());
      const auto differ = first_difference(probe_.greedy(golden.ids, count, 1).ids, golden.greedy_ids);
      compared += count;
      if (!differ) continue;
      if (!executor_.capabilities().contract) rung.passed = false;
      rung.note += fmt::format("; greedy text {} leaves float64's at token {}", i, *differ);
    }
    if (compared > 0) rung.note += fmt::format("; {} greedy tokens compared", compared);
  }

  void climb_invariance(const std::vector<float>& expected) {
    const auto& ids = questions_.sequence;
    rung("prefill in chunks", [&](Rung& rung) {
      expect_equal(rung, compare(probe_.logits(ids, kChunk), expected), fmt::format("chunks of {}", kChunk));
      if (!rung.passed || ids.size() <= kLargerChunk) return;
      expect_equal(rung, compare(probe_.logits(ids, kLargerChunk), expected),
                   fmt::format("chunks of {} and {}", kChunk, kLargerChunk));
    });
    rung("prefill by decode", [&](Rung& rung) {
      expect_equal(rung, compare(probe_.logits(ids, 1), expected), "one token at a time");
    });
    rung("alone and in a batch", [&](Rung& rung) {
      const auto rows = probe_.logits_together({ids, questions_.other, ids}, kChunk);
      expect_equal(rung, compare(rows[0], expected), "first of three rows");
      if (!rung.passed) return;
      expect_equal(rung, compare(rows[2], expected), "first and last of three rows");
    });
    rung("kinds of cache", [&](Rung& rung) {
      expect_equal(rung, compare(probe_.logits(ids, kChunk, KvKind::basic), expected), "basic");
      if (!rung.passed) return;
      for (const auto positions : {(ids.size() + 1) / 2, ids.size()}) {
        const auto vocab_size = expected.size() / ids.size();
        const auto last = std::span(expected).subspan((positions - 1) * vocab_size, vocab_size);
        expect_equal(rung, compare(probe_.recomputed_logits(std::span(ids).first(positions)), last),
                     "basic and none against paged");
        if (!rung.passed) return;
      }
    });
    if (!executor_.capabilities().block_transfer) {
      rungs_.skip("blocks moved", name_, "it does not export blocks");
      return;
    }
    rung("blocks moved", [&](Rung& rung) {
      expect_equal(rung, compare(probe_.logits_after_transfer(ids), expected),
                   "exported and imported halfway");
    });
  }

  void climb_transcripts(Answers& answers) {
    const auto count = questions_.transcript_ids;
    rung("transcript repeated", [&](Rung& rung) {
      answers.transcript = probe_.greedy(questions_.prompt, count, 1);
      expect_equal(rung, probe_.greedy(questions_.prompt, count, 1), answers.transcript,
                   fmt::format("{} greedy tokens twice", count));
    });
    if (!executor_.capabilities().multi_step) {
      rungs_.skip("chained steps", name_, "it does not chain steps");
      return;
    }
    rung("chained steps", [&](Rung& rung) {
      expect_equal(rung, probe_.greedy(questions_.prompt, count, Probe::kChainedSteps), answers.transcript,
                   fmt::format("{} steps in a submission", Probe::kChainedSteps));
    });
  }

  Executor& executor_;
  const Questions& questions_;
  RungWriter& rungs_;
  std::string name_;
  ProgressLine progress_;
  std::uint64_t done_ = 0;
  Probe probe_;
};

/// The logits a transcript's token was chosen from.
std::span<const float> logits_of(const Transcript& transcript, std::size_t token) {
  const auto vocab_size = transcript.logits.size() / transcript.ids.size();
  return std::span(transcript.logits).subspan(token * vocab_size, vocab_size);
}

/// Up to the first difference both have read the same text, so their logits can be compared, those of
/// the differing token too.
void compare_transcripts(const Answers& first, const Answers& second, double bound, Rung& rung) {
  const auto& a = first.transcript;
  const auto& b = second.transcript;
  const auto differ = first_difference(a.ids, b.ids);
  const auto comparable = differ ? *differ + 1 : a.ids.size();
  double max_abs_diff = 0;
  double largest = 0;
  for (std::size_t i = 0; i < comparable; ++i) {
    max_abs_diff = std::max(max_abs_diff, compare(logits_of(a, i), logits_of(b, i)).max_abs);
    largest = std::max(largest, largest_magnitude(logits_of(a, i)));
  }
  expect_close(rung, max_abs_diff, largest, bound,
               differ ? fmt::format("equal for {} tokens", *differ)
                      : fmt::format("{} greedy tokens equal", a.ids.size()));
  if (!differ) return;
  const auto a_id = static_cast<std::size_t>(a.ids[*differ]);
  const auto b_id = static_cast<std::size_t>(b.ids[*differ]);
  const auto a_logits = logits_of(a, *differ);
  const auto b_logits = logits_of(b, *differ);
  rung.note += fmt::format(
      "; then {} takes {} ({:.6g}, not {}: {:.6g}) and {} takes {} ({:.6g}, not {}: {:.6g})", first.backend,
      a_id, a_logits[a_id], b_id, a_logits[b_id], second.backend, b_id, b_logits[b_id], a_id, b_logits[a_id]);
}

}  // namespace

Questions choose_questions(const LoadedModel& model, std::vector<GoldenCase> goldens) {
  const auto vocab_size = model.config.vocab_size;
  const auto affordable = static_cast<std::uint32_t>(
      std::min(kBudget / multiplies_per_token(model), static_cast<double>(kMostPositions)));
  const auto context = model.config.context_length;
  Questions questions;
  const auto positions = std::min(std::max(affordable, kFewestPositions), context);
  // Text if there is any: what arithmetic costs a trained model on random ids is not what it costs in use.
  for (const auto& golden : goldens) {
    questions.sequence.insert(questions.sequence.end(), golden.ids.begin(), golden.ids.end());
    questions.sequence.insert(questions.sequence.end(), golden.greedy_ids.begin(), golden.greedy_ids.end());
  }
  const auto random = random_ids(positions, vocab_size, 1);
  questions.sequence.insert(questions.sequence.end(), random.begin(), random.end());
  questions.sequence.resize(positions);
  questions.other = random_ids(std::max(positions * 2 / 3, 1U), vocab_size, 2);
  questions.block_size = positions >= 64 ? 16 : 2;
  questions.prompt = random_ids(std::min(kPromptIds, context), vocab_size, 3);
  for (const auto& golden : goldens) {
    if (golden.greedy_ids.empty()) continue;
    questions.prompt = golden.ids;
    break;
  }
  const auto prompt = static_cast<std::uint32_t>(questions.prompt.size());
  questions.transcript_ids = std::min(std::clamp(affordable, kFewestPositions, kMostTranscriptIds),
                                      context - std::min(context, prompt) + 1);
  questions.positions = std::max(positions, prompt + questions.transcript_ids);
  for (const auto& golden : goldens) {
    questions.positions = std::max(questions.positions,
                                   static_cast<std::uint32_t>(golden.ids.size() + golden.greedy_ids.size()));
  }
  questions.goldens = std::move(goldens);
  return questions;
}

double distance_bound(bool contract, const Questions& questions) {
  return contract ? kFloatDistance + kContractFactor * questions.contract_distance : kFloatDistance;
}

void expect_equal(Rung& rung, const Difference& difference, std::string_view what) {
  rung.bound = 0;
  // Bits, not distance: -0 and +0 are 0 apart, and NaNs no distance at all.
  rung.max_abs_diff = std::max(rung.max_abs_diff, difference.max_abs);
  if (std::isnan(rung.max_abs_diff)) rung.max_abs_diff = difference.max_abs;
  rung.passed = difference.different == 0;
  rung.note = rung.passed ? fmt::format("{}: {} values equal", what, difference.compared)
                          : fmt::format("{}: {} of {} values differ, first number {}", what,
                                        difference.different, difference.compared, difference.first);
}

void RungWriter::add(Rung rung) {
  rung.model = model_;
  report_.rungs.push_back(std::move(rung));
  if (on_rung_) on_rung_(report_.rungs.back());
}

void RungWriter::skip(std::string name, std::string backend, std::string reason) {
  report_.skipped.push_back({std::move(name), std::move(backend), std::move(reason)});
}

void RungWriter::climb(const std::string& name, const std::string& backend,
                       const std::function<void(Rung&)>& work) {
  Rung rung;
  rung.name = name;
  rung.backend = backend;
  try {
    work(rung);
  } catch (const Error& error) {
    rung.passed = false;
    rung.note = error.what();
  }
  add(std::move(rung));
}

Answers climb_steps(Executor& executor, const Questions& questions, RungWriter& rungs) {
  return StepClimber(executor, questions, rungs).climb();
}

void climb_between(const Answers& first, const Answers& second, const Questions& questions,
                   RungWriter& rungs) {
  const auto pair = fmt::format("{},{}", first.backend, second.backend);
  if (first.logits.empty() || second.logits.empty() || first.transcript.logits.empty() ||
      second.transcript.logits.empty()) {
    rungs.skip("two backends", pair, "one of them gave no logits");
    return;
  }
  const bool equal = first.contract && second.contract;
  const double bound = distance_bound(first.contract || second.contract, questions);
  rungs.climb("logits of two backends", pair, [&](Rung& rung) {
    const auto difference = compare(second.logits, first.logits);
    const auto what = fmt::format("{} against {}", second.backend, first.backend);
    if (equal) {
      expect_equal(rung, difference, what);
    } else {
      expect_close(rung, difference.max_abs, largest_magnitude(first.logits), bound, what);
    }
  });
  rungs.climb("transcripts of two backends", pair, [&](Rung& rung) {
    if (equal) {
      expect_equal(rung, second.transcript, first.transcript,
                   fmt::format("{} against {}", second.backend, first.backend));
    } else {
      compare_transcripts(first, second, bound, rung);
    }
  });
}

}  // namespace inferno::verify
