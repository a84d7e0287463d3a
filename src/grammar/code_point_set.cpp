#include "grammar/code_point_set.hpp"

#include <algorithm>

namespace inferno::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

}  // namespace

CodePointSet::CodePointSet(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> cut;
  for (const auto& range : ranges) {
    if (range.first < kFirstSurrogate)
      cut.push_back({range.first, std::min<char32_t>(range.last, kFirstSurrogate - 1)});
    if (range.last > kLastSurrogate)
      cut.push_back({std::max<char32_t>(range.first, kLastSurrogate + 1), range.last});
  }
  std::sort(cut.begin(), cut.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& range : cut) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

CodePointSet CodePointSet::all() {
  return CodePointSet({{0, kLastCodePoint}});
}

bool CodePointSet::contains(char32_t code_point) const {
  return intersects(code_point, code_point);
}

bool CodePointSet::intersects(char32_t first, char32_t last) const {
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                                   [](const CodePointRange& range, char32_t c) { return range.last < c; });
  return at != ranges_.end() && at->first <= last;
}

CodePointSet CodePointSet::complement() const {
  std::vector<CodePointRange> out;
  char32_t next = 0;
  for (const auto& range : ranges_) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return CodePointSet(out);
}

}  // namespace inferno::grammar
