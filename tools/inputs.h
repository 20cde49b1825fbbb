// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"
#include "tools/command.h"

namespace plimsoll::tools {

// Those of a program's participants that arguments are made for.
struct ParticipantRange {
  std::size_t first = 0, count = 1, total = 1;
  std::size_t partitions = 1;  // of a replica
};

// One literal per parameter of the entry, for each of these participants. `files` are
// `NAME=x.npy`; NAME is a parameter's name or number, with `@K` behind it for participant K alone
// and `#LEAF` behind that for one array of a tuple; none is given twice. The rest is drawn from
// `seed` and the participant's number, each array on its own: floats in [-1, 1), integers from 0 to
// 7, random bits for pred; what is replicated by its `sharding` is the same for all, and
// what is by its `parameter_replication` (each array of it) for all replicas of a partition.
Outcome make_inputs(const ir::Computation& entry, const std::vector<std::string>& files,
                    std::uint64_t seed, const ParticipantRange& participants,
                    std::vector<std::vector<ir::Literal>>& out);

// The arrays of a literal, in order of ir::leaves.
std::vector<const ir::Literal*> literal_leaves(const ir::Literal& literal);

}  // namespace plimsoll::tools
