#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace inferno::verify {

/// Float64 logits after a prompt, computed elsewhere, for some ids or for all; and the greedy continuation.
struct GoldenCase {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> logit_ids;
  std::vector<double> logits;            ///< of logit_ids
  std::vector<std::int32_t> greedy_ids;  ///< may be empty
};

/// Reads {cases: [{ids, last_logits}]} (every logit) or {prompts: [{ids, top20_ids, top20_logits,
/// greedy_ids}]}. Throws Error naming the file and what is wrong with it; ids must be below `vocab_size`.
std::vector<GoldenCase> read_goldens(const std::filesystem::path& path, std::uint32_t vocab_size);

/// Where a model's goldens are looked for: "x.gguf" has "x.golden.json" beside it.
std::filesystem::path goldens_beside(const std::filesystem::path& model);

}  // namespace inferno::verify
