// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "runtime/ir/module.h"
#include "runtime/ir/participants.h"

// Groups of participants, as collectives are told them.
namespace plimsoll::passes {

// Whether there are as few participants as programs run with: what follows has a number for each.
bool are_countable(const ir::Module& module);

// All members of a group have a replica in common, or a partition.
bool within_replicas(const ir::Groups& groups, const ir::Topology& topology);
bool within_partitions(const ir::Groups& groups, const ir::Topology& topology);

// A sum of one array over participants that nothing but `reader` reads.
bool is_sum_for(const ir::Instruction& value, const ir::Instruction& reader);

// The most members that a group has.
std::int64_t largest_group(const ir::Groups& groups);

// Whom a sum over `outer` of sums over `inner` sums up, where every participant is counted once;
// nothing where one is counted twice or the groups that come of it overlap.
std::optional<ir::Groups> joined_groups(const ir::Groups& outer, const ir::Groups& inner);

// The attributes of an all-reduce, all-gather or reduce-scatter over these groups, by replicas
// where they are of replicas with all their partitions, else by participants.
std::shared_ptr<const ir::CollectiveAttributes> attributes_for(const ir::Groups& groups,
                                                               const ir::Topology& topology,
                                                               std::int64_t channel);

}  // namespace plimsoll::passes
