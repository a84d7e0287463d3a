#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/model.hpp>

#include "backend/registry.hpp"
#include "engine/serving_engine.hpp"
#include "support/forwarding_executor.hpp"

namespace inferno::test {

/// All that a request brought. Equality is that of the answer, not of how it came about.
struct Answer {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<float> logprobs;
  std::vector<std::vector<TokenId>> top_ids;
  std::vector<std::vector<float>> top_logprobs;
  std::vector<float> prompt_logprobs;
  std::vector<float> embedding;
  RequestEnd end = RequestEnd::failed;
  RequestOutcome outcome;
  std::vector<std::string> pieces;

  bool operator==(const Answer& other) const {
    return text == other.text && ids == other.ids && logprobs == other.logprobs && top_ids == other.top_ids &&
           top_logprobs == other.top_logprobs && prompt_logprobs == other.prompt_logprobs &&
           embedding == other.embedding && end == other.end;
  }
};
/// For failed comparisons.
void PrintTo(const Answer& answer, std::ostream* out);

/// Takes what is there; true once the outcome has come.
bool add_update(Answer& answer, StreamUpdate& update);
/// Reads a request to its end. Fails the test after a minute without anything.
Answer read_all(RequestStream& stream);
std::vector<Answer> read_all(std::vector<RequestStream>& streams);
/// Reads until so many tokens have come, or the end.
Answer read_tokens(RequestStream& stream, std::size_t count);

/// Waits until `condition` holds; false after ten seconds.
bool eventually(const std::function<bool()>& condition);

/// The counts once every request is over; fails the test if that does not come.
ServingMetrics settled(const ServingEngine& engine);

/// The model that ships with the project.
const Model& tale();
/// Two layers of random weights with a byte tokenizer, vocabulary 512: fast, and every token matters.
const Model& tiny();
/// The model of support/scripted_model.hpp with the bytes' tokenizer: ids 0 to 255 are bytes, 268 ends a
/// text; vocabulary 300. Without chains every logit is 0.
Model scripted(const std::vector<std::vector<TokenId>>& chains);
constexpr TokenId kScriptEnd = 268;

/// `count` ids of the tiny model, none of them an end token.
std::vector<TokenId> tiny_prompt(std::size_t count, std::uint64_t seed);
/// Eight rows on one thread.
ServingOptions small(std::uint32_t context = 640);
/// A request of the tiny model that goes on for so many tokens.
ServingRequest asking(std::size_t prompt, std::uint32_t tokens, std::uint64_t seed = 1);

/// An executor that can be held up, watched and broken. The engine owns it; the test holds its controls.
struct Controls {
  std::function<void(const StepBatch&)> before_submit;  ///< may throw what submit shall throw
  std::function<void(const StepBatch&)> before_wait;    ///< may throw what wait shall throw
  std::function<void(StepResult&)> change_result;
};
std::unique_ptr<Executor> controlled(const Model& model, const std::shared_ptr<Controls>& controls,
                                     std::string_view backend = "pool");

}  // namespace inferno::test
