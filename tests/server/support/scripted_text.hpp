#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <inferno/model.hpp>

#include "tokenizer/vocabulary.hpp"

namespace inferno::test {

/// Qwen3's own chat template.
std::string qwen3_template();

/// The bytes' tokenizer with Qwen3's template and markup, and a token for each of `pieces` (a piece that is
/// the name of an added token, such as <think>, is that token; "<end>" is the end token). The pieces' ids, in
/// their order, come with it.
std::pair<Vocabulary, std::vector<std::int32_t>> vocabulary_of(const std::vector<std::string>& pieces);

/// A model that writes `pieces`, one token each, after any prompt that ends in a newline, as chat prompts do.
/// A piece that comes again leads on as it did first: the text loops. After anything else every logit is 0.
/// Its files has `rows` ids, or as many as it has tokens.
Model model_that_writes(const std::vector<std::string>& pieces, std::uint32_t rows = 0);

/// The same model as a file.
void write_model_that_writes(const std::filesystem::path& path, const std::vector<std::string>& pieces,
                             std::uint32_t rows = 0);

/// Every logit is 0 at every step.
Model flat_model();

}  // namespace inferno::test
