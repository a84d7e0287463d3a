#pragma once

#include "tokenizer/vocabulary.hpp"

namespace inferno {

/// A vocabulary without training: every byte (id = byte), a few merges of English, and Qwen's control tokens
/// <|endoftext|> (bos, pad), <|im_start|>, <|im_end|> (eos, eot), <think>, </think>. Any text can be encoded.
/// Has a plain chat template.
Vocabulary byte_vocabulary();

/// Appends unused entries "[PAD<id>]" up to `size` tokens, as llama.cpp's converter does.
void pad_vocabulary(Vocabulary& vocabulary, std::size_t size);

}  // namespace inferno
