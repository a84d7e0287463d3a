#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "quant/format.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno::test {

/// A real qwen3 file whose greedy output is chosen: after each token of a chain comes the next one. One block
/// whose matrices are all zero passes the embedding through untouched; for step k "after a comes b", row a of
/// the embedding is 1 at column k and row b of the head is 8 there. After a chain's token its successor has
/// logit 64, all others 0; after any other token every logit is exactly 0. Without chains it is the flat
/// model: every logit is 0 at every step.
struct ScriptedModel {
  /// Each a run of ids; chains may meet, cross and loop ({198, 279, 198}), but a token has one successor in
  /// all, and there are at most 64 steps.
  std::vector<std::vector<std::int32_t>> chains;
  std::uint32_t vocab_size = 151936;  ///< rows; at least the vocabulary's tokens
  quant::TensorType type = quant::TensorType::f32;
  std::uint32_t context_length = 40960;
  std::optional<Vocabulary> vocabulary;  ///< none: the file has no tokenizer

  /// Throws Error if the chains cannot be scripted.
  void write(const std::filesystem::path& path) const;
};

/// Chains in ids of Qwen3's tokenizer. A chat prompt with thinking on ends in 198, with thinking off in 271.
/// `a`, U+1D11E over two tokens, `b`, end.
inline const std::vector<std::int32_t> kSplitCharacterChain = {198, 64, 124596, 252, 65, 151645};
/// `aba` `ba` `bac` `tail`, end.
inline const std::vector<std::int32_t> kSplitStopChain = {198, 12004, 4645, 55877, 14586, 151645};
/// A tool call drafted while thinking, then `ok`.
inline const std::vector<std::int32_t> kDraftedCallChain = {198,    151667, 151657, 4913, 606,   3252, 69,
                                                            2198,   16370,  22317,  87,   788,   16,   3417,
                                                            151658, 151668, 271,    562,  151645};
/// Thinks `hi`, answers `ok`.
inline const std::vector<std::int32_t> kThinkChain = {198, 151667, 6023, 151668, 271, 562, 151645};
/// One plain call f(x=1).
inline const std::vector<std::int32_t> kCallChain = {198,   151657, 4913, 606, 3252, 69,     2198,  16370,
                                                     22317, 87,     788,  16,  3417, 151658, 151645};

}  // namespace inferno::test
