#include "step/submission.hpp"

#include <utility>

namespace inferno {

void Submission::start(Ticket ticket, const StepBatch& batch, const SubmitOptions& options) {
  ticket_ = ticket;
  batch_ = batch;
  max_steps_ = options.max_steps;
  stop_ids_ = options.stop_ids;
  sink_ = options.sink;
  observer_ = options.observer;
  cancelled_by_ = options.cancelled;
  cancelled_.store(false, std::memory_order_relaxed);

  const std::size_t rows = batch.rows();
  const std::size_t outputs = batch.outputs.size();
  result_ = StepResult();
  result_.ids.resize(outputs);
  result_.scores.resize(outputs);
  result_.values.resize(outputs);
  result_.status.assign(rows, RowStatus::ok);
  result_.errors.resize(rows);
  runs_.assign(rows, true);
  running_ = static_cast<std::uint32_t>(rows);
  chosen_.assign(rows, -1);
  first_tokens_.resize(batch.tokens.size());
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) first_tokens_[i] = batch.tokens[i].id;

  token_outputs_.assign(rows, 0);
  std::size_t row = 0;
  for (std::size_t i = 0; i < outputs; ++i) {
    while (batch.row_offsets[row + 1] <= batch.outputs[i].token) ++row;
    if (batch.outputs[i].kind != OutputKind::token) continue;
    ++token_outputs_[row];
    result_.ids[i].reserve(max_steps_);
  }
}

void Submission::end_row(std::uint32_t row, RowStatus status) {
  if (!runs_[row]) return;
  runs_[row] = false;
  --running_;
  result_.status[row] = status;
}

void Submission::end_all(RowStatus status) {
  for (std::uint32_t row = 0; row < runs_.size(); ++row) end_row(row, status);
}

void Submission::heed_cancel() {
  if (cancelled()) end_all(RowStatus::cancelled);
}

void Submission::resolve(const ReferenceMemory& references) {
  for (std::uint32_t row = 0; row < runs_.size(); ++row) {
    for (std::uint32_t i = batch_.row_offsets[row]; i < batch_.row_offsets[row + 1]; ++i) {
      if (batch_.tokens[i].ticket == 0) continue;
      first_tokens_[i] = references.resolve(batch_.tokens[i]);
      if (first_tokens_[i] < 0) end_row(row, RowStatus::skipped);
    }
  }
}

void Submission::fill_tokens(std::vector<std::int32_t>& tokens) const {
  tokens.clear();
  for (std::uint32_t row = 0; row < runs_.size(); ++row) {
    if (!runs_[row]) continue;
    if (step() > 0) {
      tokens.push_back(chosen_[row]);
    } else {
      tokens.insert(tokens.end(), first_tokens_.begin() + batch_.row_offsets[row],
                    first_tokens_.begin() + batch_.row_offsets[row + 1]);
    }
  }
}

void Submission::choose(std::uint32_t row, std::uint32_t output, std::int32_t id) {
  chosen_[row] = id;
  result_.ids[output].push_back(id);
}

void Submission::fail(std::uint32_t row, std::string error) {
  if (!runs_[row]) return;
  result_.errors[row] = std::move(error);
  end_row(row, RowStatus::failed);
}

void Submission::fail_all(const std::string& error) {
  for (std::uint32_t row = 0; row < runs_.size(); ++row) fail(row, error);
}

void Submission::finish_step() {
  ++result_.steps;
  for (std::uint32_t row = 0; row < runs_.size(); ++row) {
    if (!runs_[row]) continue;
    // Drafts are the host's to accept: a stop id among them ends nothing yet.
    if (token_outputs_[row] == 1 && stop_ids_.stops(row, chosen_[row])) end_row(row, RowStatus::stopped);
  }
  if (result_.steps == max_steps_) end_all(RowStatus::ok);
}

}  // namespace inferno
