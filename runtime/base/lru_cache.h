// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <unordered_map>
#include <utility>

namespace plimsoll {

// At most `capacity` (one or more) values by key; one more than that replaces the least recently
// used. An entry stays where it is in memory until it is erased or replaced. Whatever `Hash` takes
// and a `Key` compares with can be looked up, e.g. a string_view where keys are strings.
// Not thread-safe.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class LruCache {
 public:
  struct Entry {
    const Key key;
    Value value;
  };
  using Iterator = typename std::list<Entry>::iterator;

  explicit LruCache(std::size_t capacity) : capacity_(capacity) {}
  LruCache(const LruCache&) = delete;  // by_hash_ points into entries_
  LruCache& operator=(const LruCache&) = delete;

  // The value of `key`, which is the most recently used from now on; null where there is none.
  template <typename K>
  Value* find(const K& key) {
    const auto row = row_of(Hash{}(key), key);
    if (row == by_hash_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, row->second);
    return &row->second->value;
  }

  // Sets the value of `key`, as the most recently used one.
  Value& insert(Key key, Value value) {
    const std::size_t hash = Hash{}(key);
    erase_row(row_of(hash, key));
    if (entries_.size() >= capacity_) {
      const Key& oldest = entries_.back().key;
      erase_row(row_of(Hash{}(oldest), oldest));
    }
    entries_.push_front({std::move(key), std::move(value)});
    by_hash_.emplace(hash, entries_.begin());
    return entries_.front().value;
  }

  template <typename K>
  void erase(const K& key) {
    erase_row(row_of(Hash{}(key), key));
  }

  std::size_t size() const { return entries_.size(); }
  // The most recently used first.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  using Rows = std::unordered_multimap<std::size_t, Iterator>;

  template <typename K>
  typename Rows::iterator row_of(std::size_t hash, const K& key) {
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto row = first; row != last; ++row) {
      if (row->second->key == key) return row;
    }
    return by_hash_.end();
  }
  void erase_row(typename Rows::iterator row) {
    if (row == by_hash_.end()) return;
    entries_.erase(row->second);
    by_hash_.erase(row);
  }

  const std::size_t capacity_;
  std::list<Entry> entries_;  // the most recently used first
  Rows by_hash_;
};

}  // namespace plimsoll
