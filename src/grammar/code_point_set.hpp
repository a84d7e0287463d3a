#pragma once

#include <cstdint>
#include <vector>

namespace inferno::grammar {

/// Code points from `first` to `last`, both included.
struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;
  bool operator==(const CodePointRange&) const = default;
};

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

/// A set of Unicode scalar values (surrogates are none) as ascending ranges that do not touch.
class CodePointSet {
 public:
  CodePointSet() = default;
  /// Ranges in any order, overlapping or not; surrogates are cut out.
  explicit CodePointSet(const std::vector<CodePointRange>& ranges);
  static CodePointSet all();

  bool contains(char32_t code_point) const;
  /// Whether some member lies from `first` to `last`.
  bool intersects(char32_t first, char32_t last) const;
  bool empty() const { return ranges_.empty(); }
  CodePointSet complement() const;
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace inferno::grammar
