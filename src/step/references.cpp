#include "step/references.hpp"

#include <fmt/format.h>
#include <utility>

#include <inferno/error.hpp>

namespace inferno {

const ReferenceMemory::Entry* ReferenceMemory::find(Ticket ticket) const {
  if (ticket < first_ || ticket - first_ >= entries_.size()) return nullptr;
  return &entries_[ticket - first_];
}

ReferenceMemory::Entry* ReferenceMemory::find(Ticket ticket) {
  return const_cast<Entry*>(std::as_const(*this).find(ticket));
}

void ReferenceMemory::check(const StepBatch& batch) const {
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const TokenInput& token = batch.tokens[i];
    if (token.ticket == 0) continue;
    const Entry* entry = find(token.ticket);
    if (entry == nullptr) {
      throw UsageError(
          fmt::format("submission refused: tokens[{}].ticket: submission {} was made before the last "
                      "reserve and is forgotten",
                      i, token.ticket));
    }
    if (token.output >= entry->kinds.size()) {
      throw UsageError(
          fmt::format("submission refused: tokens[{}].output: expected an output below {}, those of "
                      "submission {}, found {}",
                      i, entry->kinds.size(), token.ticket, token.output));
    }
    if (entry->kinds[token.output] != OutputKind::token) {
      throw UsageError(
          fmt::format("submission refused: tokens[{}].output: output {} of submission {} is not of kind "
                      "token",
                      i, token.output, token.ticket));
    }
  }
}

void ReferenceMemory::add(Ticket ticket, const StepBatch& batch) {
  if (entries_.empty()) first_ = ticket;
  if (spare_.empty()) {
    entries_.emplace_back();
  } else {
    entries_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  Entry& entry = entries_.back();
  entry.kinds.clear();
  for (const Output& output : batch.outputs) entry.kinds.push_back(output.kind);
  entry.last.assign(batch.outputs.size(), -1);
}

void ReferenceMemory::finish(Ticket ticket, const StepBatch& batch, const StepResult& result) {
  Entry* entry = find(ticket);
  if (entry == nullptr) return;
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.outputs.size(); ++i) {
    while (batch.row_offsets[row + 1] <= batch.outputs[i].token) ++row;
    if (result.status[row] == RowStatus::ok && !result.ids[i].empty()) entry->last[i] = result.ids[i].back();
  }
}

std::int32_t ReferenceMemory::resolve(const TokenInput& reference) const {
  const Entry* entry = find(reference.ticket);
  return entry == nullptr ? -1 : entry->last[reference.output];
}

void ReferenceMemory::forget_before(Ticket oldest) {
  while (!entries_.empty() && first_ < oldest) {
    spare_.push_back(std::move(entries_.front()));
    entries_.pop_front();
    ++first_;
  }
}

void ReferenceMemory::clear() {
  forget_before(first_ + entries_.size());
}

}  // namespace inferno
