#pragma once

#include <cstdint>
#include <vector>

namespace inferno {

/// Names one submission; counts from 1 in the order of submission. 0 is no ticket.
using Ticket = std::uint64_t;

/// One input token: an id, or a reference to what an earlier submission chose last for one of its
/// outputs, so that a step can be submitted before the host knows the token.
struct TokenInput {
  std::int32_t id = 0;       ///< used if ticket is 0
  Ticket ticket = 0;         ///< the earlier submission
  std::uint32_t output = 0;  ///< index into that submission's outputs; of kind token

  static TokenInput of(std::int32_t token_id) { return {token_id, 0, 0}; }
  static TokenInput from(Ticket earlier, std::uint32_t its_output) { return {0, earlier, its_output}; }
};

enum class OutputKind : std::uint8_t {
  token,   ///< the id chosen by the row's slot
  logits,  ///< [V] float
  score,  ///< natural log of the target's probability under the whole distribution (before sampling settings)
  hidden,  ///< [D] float: the hidden state after the final norm
};

/// One thing wanted of one token's position.
struct Output {
  std::uint32_t token = 0;  ///< index into StepBatch::tokens
  OutputKind kind = OutputKind::token;
  std::int32_t target = -1;  ///< score: the id whose log-probability is asked for
};

/// A row's slot that needs no state: greedy over the plain logits.
inline constexpr std::uint32_t kGreedySlot = 0xFFFF'FFFF;

/// One step over a ragged batch, as flat arrays that do not point into each other. A *row* is one
/// sequence's share: one or more new tokens at consecutive positions. There is no `is_prefill`: a prompt,
/// a chunk of a prompt, a decode step, drafts to verify and any mixture are the same call.
///
/// T tokens, R rows, O outputs.
struct StepBatch {
  std::vector<TokenInput> tokens;          ///< [T], row after row
  std::vector<std::uint32_t> positions;    ///< [T]; within a row consecutive and ascending
  std::vector<std::uint32_t> row_offsets;  ///< [R + 1]; row r has tokens row_offsets[r] .. row_offsets[r + 1]
  /// Cache blocks of every row, row after row: entry i of a row's table holds positions
  /// [i * block_size, (i + 1) * block_size). It must reach the last position that this submission writes,
  /// and every position before the row's first token must have been written (by an earlier submission, a
  /// copy or an import; the host knows, executors do not check it). Blocks that a row writes to belong to
  /// this row alone: they are in the used part of no other row's table, and once in its own.
  std::vector<std::uint32_t> blocks;
  std::vector<std::uint32_t> block_offsets;  ///< [R + 1], into blocks
  /// [R] sampling slot of each row, or kGreedySlot. A slot serves one row of a batch: two rows that draw on
  /// one history would depend on each other.
  std::vector<std::uint32_t> slots;
  std::vector<Output> outputs;  ///< [O], ascending by token

  std::size_t rows() const { return row_offsets.empty() ? 0 : row_offsets.size() - 1; }
  /// Empties the batch and keeps its memory.
  void clear();

  /// Appends a row and returns its index. Outputs of earlier rows cannot be added after this.
  std::uint32_t add_row(const std::vector<TokenInput>& row_tokens, std::uint32_t first_position,
                        const std::vector<std::uint32_t>& row_blocks, std::uint32_t slot = kGreedySlot);
  /// Asks for an output at the last token of the last row; returns its index. Throws UsageError if there is
  /// no row.
  std::uint32_t add_output(OutputKind kind, std::int32_t target = -1);
  /// Asks for an output at token `offset` of the last row; returns its index. Throws UsageError if the row
  /// has no such token, or if a later token has an output already: outputs ascend by token, and indices that
  /// were returned stay true.
  std::uint32_t add_output_at(std::uint32_t offset, OutputKind kind, std::int32_t target = -1);
};

/// Token ids of the vocabulary that end a row. If `row_offsets` is empty, `ids` holds for every row.
struct StopIds {
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> row_offsets;  ///< empty, or [R + 1] into ids

  /// Whether `id` ends row `row`, which the offsets reach (check_submission has seen to it).
  bool stops(std::uint32_t row, std::int32_t id) const;
};

}  // namespace inferno
