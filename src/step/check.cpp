#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <utility>

#include "step/plan.hpp"

namespace inferno {
namespace {

template <typename... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw UsageError("submission refused: " + fmt::format(format, std::forward<Arguments>(arguments)...));
}

[[noreturn]] void lacks(std::string_view field, std::string_view what, const Capabilities& capabilities) {
  refuse("{}: backend {} declares no {}", field, capabilities.backend, what);
}

void check_size(std::string_view field, std::size_t size, std::string_view what, std::string_view limit_name,
                std::uint32_t limit) {
  if (size > limit)
    refuse("{}: at most {} = {} {} were reserved, found {}", field, limit_name, limit, what, size);
}

bool in_vocabulary(std::int32_t id, std::uint32_t vocab_size) {
  return id >= 0 && static_cast<std::uint32_t>(id) < vocab_size;
}

// [R + 1] offsets from 0 to `size`, ascending; strictly if every row needs an entry.
void check_offsets(std::string_view field, const std::vector<std::uint32_t>& offsets, std::size_t rows,
                   std::string_view into, std::size_t size, bool strictly) {
  if (offsets.size() != rows + 1) {
    refuse("{}: expected {} entries (rows + 1), found {}", field, rows + 1, offsets.size());
  }
  if (offsets.front() != 0) refuse("{}[0]: expected 0, found {}", field, offsets.front());
  for (std::size_t i = 1; i <= rows; ++i) {
    if (offsets[i] > offsets[i - 1] || (!strictly && offsets[i] == offsets[i - 1])) continue;
    refuse("{}[{}]: expected {} {}, found {}", field, i, strictly ? "more than" : "at least", offsets[i - 1],
           offsets[i]);
  }
  if (offsets.back() != size) {
    refuse("{}[{}]: expected {} (the size of {}), found {}", field, rows, size, into, offsets.back());
  }
}

void check_tokens(const StepBatch& batch, const Capabilities& capabilities, std::uint32_t vocab_size,
                  Ticket next_ticket) {
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    const TokenInput& token = batch.tokens[i];
    if (token.ticket == 0) {
      if (in_vocabulary(token.id, vocab_size)) continue;
      refuse("tokens[{}].id: expected 0 to {}, found {}", i, vocab_size - 1, token.id);
    }
    if (!capabilities.token_references) {
      lacks(fmt::format("tokens[{}].ticket", i), "token references", capabilities);
    }
    if (token.ticket >= next_ticket) {
      refuse("tokens[{}].ticket: expected an earlier submission, below {}, found {}", i, next_ticket,
             token.ticket);
    }
    if (next_ticket - token.ticket > capabilities.referable_tickets) {
      refuse("tokens[{}].ticket: expected one of the {} latest submissions, {} to {}, found {}", i,
             capabilities.referable_tickets,
             next_ticket - std::min<Ticket>(capabilities.referable_tickets, next_ticket - 1), next_ticket - 1,
             token.ticket);
    }
  }
}

void check_positions(const StepBatch& batch, std::uint32_t max_steps, const Limits& limits) {
  if (batch.positions.size() != batch.tokens.size()) {
    refuse("positions: expected {} entries (one per token), found {}", batch.tokens.size(),
           batch.positions.size());
  }
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const std::uint32_t begin = batch.row_offsets[row];
    const std::uint32_t end = batch.row_offsets[row + 1];
    const std::uint64_t first = batch.positions[begin];
    for (std::uint32_t i = begin + 1; i < end; ++i) {
      if (batch.positions[i] == first + (i - begin)) continue;
      refuse("positions[{}]: expected {} (consecutive within row {}), found {}", i, first + (i - begin), row,
             batch.positions[i]);
    }
    const std::uint64_t last = first + (end - begin) + max_steps - 2;
    if (last >= limits.max_context) {
      refuse(
          "positions[{}]: row {} would reach position {} with {} tokens from position {} and max_steps = {}; "
          "max_context = {} was reserved",
          begin, row, last, end - begin, first, max_steps, limits.max_context);
    }
  }
}

// Blocks of row `row` that the submission uses: those up to its last position; check_positions has run.
struct UsedBlocks {
  std::uint32_t first_written;  // index into the row's table
  std::uint32_t end;
};

UsedBlocks used_blocks(const StepBatch& batch, std::size_t row, std::uint32_t max_steps,
                       const Limits& limits) {
  const std::uint32_t first = batch.positions[batch.row_offsets[row]];
  const std::uint32_t count = batch.row_offsets[row + 1] - batch.row_offsets[row];
  return {first / limits.block_size, (first + (count + max_steps - 2)) / limits.block_size + 1};
}

