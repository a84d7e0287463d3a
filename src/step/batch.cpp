#include "step/batch.hpp"

#include <algorithm>
#include <fmt/format.h>

#include <inferno/error.hpp>

namespace inferno {

void StepBatch::clear() {
  tokens.clear();
  positions.clear();
  row_offsets.clear();
  blocks.clear();
  block_offsets.clear();
  slots.clear();
  outputs.clear();
}

std::uint32_t StepBatch::add_row(const std::vector<TokenInput>& row_tokens, std::uint32_t first_position,
                                 const std::vector<std::uint32_t>& row_blocks, std::uint32_t slot) {
  if (row_offsets.empty()) row_offsets.push_back(0);
  if (block_offsets.empty()) block_offsets.push_back(0);
  for (std::size_t i = 0; i < row_tokens.size(); ++i) {
    positions.push_back(first_position + static_cast<std::uint32_t>(i));
  }
  tokens.insert(tokens.end(), row_tokens.begin(), row_tokens.end());
  row_offsets.push_back(static_cast<std::uint32_t>(tokens.size()));
  blocks.insert(blocks.end(), row_blocks.begin(), row_blocks.end());
  block_offsets.push_back(static_cast<std::uint32_t>(blocks.size()));
  slots.push_back(slot);
  return static_cast<std::uint32_t>(rows() - 1);
}

std::uint32_t StepBatch::add_output(OutputKind kind, std::int32_t target) {
  if (rows() == 0) throw UsageError("step batch: add_output before the first row");
  const std::uint32_t row_size = row_offsets.back() - row_offsets[rows() - 1];
  if (row_size == 0) throw UsageError("step batch: add_output to a row without tokens");
  return add_output_at(row_size - 1, kind, target);
}

std::uint32_t StepBatch::add_output_at(std::uint32_t offset, OutputKind kind, std::int32_t target) {
  if (rows() == 0) throw UsageError("step batch: add_output_at before the first row");
  const std::uint32_t first = row_offsets[rows() - 1];
  const std::uint32_t row_size = row_offsets.back() - first;
  if (offset >= row_size) {
    throw UsageError(
        fmt::format("step batch: an output at token {} of a row of {} tokens", offset, row_size));
  }
  const std::uint32_t token = first + offset;
  if (!outputs.empty() && outputs.back().token > token) {
    throw UsageError(
        fmt::format("step batch: an output at token {} after one at token {}; ask in ascending order", token,
                    outputs.back().token));
  }
  outputs.push_back({token, kind, target});
  return static_cast<std::uint32_t>(outputs.size() - 1);
}

bool StopIds::stops(std::uint32_t row, std::int32_t id) const {
  if (row_offsets.empty()) return std::find(ids.begin(), ids.end(), id) != ids.end();
  const auto begin = ids.begin() + row_offsets[row];
  const auto end = ids.begin() + row_offsets[row + 1];
  return std::find(begin, end, id) != end;
}

}  // namespace inferno
