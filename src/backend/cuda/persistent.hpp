#pragma once

#include <cstddef>
#include <cstdint>

/// What the persistent kernels are launched with: one cooperative launch runs whole decode steps of one row,
/// or of a few. The design is in docs/cuda.md. Plain structs, the same for host and device.
namespace inferno::cuda {

/// Pointers of one layer. Matrices are packed as backend/gpu/kernels.hpp says.
struct PersistentLayer {
  const std::byte* qkv = nullptr;               ///< [H E + 2 K E, D] query, key, value
  const std::byte* attention_output = nullptr;  ///< [D, H E]
  const std::byte* gate_up = nullptr;           ///< [2 F, D] gate, up
  const std::byte* down = nullptr;              ///< [D, F]
  const float* attention_norm = nullptr;        ///< [D]
  const float* ffn_norm = nullptr;              ///< [D]
  const float* query_norm = nullptr;            ///< [E]
  const float* key_norm = nullptr;              ///< [E]
  std::byte* cache = nullptr;                   ///< of this layer: cpu::BlockLayout's part
};

/// Rows that one launch can have at most.
inline constexpr std::uint32_t kMostPersistentRows = 8;
inline constexpr std::uint32_t kMostPersistentBlocks = 256;
inline constexpr std::uint32_t kMostStopIds = 16;
/// Cache blocks of a launch's rows, together.
inline constexpr std::uint32_t kMostTableEntries = 1024;

/// Words that blocks hand to each other: a float and the epoch that says which layer of which step it belongs
/// to. Zeroed before the first launch. The kernel of one row has a set of its own, the kernel of several
/// (R = kMostPersistentRows) another. There a vector that is handed on in floats stands in words of 16 bytes,
/// three floats and the epoch (three such words for eight rows of a matrix), and one that is handed on in
/// int8 in words of four of them and the epoch.
struct PersistentExchange {
  std::uint64_t* x = nullptr;             ///< [D] the residual stream; several rows: [D / 32][3][R][4] x 2
  std::uint64_t* qkv = nullptr;           ///< [H E + 2 K E]; several: [R] of it
  std::uint64_t* mixed = nullptr;         ///< [H E]; several: int8, [H E / 32][R][8]
  std::uint64_t* mixed_scales = nullptr;  ///< several: [H E / 32][R]
  std::uint64_t* x_attended = nullptr;    ///< after attention; as x
  std::uint64_t* activated = nullptr;     ///< [F]; several: as mixed, with its scales behind it
  std::uint64_t* splits = nullptr;        ///< [H][max_splits][E]; several: [kMostTableEntries][H][E]
  std::uint64_t* statistics = nullptr;    ///< [H][max_splits][2]: maximum, denominator; several: likewise
  std::uint64_t* best = nullptr;          ///< [kMostPersistentBlocks][4]: key, index, whether to stop;
                                          ///< several: [kMostPersistentBlocks + 1][R][2]
};

/// What stays the same from launch to launch.
struct PersistentModel {
  std::uint32_t layers = 0, hidden_size = 0, ffn_size = 0, heads = 0, kv_heads = 0, head_dim = 0,
                vocab_size = 0;
  float epsilon = 0, inverse_hidden = 0, inverse_head = 0, softmax_scale = 0;
  std::uint32_t max_splits = 1;            ///< of the longest row
  const PersistentLayer* layer = nullptr;  ///< [layers + 1], the last never used
  const std::byte* embedding = nullptr;    ///< packed, [V, D]
  const std::byte* lm_head = nullptr;      ///< packed, [V, D]
  const float* final_norm = nullptr;       ///< [D]
  const float* rope = nullptr;             ///< [positions][E]
  PersistentExchange exchange = {};        ///< of the kernel that is launched
};

/// One launch.
struct PersistentStep {
  std::uint32_t rows = 1;
  std::int32_t token[kMostPersistentRows] = {};      ///< first inputs
  std::uint32_t position[kMostPersistentRows] = {};  ///< of the first inputs
  std::uint32_t steps = 1;
  std::uint32_t epoch = 1;          ///< of the first layer of the first step; a step takes layers + 1
  float* logits = nullptr;          ///< [rows][logits_stride] of the latest step, or nullptr
  std::uint64_t logits_stride = 0;  ///< in floats
  const volatile std::uint32_t* cancel =
      nullptr;                          ///< pinned; not 0: end after the step that runs; or nullptr
  std::int32_t* ids = nullptr;          ///< pinned, [steps][rows]: what was chosen, or kNoChoice, kNotRunning
  std::uint32_t* steps_done = nullptr;  ///< pinned
  std::uint32_t* late = nullptr;  ///< pinned, [3]: what a wait that never ended was for, its block and thread
  std::uint32_t stop_offsets[kMostPersistentRows + 1] = {};  ///< into `stop`, of each row
  std::int32_t stop[kMostStopIds] = {};
  std::uint32_t table_offsets[kMostPersistentRows] = {};  ///< into `table`, of each row
  std::uint32_t table_entries = 0;
  std::uint32_t table[kMostTableEntries] = {};  ///< the rows' cache blocks, of 256 positions each
};

/// In place of an id: nothing could be chosen; the row had ended before.
inline constexpr std::int32_t kNoChoice = -1;
inline constexpr std::int32_t kNotRunning = -2;

}  // namespace inferno::cuda
