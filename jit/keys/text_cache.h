// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace plimsoll::jit {

// A hash for look-ups in memory: 32 bytes a step, in two chains of wide products. Not for what
// is kept: it differs between machines of different byte order.
inline std::uint64_t text_hash(std::string_view text) {
  constexpr std::uint64_t kSalt[] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                     0xd6e8feb86659fd93u};
  const auto word = [](const char* from) {
    std::uint64_t value;
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::uint64_t first = kSalt[0] ^ text.size(), second = kSalt[1];
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= 32; at += 32, left -= 32) {
    first = fold(first ^ word(at), kSalt[2] ^ word(at + 8));
    second = fold(second ^ word(at + 16), kSalt[3] ^ word(at + 24));
  }
  char rest[32] = {};
  if (left > 0) std::memcpy(rest, at, left);
  first = fold(first ^ word(rest), kSalt[2] ^ word(rest + 8));
  second = fold(second ^ word(rest + 16), kSalt[3] ^ word(rest + 24));
  return fold(first ^ kSalt[1], second ^ kSalt[0]);
}

// Values by text; when there are too many, the first that came goes. A look-up hashes the text once
// and compares texts of the same hash only.
template <typename T>
class TextCache {
 public:
  const T* find(std::string_view text) const {
    const auto it = values_.find(Wanted{text_hash(text), text});
    return it == values_.end() ? nullptr : &it->second;
  }
  void insert(std::string_view text, T value) {
    const auto [it, is_new] =
        values_.emplace(Key{text_hash(text), std::string(text)}, std::move(value));
    if (!is_new) return;
    order_.push_back(&it->first);
    if (order_.size() <= kMost) return;
    values_.erase(values_.find(*order_.front()));
    order_.pop_front();
  }
  void erase(std::string_view text) {
    const auto it = values_.find(Wanted{text_hash(text), text});
    if (it == values_.end()) return;
    std::erase(order_, &it->first);
    values_.erase(it);
  }

 private:
  static constexpr std::size_t kMost = 8192;
  struct Wanted {
    std::uint64_t hash;
    std::string_view text;
  };
  struct Key {
    std::uint64_t hash;
    std::string text;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const Key& key) const { return key.hash; }
    std::size_t operator()(const Wanted& key) const { return key.hash; }
  };
  struct Equal {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a.hash == b.hash && a.text == b.text;
    }
  };
  std::unordered_map<Key, T, Hash, Equal> values_;
  std::deque<const Key*> order_;  // keys of `values_`
};

}  // namespace plimsoll::jit
