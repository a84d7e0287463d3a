#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace inferno::load {

/// Durations in milliseconds.
class Samples {
 public:
  void add(double milliseconds) {
    values_.push_back(milliseconds);
    sorted_ = false;
  }
  void clear() { values_.clear(); }
  std::size_t count() const { return values_.size(); }

  /// The value that this share (0 to 1) of all is at most; 0 if there are none.
  double at(double share) {
    if (values_.empty()) return 0;
    if (!sorted_) std::sort(values_.begin(), values_.end());
    sorted_ = true;
    return values_[static_cast<std::size_t>(share * static_cast<double>(values_.size() - 1) + 0.5)];
  }

 private:
  std::vector<double> values_;
  bool sorted_ = false;
};

}  // namespace inferno::load
