#include "server/api/text_places.hpp"

#include "tokenizer/utf8.hpp"

namespace inferno::api {

TextPlaces::Place TextPlaces::push(std::string_view bytes) {
  const auto add = [this](std::size_t size) {
    place_.bytes += size;
    ++place_.characters;
  };
  if (!pending_.empty() && !bytes.empty() && utf8_step(pending_ + bytes.front()).length <= pending_.size()) {
    add(kReplacementCharacter.size());
    pending_.clear();
  }
  const auto begin = place_;
  pending_ += bytes;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const auto step = utf8_step(rest);
    if (step.incomplete) break;
    add(step.valid ? step.length : kReplacementCharacter.size());
    rest.remove_prefix(step.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return begin;
}

}  // namespace inferno::api
