#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backend/gpu/device.hpp"
#include "backend/gpu/fusions.hpp"
#include "model/config.hpp"
#include "model/rope.hpp"
#include "step/deferred_executor.hpp"

namespace inferno::gpu {

/// A vector per token, in the forms that products read: quantized, as floats, or both.
struct Activations {
  std::uint32_t columns = 0;
  std::uint32_t stride = 0;        ///< columns padded
  std::unique_ptr<Buffer> floats;  ///< [T][stride]
  std::unique_ptr<Buffer> quants;  ///< int8 [T][stride]
  std::unique_ptr<Buffer> scales;  ///< float [T][stride / 32]
};

/// The tokens [first, end) whose attention runs together, because their splits' results fit the scratch.
struct AttentionGroup {
  std::uint32_t first_token = 0;
  std::uint32_t tokens = 0;
  std::uint32_t first_tile = 0;
  std::uint32_t tiles = 0;

  friend bool operator==(const AttentionGroup&, const AttentionGroup&) = default;
};

/// The shape of a step: all that a recording depends on. Positions, tables and ids are in small buffers.
struct StepShape {
  std::uint32_t tokens = 0;
  std::uint32_t heads = 0;  ///< rows of the final norm
  bool gathers = false;     ///< those are not simply the tokens
  bool lm_head = false;
  std::vector<AttentionGroup> groups;

  friend bool operator==(const StepShape&, const StepShape&) = default;
};

/// What the outputs of the widest products are laid out like; the weights know.
struct StepStrides {
  std::uint32_t qkv = 0;
  std::uint32_t gate_up = 0;
  std::uint32_t attention_output = 0;
};

/// Everything a step needs beside weights and cache, allocated once: what the host tells the device (small,
/// mapped) and what kernels hand to each other.
class StepBuffers {
 public:
  /// Throws Error if the memory cannot be had.
  StepBuffers(Device& device, const ModelConfig& config, const StepStrides& strides, const Limits& limits);
  /// Bytes that the constructor takes.
  static std::uint64_t bytes(const Device& device, const ModelConfig& config, const StepStrides& strides,
                             const Limits& limits);

  /// Writes a step's ids, positions, cache slots, tables and tiles for the device; returns the step's shape.
  StepShape fill(const StepWork& work);

  /// Says which tokens the head's rows are; `fill` says the first of them.
  void fill_head_map(std::span<const std::uint32_t> tokens_of) const;

  /// Writes what chained steps of `rows` rows need: that all run, and where each stops.
  void fill_chain(const StepWork& first, const StopIds& stop_ids) const;
  /// Whether there is room for the stop ids of the rows.
  bool has_room(const StepWork& first, const StopIds& stop_ids) const;
  /// A word of `chain`, which any thread may set while steps run.
  std::uint32_t& chain_word(std::uint32_t index) const;

  /// Head rows whose logits are held at once.
  std::uint32_t logits_rows() const { return logits_rows_; }
  /// Tokens whose attention runs together.
  std::uint32_t attention_tokens() const { return attention_tokens_; }
  std::uint32_t max_splits() const { return max_splits_; }
  std::uint32_t logits_stride() const { return logits_stride_; }
  /// The grid of attention of the `index`-th group.
  Slice attention_grid(std::size_t index) const { return {*grids, index * kGridBytes, kGridBytes}; }

  static constexpr std::uint64_t kGridBytes = 16;

  Fusions fuses;  ///< what the device can do at once

  // From the host.
  std::unique_ptr<Buffer> tokens;     // i32 [T]
  std::unique_ptr<Buffer> positions;  // u32 [T]
  std::unique_ptr<Buffer> slots;      // uvec2 [T]
  std::unique_ptr<Buffer> tables;     // u32, rows' block tables one after the other
  std::unique_ptr<Buffer> tiles;      // uvec4 [T]
  std::unique_ptr<Buffer> head_map;   // u32 [T]
  std::unique_ptr<Buffer> grids;      // uvec4 [groups]
  // Made once.
  std::unique_ptr<Buffer> rope;  // float [max_context][E]
  // Between kernels.
  std::unique_ptr<Buffer> hidden;       // float [T][D256], the residual stream
  std::unique_ptr<Buffer> head_hidden;  // float [T][D256], gathered
  std::unique_ptr<Buffer> factors;      // float [T]
  Activations normed;                   // D
  Activations mixed;                    // H E
  Activations activated;                // F
  std::unique_ptr<Buffer> qkv;
  std::unique_ptr<Buffer> gate_up;
  std::unique_ptr<Buffer> branch;         // float [T][D256], for observers
  std::unique_ptr<Buffer> query_quants;   // int8 [T][H][E32]
  std::unique_ptr<Buffer> query_scales;   // float [T][H][E32 / 32]
  std::unique_ptr<Buffer> statistics;     // vec2 [T'][H][splits]
  std::unique_ptr<Buffer> split_outputs;  // float [T'][H][splits][E32]
  std::unique_ptr<Buffer> splits_done;    // u32 [T'][K], for attend_one
  std::unique_ptr<Buffer> logits;         // float [logits rows][V256]
  std::unique_ptr<Buffer> best;           // uvec2 [logits rows][chunks]
  std::unique_ptr<Buffer> chosen;         // u32 [T], for the host
  // Of chained steps.
  std::unique_ptr<Buffer> next;   // u32 [T]: what was chosen, for the next step
  std::unique_ptr<Buffer> stops;  // i32: offsets [R + 1], then ids
  std::unique_ptr<Buffer> chain;  // u32 [2 + R] (kernel_constants.hpp)
  std::unique_ptr<Buffer> ids;    // i32 [steps][R], for the host

 private:
  struct Sizes;
  StepBuffers() = default;  // none of them
  template <typename Take>
  static void each(StepBuffers& to, const ModelConfig& config, const StepStrides& strides, const Sizes& sizes,
                   const Take& take);
  void group_tiles(const StepWork& work, StepShape& shape);

  std::uint32_t max_splits_ = 0;        // of a row
  std::uint32_t attention_tokens_ = 0;  // T': tokens whose splits' results fit
  std::uint32_t logits_rows_ = 0;
  std::uint32_t logits_stride_ = 0;
  std::uint32_t row_blocks_ = 0;  // of a row's table, at most
  std::uint32_t kv_heads_ = 0;
  std::vector<std::uint32_t> table_offsets_;                   // [R] of the step's rows
  std::vector<std::array<std::uint32_t, 4>> attention_grids_;  // [groups]
};

}  // namespace inferno::gpu
