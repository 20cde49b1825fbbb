// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll {

// Where bytes of values can be: a device's own memory, or a tier (memory_spaces.def).
enum class MemorySpace : std::uint8_t {
  device,
#define PLIMSOLL_TIER(tier, ...) tier,
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
};

// All tiers, in the order of the list.
inline constexpr std::array kTiers{
#define PLIMSOLL_TIER(tier, ...) MemorySpace::tier,
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
};

constexpr bool is_tier(MemorySpace space) { return space != MemorySpace::device; }
// Its number among the tiers, from 0.
constexpr int tier_index(MemorySpace tier) { return static_cast<int>(tier) - 1; }

// A row of the list.
struct TierInfo {
  std::string_view name, medium, target, holder;
};
constexpr TierInfo tier_info(MemorySpace tier) {
  constexpr std::array kRows{
#define PLIMSOLL_TIER(tier, name, medium, target, holder) TierInfo{name, medium, target, holder},
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
  };
  return kRows[at(tier_index(tier))];
}

// What holds its bytes, without an article.
constexpr std::string_view tier_label(MemorySpace tier) {
  constexpr std::string_view kArticle = "the ";
  const std::string_view holder = tier_info(tier).holder;
  return holder.starts_with(kArticle) ? holder.substr(kArticle.size()) : holder;
}

// Something of each tier, by name (`of.host`) or by tier (`of[tier]`).
template <typename T>
struct PerTier {
#define PLIMSOLL_TIER(tier, ...) T tier{};
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER

  // Precondition: a tier.
  T& operator[](MemorySpace space) { return const_cast<T&>(std::as_const(*this)[space]); }
  const T& operator[](MemorySpace space) const {
    switch (space) {
#define PLIMSOLL_TIER(tier, ...) \
  case MemorySpace::tier:        \
    return tier;
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
      case MemorySpace::device:
        break;
    }
    __builtin_unreachable();
  }
  bool operator==(const PerTier&) const = default;
};

// The same with the device's, which comes first.
template <typename T>
struct PerSpace {
  T device{};
#define PLIMSOLL_TIER(tier, ...) T tier{};
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER

  T& operator[](MemorySpace space) { return const_cast<T&>(std::as_const(*this)[space]); }
  const T& operator[](MemorySpace space) const {
    switch (space) {
      case MemorySpace::device:
        return device;
#define PLIMSOLL_TIER(tier, ...) \
  case MemorySpace::tier:        \
    return tier;
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
    }
    __builtin_unreachable();
  }
  bool operator==(const PerSpace&) const = default;
};

// The same value for every tier.
template <typename T>
constexpr PerTier<T> for_each_tier(const T& value) {
  PerTier<T> all;
#define PLIMSOLL_TIER(tier, ...) all.tier = value;
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
  return all;
}

}  // namespace plimsoll
