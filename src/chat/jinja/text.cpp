#include "chat/jinja/text.hpp"

#include <utility>

namespace inferno::jinja {

Text::Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) stretches_.push_back({bytes_.size(), trusted});
}

bool Text::all_trusted() const {
  return stretches_.empty() || (stretches_.size() == 1 && stretches_.front().trusted);
}

std::vector<Text::Stretch>::const_iterator Text::stretch_of(std::size_t byte) const {
  return std::upper_bound(stretches_.begin(), stretches_.end(), byte,
                          [](std::size_t value, const Stretch& stretch) { return value < stretch.end; });
}

bool Text::trusted_at(std::size_t byte) const {
  return stretch_of(byte)->trusted;
}

void Text::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!stretches_.empty() && stretches_.back().trusted == trusted) {
    stretches_.back().end = bytes_.size();
  } else {
    stretches_.push_back({bytes_.size(), trusted});
  }
}

void Text::append(const Text& other) {
  append_slice(other, 0, other.size());
}

void Text::append_slice(const Text& other, std::size_t first, std::size_t count) {
  const std::string_view bytes = other.bytes_;
  const auto last = first + count;
  for (auto stretch = other.stretch_of(first); first < last; ++stretch) {
    const auto end = std::min(stretch->end, last);
    append(bytes.substr(first, end - first), stretch->trusted);
    first = end;
  }
}

Text Text::slice(std::size_t first, std::size_t count) const {
  Text result;
  result.append_slice(*this, first, count);
  return result;
}

}  // namespace inferno::jinja
