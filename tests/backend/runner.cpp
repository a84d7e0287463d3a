#include "backend/runner.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>

#include "backend/registry.hpp"

namespace inferno::test {

Runner::Runner(const LoadedModel& model, const RunnerOptions& options)
    : executor_(create_executor(options.backend, model)), vocab_size_(model.config.vocab_size) {
  Limits limits;
  limits.max_tokens = std::max(512U, options.context);
  limits.max_outputs = limits.max_tokens;
  limits.max_context = options.context;
  limits.block_size = options.block_size;
  const std::uint32_t needed = (options.context + options.block_size - 1) / options.block_size;
  limits.blocks = 2 * needed;
  executor_->reserve(limits);
  blocks_.resize(needed);
  for (std::uint32_t i = 0; i < needed; ++i) {
    // Every other block from the back: descending, with gaps.
    blocks_[i] = options.layout == Layout::contiguous ? i : limits.blocks - 1 - 2 * i;
  }
}

StepResult Runner::feed(std::span<const std::int32_t> ids, std::size_t first_position, OutputKind kind,
                        bool all) {
  StepBatch batch;
  std::vector<TokenInput> tokens;
  for (const auto id : ids) tokens.push_back(TokenInput::of(id));
  batch.add_row(tokens, static_cast<std::uint32_t>(first_position), blocks_);
  for (std::size_t i = all ? 0 : ids.size() - 1; i < ids.size(); ++i) {
    batch.add_output_at(static_cast<std::uint32_t>(i), kind);
  }
  auto result = executor_->wait(executor_->submit(batch));
  EXPECT_EQ(result.status, std::vector{RowStatus::ok}) << result.errors.at(0);
  return result;
}

Logits Runner::logits(std::span<const std::int32_t> ids, std::size_t chunk) {
  Logits all;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    for (auto& values : feed(part, first, OutputKind::logits, true).values) all.push_back(std::move(values));
  }
  return all;
}

Logits Runner::logits_recomputed(std::span<const std::int32_t> ids) {
  Logits all;
  for (std::size_t length = 1; length <= ids.size(); ++length) {
    all.push_back(std::move(feed(ids.first(length), 0, OutputKind::logits, false).values.at(0)));
  }
  return all;
}

std::vector<float> Runner::last_logits(std::span<const std::int32_t> ids, std::size_t chunk) {
  StepResult result;
  for (std::size_t first = 0; first < ids.size(); first += chunk) {
    const auto part = ids.subspan(first, std::min(chunk, ids.size() - first));
    result = feed(part, first, OutputKind::logits, false);
  }
  return std::move(result.values.at(0));
}

std::vector<std::int32_t> Runner::greedy(std::span<const std::int32_t> prompt, std::size_t count,
                                         std::size_t chunk) {
  std::vector<std::int32_t> chosen;
  std::size_t position = 0;
  for (; position < prompt.size(); position += chunk) {
    const auto part = prompt.subspan(position, std::min(chunk, prompt.size() - position));
    chosen = feed(part, position, OutputKind::token, false).ids.at(0);
  }
  position = prompt.size();
  while (chosen.size() < count) {
    const std::int32_t last = chosen.back();
    chosen.push_back(feed({&last, 1}, position++, OutputKind::token, false).ids.at(0).at(0));
  }
  return chosen;
}

template <typename Number>
double relative_error(std::span<const Number> expected, std::span<const float> actual) {
  if (expected.size() != actual.size() || expected.empty()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    const double here = std::abs(static_cast<double>(expected[i]) - static_cast<double>(actual[i]));
    if (!(here <= difference)) difference = here;  // NaN stays
  }
  return difference / largest;
}

template double relative_error<double>(std::span<const double>, std::span<const float>);
template double relative_error<float>(std::span<const float>, std::span<const float>);

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(INFERNO_TEST_DATA) / "golden" / name;
}

std::filesystem::path shipped_model() {
  return std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf";
}

}  // namespace inferno::test
