// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/base/pointer_map.h"
#include "runtime/ir/module.h"
#include "runtime/ir/participants.h"

namespace plimsoll::passes {

// Along which axis a value is the same number in all participants.
struct Sameness {
  bool partitions = true;  // in all partitions of a replica
  bool replicas = true;    // in that partition of every replica
  friend bool operator==(const Sameness&, const Sameness&) = default;
};
inline Sameness meet(Sameness a, Sameness b) {
  return {a.partitions && b.partitions, a.replicas && b.replicas};
}

// What every value of a module that all participants run is known to be. Parameters are the same
// where the program says so: sharding={replicated} of a parameter, or its place in the header's
// spmd_parameters_shardings, for partitions; parameter_replication={true} for replicas. Constants
// are; what is computed of such values is, through tuples, loops, branches and calls; what a
// collective brings to all of an axis is. Of what is added to the module later, nothing is known;
// else it holds until the module changes.
class Replication {
 public:
  explicit Replication(const ir::Module& module);

  // Of all leaves of the value.
  Sameness of(const ir::Instruction& value) const;
  // Whether the members of each of these groups have the same value.
  bool within(const ir::Instruction& value, const ir::Groups& groups) const;

 private:
  using Leaves = std::vector<Sameness>;
  Leaves computed(const ir::Instruction& instruction) const;
  Leaves of_collective(const ir::Instruction& instruction) const;
  // Takes over what is less the same than known until now.
  bool lower(const ir::Instruction& instruction, const Leaves& leaves);
  bool hand_arguments(const ir::Instruction& caller);

  PointerMap<ir::Instruction, Leaves> known_;
  ir::Topology topology_;
};

}  // namespace plimsoll::passes
