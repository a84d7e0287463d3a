#include "engine/step_assembly.hpp"

#include "sampling/logprobs.hpp"

namespace inferno {
namespace {

void fill_logprobs(std::span<const float> logits, std::uint32_t count, std::vector<TokenId>& top,
                   TokenEvent& event) {
  const auto normalizer = log_normalizer(logits);
  const auto logprob = [&](TokenId id) {
    return normalizer.log_probability(logits[static_cast<std::size_t>(id)]);
  };
  event.logprob = logprob(event.id);
  largest_logits(logits, count, top);
  event.top.clear();
  for (const auto id : top) event.top.push_back({id, logprob(id)});
}

}  // namespace

void StepAssembly::build(std::span<const ScheduledRow> rows, Executor& executor) {
  rows_ = rows;
  batch_.clear();
  batch_.row_offsets.push_back(0);
  batch_.block_offsets.push_back(0);
  wanted_.clear();
  choice_.assign(rows.size(), kNone);
  logits_of_row_.assign(rows.size(), kNone);
  logits_used_ = 0;
  for (std::uint32_t index = 0; index < rows.size(); ++index) {
    auto& request = *rows[index].request;
    if (request.slot != kGreedySlot && rows[index].completes() &&
        (!request.slot_is_set || request.constraint)) {
      auto state = request.sequence.slot_state();
      if (request.task) state.allowed = request.task->allowed;
      executor.set_slot(request.slot, state);
      request.slot_is_set = true;
    }
    add_row(rows[index], index);
  }
}

void StepAssembly::add_row(const ScheduledRow& row, std::uint32_t index) {
  auto& request = *row.request;
  const auto begin = static_cast<std::uint32_t>(batch_.tokens.size());
  const auto& tokens = request.sequence.tokens();
  for (auto position = row.first; position < row.first + row.count; ++position) {
    batch_.tokens.push_back(TokenInput::of(tokens[position]));
    batch_.positions.push_back(position);
  }
  batch_.row_offsets.push_back(begin + row.count);
  const auto& blocks = request.cache->blocks();
  batch_.blocks.insert(batch_.blocks.end(), blocks.begin(), blocks.end());
  batch_.block_offsets.push_back(static_cast<std::uint32_t>(batch_.blocks.size()));
  batch_.slots.push_back(row.completes() ? request.slot : kGreedySlot);

  const auto last = row.count - 1;
  const auto want_at = [&](std::uint32_t offset, Purpose purpose, OutputKind kind) {
    want(index, purpose, begin + offset, row.first + offset, kind);
  };
  for (std::uint32_t offset = 0; offset < row.count; ++offset) {
    const auto position = row.first + offset;
    if (request.kind == RequestKind::embed_mean) want_at(offset, Purpose::pooling, OutputKind::hidden);
    if (request.prompt_logprobs && position + 1 < request.sequence.prompt_size() &&
        position + 1 >= request.scored) {
      want_at(offset, Purpose::prompt_logits, OutputKind::logits);
    }
  }
  if (!row.completes()) return;
  if (request.kind == RequestKind::embed_last_token) want_at(last, Purpose::pooling, OutputKind::hidden);
  if (!request.generates() || request.sequence.finish_reason()) return;
  choice_[index] = static_cast<std::uint32_t>(wanted_.size());
  want_at(last, Purpose::choice, OutputKind::token);
  if (request.logprobs) want_at(last, Purpose::choice_logits, OutputKind::logits);
}

void StepAssembly::want(std::uint32_t index, Purpose purpose, std::uint32_t token, std::uint32_t position,
                        OutputKind kind) {
  wanted_.push_back({purpose, index, position});
  batch_.outputs.push_back({token, kind, -1});
}

void StepAssembly::take(std::uint32_t output, std::uint32_t /*step*/, std::span<const float> values) {
  const auto& wanted = wanted_[output];
  auto& request = *rows_[wanted.row].request;
  switch (wanted.purpose) {
    case Purpose::choice:
      return;
    case Purpose::choice_logits:
      if (logits_.size() == logits_used_) logits_.emplace_back();
      logits_[logits_used_].assign(values.begin(), values.end());
      logits_of_row_[wanted.row] = logits_used_++;
      return;
    case Purpose::prompt_logits: {
      if (request.scored == 0)
        request.prompt_events.push_back({.id = request.sequence.tokens()[request.scored++]});
      if (request.scored != wanted.position + 1) return;  // done before a step was lost
      TokenEvent event{.id = request.sequence.tokens()[request.scored++]};
      fill_logprobs(values, *request.prompt_logprobs, top_, event);
      request.prompt_events.push_back(std::move(event));
      return;
    }
    case Purpose::pooling:
      // In ascending order of positions, whatever the chunks: the same sum, bit for bit.
      if (request.pooled_tokens != (request.kind == RequestKind::embed_mean ? wanted.position : 0)) return;
      request.pooled.resize(values.size(), 0.0);
      for (std::size_t i = 0; i < values.size(); ++i) request.pooled[i] += static_cast<double>(values[i]);
      ++request.pooled_tokens;
      return;
  }
}

TokenId StepAssembly::chosen(std::size_t row, const StepResult& result) const {
  if (choice_[row] == kNone) return -1;
  const auto& ids = result.ids[choice_[row]];
  return ids.empty() ? -1 : ids.front();
}

void StepAssembly::describe(std::size_t row, TokenEvent& event) {
  const auto& request = *rows_[row].request;
  if (!request.logprobs || logits_of_row_[row] == kNone) return;
  fill_logprobs(logits_[logits_of_row_[row]], *request.logprobs, top_, event);
}

}  // namespace inferno
