// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

// Who takes part in a module's collectives: each partition of each replica. Participant r *
// partitions + p is partition p of replica r.
namespace plimsoll::ir {

struct Topology {
  std::int64_t replicas = 1;
  std::int64_t partitions = 1;
  std::int64_t participants() const { return replicas * partitions; }
  friend bool operator==(const Topology&, const Topology&) = default;
};

// The most participants that a program runs with; texts may number more (kMaxParticipants).
inline constexpr std::int64_t kMostParticipants = 4096;

// That of the instruction's module.
Topology topology_of(const Instruction& instruction);

// Whether running it asks the other participants for something: collectives and the halves of pairs
// that do their work, and both halves of transfers. What it calls does not count.
bool is_meeting(const Instruction& instruction);
// Of those, what takes part in its own time alone, so that others may run meanwhile that use none
// of its operands and results. Halves of transfers go on by themselves.
bool may_go_on(const Instruction& instruction);

// The attribute, among `extra`, by which members of a collective know it for the same where copies
// of it have other names (passes::order_collectives); without it they know it by its own name.
inline constexpr std::string_view kMeeting = "meeting";
std::string_view meeting_of(const Instruction& instruction);

// The channel_id of a collective; 0: none.
std::int64_t channel_of(const Instruction& instruction);
// A channel_id that no collective of the module has.
std::int64_t unused_channel(const Module& module);

using Groups = std::vector<std::vector<std::int64_t>>;

// The participants that a collective brings together, group by group, members in the order in which
// the operation counts them. What replica_groups number depends on channel_id and
// use_global_device_ids, as in XLA's CollectiveOpGroupMode:
// - no channel: replicas, within each partition;
// - a channel, and all-reduce, all-gather or reduce-scatter: replicas, each with all its
//   partitions; with use_global_device_ids the participants themselves;
// - a channel, and any other operation: partitions, within each replica.
// Without groups all that could be numbered form one. INVALID_ARGUMENT for numbers that the
// topology hasn't, for participants that are in no group or in two, and for a topology of more than
// kMaxParticipants.
Result<Groups> collective_groups(const Instruction& instruction);

// A collective-permute's pairs of a source and a target, by participants, in no order. Numbers are
// those of replicas without a channel, of partitions with one.
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
Result<Pairs> permuted_participants(const Instruction& instruction);

// Likewise for a send or recv, or the done half of one, which say it by the frontend attribute
// `_xla_send_recv_source_target_pairs`. INVALID_ARGUMENT without one, or one that is not of the
// form
// {{0,1},{1,2}}.
inline constexpr std::string_view kSendRecvPairs = "_xla_send_recv_source_target_pairs";
Result<Pairs> sent_participants(const Instruction& instruction);
// How both ends are called in errors, and what tells passages apart: the shape, and the channel
// where it has both ends. Programs made for GPUs send in one channel and receive in another.
std::string passage_name(const Instruction& instruction);

}  // namespace plimsoll::ir
