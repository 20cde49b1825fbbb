// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <unordered_map>

#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// The tiles by which all that reads an array wants it, seen from the results, of which `results`
// says how they are held (nothing where it is empty), and from where the program asks for tiles:
// against the order of the program, as far as dimensions go along. So arrays that are made of
// nothing that is cut, such as parameters that a program draws, are made by tiles from the start.
// Precondition: the computation is in a valid order.
std::unordered_map<const ir::Instruction*, ir::Sharding> wanted_tiles(
    const ir::Computation& computation, std::span<const ir::Sharding> results);

}  // namespace plimsoll::passes