void check_tables(const StepBatch& batch, std::uint32_t max_steps, const Limits& limits) {
  check_offsets("block_offsets", batch.block_offsets, batch.rows(), "blocks", batch.blocks.size(), false);
  for (std::size_t i = 0; i < batch.blocks.size(); ++i) {
    if (batch.blocks[i] >= limits.blocks) {
      refuse("blocks[{}]: expected a block below {}, found {}", i, limits.blocks, batch.blocks[i]);
    }
  }
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const std::uint32_t size = batch.block_offsets[row + 1] - batch.block_offsets[row];
    const UsedBlocks used = used_blocks(batch, row, max_steps, limits);
    if (size >= used.end) continue;
    refuse(
        "block_offsets[{}]: the table of row {} has {} blocks of {} positions; expected {} for its last "
        "position, "
        "{}",
        row + 1, row, size, limits.block_size, used.end,
        std::uint64_t{batch.positions[batch.row_offsets[row + 1] - 1]} + max_steps - 1);
  }
}

// A block that one row writes must not be seen by another, nor twice by the same. Linear in the tables.
void check_exclusive(const StepBatch& batch, std::uint32_t max_steps, const Limits& limits) {
  constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();
  thread_local std::vector<std::uint32_t>
      writer;  // [blocks] the table entry that writes it; kNobody between calls
  if (writer.size() < limits.blocks) writer.resize(limits.blocks, kNobody);

  const auto for_each_used = [&](bool written_only, auto&& visit) {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const UsedBlocks used = used_blocks(batch, row, max_steps, limits);
      for (std::uint32_t i = written_only ? used.first_written : 0; i < used.end; ++i) {
        visit(row, batch.block_offsets[row] + i);
      }
    }
  };
  for_each_used(true, [&](std::size_t, std::uint32_t entry) {
    if (writer[batch.blocks[entry]] == kNobody) writer[batch.blocks[entry]] = entry;
  });
  std::uint32_t bad_entry = kNobody;
  std::uint32_t bad_writer = kNobody;
  std::size_t bad_row = 0;
  for_each_used(false, [&](std::size_t row, std::uint32_t entry) {
    const std::uint32_t written_by = writer[batch.blocks[entry]];
    if (bad_entry != kNobody || written_by == kNobody || written_by == entry) return;
    bad_entry = entry;
    bad_writer = written_by;
    bad_row = row;
  });
  for_each_used(true, [&](std::size_t, std::uint32_t entry) { writer[batch.blocks[entry]] = kNobody; });
  if (bad_entry == kNobody) return;
  refuse(
      "blocks[{}]: block {}, which blocks[{}] writes to, is used again by row {}; expected a block that a "
      "row writes "
      "to in no other place",
      bad_entry, batch.blocks[bad_entry], bad_writer, bad_row);
}

void check_slots(const StepBatch& batch, const Limits& limits, const Capabilities& capabilities) {
  if (batch.slots.size() != batch.rows()) {
    refuse("slots: expected {} entries (one per row), found {}", batch.rows(), batch.slots.size());
  }
  thread_local std::vector<bool> taken;  // [slots]; all false between calls
  if (taken.size() < limits.slots) taken.resize(limits.slots, false);
  std::size_t marked = 0;
  std::string problem;
  for (; marked < batch.slots.size() && problem.empty(); ++marked) {
    const std::uint32_t slot = batch.slots[marked];
    if (slot == kGreedySlot) continue;
    if (!capabilities.sampling_slots) {
      problem = fmt::format("slots[{}]: backend {} declares no sampling slots; expected kGreedySlot", marked,
                            capabilities.backend);
    } else if (slot >= limits.slots) {
      problem = fmt::format("slots[{}]: expected kGreedySlot or a slot below {}, found {}", marked,
                            limits.slots, slot);
    } else if (taken[slot]) {
      problem = fmt::format("slots[{}]: slot {} serves another row of the batch already", marked, slot);
    } else {
      taken[slot] = true;
    }
  }
  for (std::size_t i = 0; i < marked; ++i) {
    if (batch.slots[i] < limits.slots) taken[batch.slots[i]] = false;
  }
  if (!problem.empty()) refuse("{}", problem);
}

void check_output_kind(const Output& output, std::size_t index, const Capabilities& capabilities,
                       std::uint32_t vocab_size) {
  switch (output.kind) {
    case OutputKind::token:
      return;
    case OutputKind::logits:
      if (!capabilities.logits) lacks(fmt::format("outputs[{}].kind", index), "logits", capabilities);
      return;
    case OutputKind::score:
      if (!capabilities.scores) lacks(fmt::format("outputs[{}].kind", index), "scores", capabilities);
      if (in_vocabulary(output.target, vocab_size)) return;
      refuse("outputs[{}].target: expected 0 to {}, found {}", index, vocab_size - 1, output.target);
    case OutputKind::hidden:
      if (!capabilities.hidden) lacks(fmt::format("outputs[{}].kind", index), "hidden states", capabilities);
      return;
  }
  refuse("outputs[{}].kind: expected token, logits, score or hidden (0 to 3), found {}", index,
         static_cast<unsigned>(output.kind));
}

