// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/pointer_map.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// How many bytes a computation's instructions make, in their order: what lies between two of them
// says how long a value that lives from one to the other takes up memory, and whether caches still
// hold it. Plans may run things in another order; what is far apart here is mostly so there.
class MadeBytes {
 public:
  explicit MadeBytes(const ir::Computation& computation);

  // Before the instruction, and until its value is there: parameters and constants are throughout.
  double before(const ir::Instruction& instruction) const { return before_.at(&instruction); }
  double until(const ir::Instruction& instruction) const;
  // `added` stands where `place` stood.
  void stands_at(const ir::Instruction& added, const ir::Instruction& place) {
    before_.emplace(&added, before(place));
  }

 private:
  PointerMap<ir::Instruction, double> before_;
};

}  // namespace plimsoll::passes
