#include "verify/probe.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include <inferno/error.hpp>

namespace inferno::verify {
namespace {

std::uint32_t size_of(const Ids& ids) {
  return static_cast<std::uint32_t>(ids.size());
}

std::vector<TokenInput> inputs(std::span<const std::int32_t> ids) {
  std::vector<TokenInput> tokens;
  tokens.reserve(ids.size());
  for (const auto id : ids) tokens.push_back(TokenInput::of(id));
  return tokens;
}

}  // namespace

Probe::Probe(Executor& executor, std::uint32_t positions, std::uint32_t block_size,
             std::function<void()> before_submission)
    : executor_(executor),
      before_submission_(std::move(before_submission)),
      // One sequence more than there are rows: blocks to move to.
      pool_((positions + block_size - 1) / block_size * (kRows + 1)) {
  Limits limits;
  limits.max_rows = kRows;
  limits.max_tokens = positions * kRows;
  limits.max_outputs = positions * kRows;
  limits.max_steps = kChainedSteps;
  limits.block_size = block_size;
  limits.blocks = pool_.capacity();
  limits.max_context = pool_.capacity() / (kRows + 1) * block_size;
  limits.slots = 1;
  executor_.reserve(limits);
}

SequenceCache Probe::cache(KvKind kind, std::size_t positions) {
  const auto count = static_cast<std::uint32_t>(positions);
  SequenceCache sequence(pool_, kind, executor_.limits().block_size, count);
  if (!sequence.extend(count)) {
    throw Error(fmt::format("verify: {} positions do not fit the {} cache blocks that are left", positions,
                            pool_.available()));
  }
  return sequence;
}

StepResult Probe::run(const StepBatch& batch, const SubmitOptions& options) {
  before_submission_();
  auto result = executor_.wait(executor_.submit(batch, options));
  for (std::size_t row = 0; row < result.status.size(); ++row) {
    if (result.status[row] == RowStatus::ok) continue;
    throw Error(fmt::format("backend {}: row {} ended as {}{}{}", executor_.capabilities().backend, row,
                            row_status_name(result.status[row]), result.errors[row].empty() ? "" : ": ",
                            result.errors[row]));
  }
  return result;
}

void Probe::submit(const std::vector<Part>& parts) {
  StepBatch batch;
  for (const auto& part : parts) {
    batch.add_row(inputs(std::span(part.ids).subspan(part.begin, part.end - part.begin)), part.begin,
                  part.blocks);
    for (std::uint32_t i = 0; i < part.end - part.begin; ++i) batch.add_output_at(i, OutputKind::logits);
  }
  const auto result = run(batch);
  std::size_t output = 0;
  for (const auto& part : parts) {
    for (auto position = part.begin; position < part.end; ++position, ++output) {
      part.logits.insert(part.logits.end(), result.values[output].begin(), result.values[output].end());
    }
  }
}

std::vector<float> Probe::logits(const Ids& ids, std::uint32_t chunk, KvKind kind) {
  const auto sequence = cache(kind, ids.size());
  std::vector<float> logits;
  for (std::uint32_t begin = 0; begin < ids.size(); begin += chunk) {
    submit({{ids, begin, std::min(begin + chunk, size_of(ids)), sequence.blocks(), logits}});
  }
  return logits;
}

std::vector<std::vector<float>> Probe::logits_together(const std::vector<Ids>& sequences,
                                                       std::uint32_t chunk) {
  std::vector<SequenceCache> caches;
  std::size_t longest = 0;
  // Blocks are taken in turns, so that no row's table is a run.
  for (const auto& ids : sequences) {
    caches.emplace_back(pool_, KvKind::paged, executor_.limits().block_size, size_of(ids));
    longest = std::max(longest, ids.size());
  }
  for (std::uint32_t reach = 1; reach <= longest; ++reach) {
    for (std::size_t row = 0; row < sequences.size(); ++row) {
      if (!caches[row].extend(std::min(reach, size_of(sequences[row])))) {
        throw Error("verify: the sequences do not fit the cache");
      }
    }
  }
  std::vector<std::vector<float>> logits(sequences.size());
  for (std::uint32_t begin = 0; begin < longest; begin += chunk) {
    std::vector<Part> parts;
    for (std::size_t row = 0; row < sequences.size(); ++row) {
      const auto end = std::min(begin + chunk, size_of(sequences[row]));
      if (begin < end) parts.push_back({sequences[row], begin, end, caches[row].blocks(), logits[row]});
    }
    submit(parts);
  }
  return logits;
}

std::vector<float> Probe::recomputed_logits(std::span<const std::int32_t> ids) {
  const auto sequence = cache(KvKind::none, ids.size());
  StepBatch batch;
  batch.add_row(inputs(ids), 0, sequence.blocks());
  batch.add_output(OutputKind::logits);
  auto result = run(batch);
  return std::move(result.values[0]);
}

std::vector<float> Probe::logits_after_transfer(const Ids& ids) {
  const auto half = std::max(size_of(ids) / 2, 1U);
  std::vector<float> logits;
  const auto from = cache(KvKind::paged, half);
  submit({{ids, 0, half, from.blocks(), logits}});
  const auto bytes = executor_.export_blocks(from.blocks());
  // `from` still holds its blocks, so these are others.
  const auto to = cache(KvKind::paged, ids.size());
  executor_.import_blocks(std::span(to.blocks()).first(from.blocks().size()), bytes);
  if (half < ids.size()) submit({{ids, half, size_of(ids), to.blocks(), logits}});
  return logits;
}

Transcript Probe::greedy(const Ids& prompt, std::uint32_t count, std::uint32_t steps) {
  const auto sequence = cache(KvKind::paged, prompt.size() + count);
  const bool with_logits = executor_.capabilities().logits;
  Transcript transcript;
  auto fed = prompt;
  std::uint32_t position = 0;
  while (transcript.ids.size() < count) {
    StepBatch batch;
    batch.add_row(inputs(fed), position, sequence.blocks());
    const auto token = batch.add_output(OutputKind::token);
    const auto logits = with_logits ? batch.add_output(OutputKind::logits) : token;
    SubmitOptions options;
    options.max_steps = std::min(steps, count - static_cast<std::uint32_t>(transcript.ids.size()));
    const auto result = run(batch, options);
    const auto& ids = result.ids[token];
    position += size_of(fed) + size_of(ids) - 1;
    transcript.ids.insert(transcript.ids.end(), ids.begin(), ids.end());
    if (with_logits) {
      transcript.logits.insert(transcript.logits.end(), result.values[logits].begin(),
                               result.values[logits].end());
    }
    fed = {ids.back()};
  }
  return transcript;
}

}  // namespace inferno::verify