void check_outputs(const StepBatch& batch, std::uint32_t max_steps, const Capabilities& capabilities,
                   std::uint32_t vocab_size) {
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < batch.outputs.size(); ++i) {
    const Output& output = batch.outputs[i];
    if (output.token >= batch.tokens.size()) {
      refuse("outputs[{}].token: expected an index below {} (the size of tokens), found {}", i,
             batch.tokens.size(), output.token);
    }
    if (output.token < before) {
      refuse("outputs[{}].token: expected at least {} (ascending), found {}", i, before, output.token);
    }
    before = output.token;
    check_output_kind(output, i, capabilities, vocab_size);
  }
  if (max_steps == 1) return;

  std::size_t i = 0;
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const std::uint32_t last = batch.row_offsets[row + 1] - 1;
    std::size_t chosen = 0;
    for (; i < batch.outputs.size() && batch.outputs[i].token <= last; ++i) {
      if (batch.outputs[i].kind != OutputKind::token) continue;
      ++chosen;
      if (batch.outputs[i].token != last) {
        refuse(
            "outputs[{}].token: with max_steps = {} the token output of row {} belongs to its last token, "
            "{}; "
            "found {}",
            i, max_steps, row, last, batch.outputs[i].token);
      }
    }
    if (chosen != 1) {
      refuse(
          "outputs: with max_steps = {} row {} needs exactly one output of kind token, at its last token; "
          "found {}",
          max_steps, row, chosen);
    }
  }
}

void check_options(const StepBatch& batch, const SubmitOptions& options, const Limits& limits,
                   const Capabilities& capabilities, std::uint32_t vocab_size) {
  if (options.max_steps == 0) refuse("max_steps: expected at least 1, found 0");
  if (options.max_steps > 1 && !capabilities.multi_step) lacks("max_steps", "chained steps", capabilities);
  if (options.max_steps > limits.max_steps) {
    refuse("max_steps: at most max_steps = {} were reserved, found {}", limits.max_steps, options.max_steps);
  }
  if (options.observer != nullptr && !capabilities.observation)
    lacks("observer", "observation", capabilities);
  if (!options.stop_ids.row_offsets.empty()) {
    check_offsets("stop_ids.row_offsets", options.stop_ids.row_offsets, batch.rows(), "stop_ids.ids",
                  options.stop_ids.ids.size(), false);
  }
  for (std::size_t i = 0; i < options.stop_ids.ids.size(); ++i) {
    if (in_vocabulary(options.stop_ids.ids[i], vocab_size)) continue;
    refuse("stop_ids.ids[{}]: expected 0 to {}, found {}", i, vocab_size - 1, options.stop_ids.ids[i]);
  }
}

}  // namespace

void check_submission(const StepBatch& batch, const SubmitOptions& options, const Limits& limits,
                      const Capabilities& capabilities, std::uint32_t vocab_size, Ticket next_ticket) {
  if (batch.rows() == 0) {
    refuse("row_offsets: expected at least 2 entries (one row), found {}", batch.row_offsets.size());
  }
  // Sizes first: afterwards every index fits 32 bits and every loop is as long as what was reserved.
  check_size("row_offsets", batch.rows(), "rows", "max_rows", limits.max_rows);
  check_size("tokens", batch.tokens.size(), "tokens", "max_tokens", limits.max_tokens);
  check_size("outputs", batch.outputs.size(), "outputs", "max_outputs", limits.max_outputs);
  check_offsets("row_offsets", batch.row_offsets, batch.rows(), "tokens", batch.tokens.size(), true);
  check_options(batch, options, limits, capabilities, vocab_size);
  check_tokens(batch, capabilities, vocab_size, next_ticket);
  check_positions(batch, options.max_steps, limits);
  check_tables(batch, options.max_steps, limits);
  check_exclusive(batch, options.max_steps, limits);
  check_slots(batch, limits, capabilities);
  check_outputs(batch, options.max_steps, capabilities, vocab_size);
}

void check_limits(const Limits& limits) {
  const auto at_least_one = [](std::string_view name, std::uint32_t value) {
    if (value == 0) throw UsageError(fmt::format("limits: {}: expected at least 1, found 0", name));
  };
  at_least_one("max_rows", limits.max_rows);
  at_least_one("max_tokens", limits.max_tokens);
  at_least_one("max_outputs", limits.max_outputs);
  at_least_one("max_steps", limits.max_steps);
  at_least_one("max_context", limits.max_context);
  at_least_one("blocks", limits.blocks);
  if (limits.block_size == 0 || kSplitPositions % limits.block_size != 0) {
    throw UsageError(fmt::format("limits: block_size: expected a divisor of {}, found {}", kSplitPositions,
                                 limits.block_size));
  }
  // kGreedySlot is no slot, and ids of blocks and slots are kept in 32 bits with one value to spare.
  if (limits.slots == kGreedySlot || limits.blocks == kGreedySlot) {
    throw UsageError(fmt::format("limits: {}: expected less than {}",
                                 limits.slots == kGreedySlot ? "slots" : "blocks", kGreedySlot));
  }
}

void check_blocks(std::span<const std::uint32_t> blocks, const Limits& limits, std::string_view what) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] < limits.blocks) continue;
    throw UsageError(
        fmt::format("{}[{}]: expected a block below {}, found {}", what, i, limits.blocks, blocks[i]));
  }
}

}  // namespace inferno
