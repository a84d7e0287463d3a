#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace inferno::grammar {

/// Remembers what was used last, up to so many bytes. Safe to use from several threads.
template <typename Item>
class RecentCache {
 public:
  explicit RecentCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// nullptr: not known (any more).
  std::shared_ptr<const Item> find(const std::string& key) {
    const std::scoped_lock lock(mutex_);
    const auto known = by_key_.find(key);
    if (known == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, known->second);
    return known->second->item;
  }

  void add(const std::string& key, std::shared_ptr<const Item> item, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (by_key_.contains(key)) return;  // another thread was quicker
    bytes += 2 * key.size() + kEntryBytes;
    entries_.push_front({key, std::move(item), bytes});
    by_key_.emplace(key, entries_.begin());
    bytes_ += bytes;
    while (bytes_ > most_bytes_ && entries_.size() > 1) {
      bytes_ -= entries_.back().bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Item> item;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kEntryBytes = 200;  ///< nodes of list and table, about

  std::mutex mutex_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;  ///< the one used last first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> by_key_;
};

}  // namespace inferno::grammar
