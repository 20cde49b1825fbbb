// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/pack/pack_instance.h"

namespace plimsoll::planner {

// Per item, the bytes that live in the fullest section of its life. n log n.
std::vector<std::int64_t> fullest_sections(const PackInstance& instance);

// Orders in which to place buffers, by falling values; `load` is what fullest_sections says,
// `load_tenth` the same in tenths of the maximum.
enum class PackRank {
  load_tenth_then_length,
  load_then_size,
  load_then_length,
  size,
  area,
  length
};
std::vector<std::int32_t> ranked_items(const PackInstance& instance, PackRank rank);

}  // namespace plimsoll::planner
