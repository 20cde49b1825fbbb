// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cases/compare.h"

namespace plimsoll::cases {

// One program around one operation: forward checks run it everywhere and compare with the
// interpreter, gradient checks differentiate it, budget checks run it under limits.
struct OpCase {
  std::string name;  // unique; the opcode's text comes first, e.g. "reduce-window.max.padded"
  std::string hlo;   // a whole module
  // How far another implementation may be from the interpreter (compare.h); 0: the same bits.
  double tolerance = 0;
  // Parameters (all floating) in which the result is differentiable at almost every input that
  // `ranges` give; the result is then one floating array.
  std::vector<int> differentiable;
  std::vector<InputRange> ranges;  // per parameter; the default for those beyond its end
};

// The one table, in a fixed order. Small shapes: interpreting all of it takes seconds.
const std::vector<OpCase>& op_cases();

// The module of `op_case` with its largest extent, wherever a shape has it, replaced by `extent`;
// empty where that is no valid module, or where no extent is above 4.
std::string resized(const OpCase& op_case, std::int64_t extent);

}  // namespace plimsoll::cases
