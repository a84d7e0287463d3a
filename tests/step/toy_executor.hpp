#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "step/deferred_executor.hpp"

namespace inferno::toy {

/// A shape for the toy: it needs no weights.
ModelConfig toy_config();

/// What a toy can do wrong on purpose, to see that the conformance suite notices.
enum class Flaw : std::uint8_t {
  none,
  sees_neighbours,   ///< a row's result depends on how many rows run beside it
  sees_chunks,       ///< ... on how its prompt was cut
  sees_block_ids,    ///< ... on which blocks it was given
  sees_old_content,  ///< ... on what its last block held before
  copies_nothing,
  imports_nothing,
  skips_a_stage,  ///< one stage is not announced
  observed_differently,
  mixes_head_rows,  ///< an output gets the logits of the row before
  spreads_nan,      ///< one row's NaN reaches its neighbours
};

/// The smallest backend there is, and an example of one: its "model" is a hash over the tokens so far, its
/// cache a number per position. Everything but the marked parts would look the same with real arithmetic.
class ToyExecutor : public DeferredExecutor {
 public:
  /// `config` outlives the executor.
  explicit ToyExecutor(const ModelConfig& config, Flaw flaw = Flaw::none);

  MemoryNeed memory_need(const Limits& limits) const override;

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  std::size_t block_bytes() const override { return block_size_ * sizeof(std::uint64_t); }
  void copy_block(std::uint32_t source, std::uint32_t target) override;
  void read_block(std::uint32_t block, std::span<std::byte> target) const override;
  void write_block(std::uint32_t block, std::span<const std::byte> source) override;

 private:
  std::span<std::uint64_t> block(std::uint32_t index);
  std::uint64_t attend(std::span<const std::uint32_t> table, std::uint32_t position);
  void run_layers(const StepWork& work);
  void run_head(const StepWork& work, HeadConsumer& head);
  void announce(const StepWork& work, int layer, Stage stage) const;

  const ModelConfig& config_;
  Flaw flaw_;
  std::size_t block_size_ = 0;
  std::vector<std::uint64_t> cache_;   // [blocks, block_size]
  std::vector<std::uint64_t> states_;  // [T] what the layers make of each token
};

}  // namespace inferno::toy
