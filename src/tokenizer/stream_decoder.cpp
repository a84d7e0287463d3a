#include "tokenizer/tokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno {

std::string StreamDecoder::push(std::string_view bytes) {
  std::string text;
  if (!pending_.empty()) {
    pending_ += bytes;
    bytes = pending_;
  }
  std::string held;
  while (!bytes.empty()) {
    const std::size_t valid = utf8_valid_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Utf8Step step = utf8_step(bytes);
    if (step.incomplete) {
      held = bytes;
      break;
    }
    text += kReplacementCharacter;
    bytes.remove_prefix(step.length);
  }
  pending_ = std::move(held);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text(pending_.empty() ? std::string_view{} : kReplacementCharacter);
  pending_.clear();
  return text;
}

std::string to_valid_utf8(std::string_view bytes) {
  StreamDecoder decoder;
  std::string text = decoder.push(bytes);
  text += decoder.finish();
  return text;
}

}  // namespace inferno
