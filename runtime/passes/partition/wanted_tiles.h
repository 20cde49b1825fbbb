// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// What is known of a computation before it is computed on tiles.
struct Expected {
  std::span<const ir::Sharding> results;  // how the root's arrays will be held; empty: not known
  // By name, what will be made as tiles, as trying has shown; null: not known.
  const std::unordered_map<std::string, ir::Sharding>* made = nullptr;
};

// The tiles by which all that reads an array wants it, seen from the results, from what is made as
// tiles, and from where the program asks for tiles: against the order of the program, as far as
// dimensions go along. So arrays that are made of nothing that is cut, such as parameters that a
// program draws, or of sums, such as gradients, are made by tiles from the start. Large sums of an
// array take it as it comes. Precondition: the computation is in a valid order.
std::unordered_map<const ir::Instruction*, ir::Sharding> wanted_tiles(
    const ir::Computation& computation, const Expected& expected);

}  // namespace plimsoll::passes
