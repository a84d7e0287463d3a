#pragma once

#include <cstddef>
#include <cstdint>

/// What the persistent kernel is launched with: one cooperative launch runs whole decode steps of one row.
/// The design is in docs/cuda.md. Plain structs, the same for host and device.
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

/// Words that blocks hand to each other: a float and the epoch that says which layer of which step it belongs
/// to. Zeroed before the first launch.
struct PersistentExchange {
  std::uint64_t* x = nullptr;           ///< [D] the residual stream
  std::uint64_t* qkv = nullptr;         ///< [H E + 2 K E]
  std::uint64_t* mixed = nullptr;       ///< [H E]
  std::uint64_t* x_attended = nullptr;  ///< [D] after attention
  std::uint64_t* activated = nullptr;   ///< [F]
  std::uint64_t* splits = nullptr;      ///< [H][max_splits][E]
  std::uint64_t* statistics = nullptr;  ///< [H][max_splits][2]: maximum, denominator
  std::uint64_t* best = nullptr;        ///< [kMostPersistentBlocks][4]: key, index, whether to stop
};

inline constexpr std::uint32_t kMostPersistentBlocks = 256;
inline constexpr std::uint32_t kMostStopIds = 16;
inline constexpr std::uint32_t kMostTableEntries = 512;

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
  PersistentExchange exchange = {};
};

/// One launch.
struct PersistentStep {
  std::int32_t token = 0;      ///< first input
  std::uint32_t position = 0;  ///< of the first input
  std::uint32_t steps = 1;
  std::uint32_t epoch = 1;  ///< of the first layer of the first step; a step takes layers + 1
  float* logits = nullptr;  ///< [V] of the latest step, or nullptr
  const volatile std::uint32_t* cancel =
      nullptr;                          ///< pinned; not 0: end after the step that runs; or nullptr
  std::int32_t* ids = nullptr;          ///< pinned, [steps]: what was chosen, -1: nothing could be
  std::uint32_t* steps_done = nullptr;  ///< pinned
  std::uint32_t* late = nullptr;  ///< pinned, [3]: what a wait that never ended was for, its block and thread
  std::uint32_t stop_ids = 0;
  std::int32_t stop[kMostStopIds] = {};
  std::uint32_t table_entries = 0;
  std::uint32_t table[kMostTableEntries] = {};  ///< the row's cache blocks, of 256 positions each
};

}  // namespace inferno::cuda
