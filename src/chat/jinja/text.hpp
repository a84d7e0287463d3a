#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace inferno::jinja {

/// A string that knows who wrote each of its bytes: trusted stretches come from the template, the others from
/// whoever calls it. Bytes are valid UTF-8. Every operation of the template language goes through `append`
/// and `append_slice`, so that no operation can turn one kind into the other.
class Text {
 public:
  struct Stretch {
    std::size_t end = 0;  ///< offset behind its last byte; it begins where the one before ends
    bool trusted = false;
    bool operator==(const Stretch&) const = default;
  };

  Text() = default;
  Text(std::string bytes, bool trusted);

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Ascending, without neighbours of one kind.
  const std::vector<Stretch>& stretches() const { return stretches_; }
  /// Whether every byte is trusted.
  bool all_trusted() const;
  bool trusted_at(std::size_t byte) const;

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other);
  /// Bytes [first, first + count) of another text.
  void append_slice(const Text& other, std::size_t first, std::size_t count);
  Text slice(std::size_t first, std::size_t count) const;

 private:
  std::vector<Stretch>::const_iterator stretch_of(std::size_t byte) const;

  std::string bytes_;
  std::vector<Stretch> stretches_;
};

}  // namespace inferno::jinja
