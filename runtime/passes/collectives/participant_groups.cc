// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/participant_groups.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::passes {

using ir::Groups;
using ir::Topology;

bool are_countable(const ir::Module& module) {
  const std::int64_t replicas = module.replica_count, partitions = module.num_partitions;
  return replicas > 0 && partitions > 0 && replicas <= ir::kMostParticipants &&
         partitions <= ir::kMostParticipants && replicas * partitions <= ir::kMostParticipants;
}

namespace {

template <typename F>
bool agree(const Groups& groups, F&& number) {
  return std::all_of(groups.begin(), groups.end(), [&](const auto& group) {
    return std::all_of(group.begin(), group.end(),
                       [&](std::int64_t member) { return number(member) == number(group[0]); });
  });
}

}  // namespace

bool within_replicas(const Groups& groups, const Topology& topology) {
  return agree(groups, [&](std::int64_t member) { return member / topology.partitions; });
}

bool within_partitions(const Groups& groups, const Topology& topology) {
  return agree(groups, [&](std::int64_t member) { return member % topology.partitions; });
}

bool is_sum_for(const ir::Instruction& value, const ir::Instruction& reader) {
  return value.opcode() == ir::Opcode::all_reduce && value.operand_count() == 1 &&
         !value.is_root() && value.users().size() == 1 && value.users()[0] == &reader &&
         value.operand(0)->shape() == value.shape() && value.shape().dtype() != ir::DType::pred &&
         ir::is_binary_computation(*value.to_apply(), ir::Opcode::add) &&
         value.to_apply()->root()->shape().dtype() == value.shape().dtype() &&
         value.control_predecessors().empty() && value.control_successors().empty();
}

std::int64_t largest_group(const Groups& groups) {
  std::size_t most = 0;
  for (const auto& group : groups) most = std::max(most, group.size());
  return static_cast<std::int64_t>(most);
}

std::optional<Groups> joined_groups(const Groups& outer, const Groups& inner) {
  std::unordered_map<std::int64_t, std::size_t> inner_of;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    for (const std::int64_t member : inner[i]) inner_of[member] = i;
  }
  Groups joined;
  std::set<std::vector<std::int64_t>> seen;  // sorted
  std::set<std::int64_t> taken;
  for (const auto& group : outer) {
    std::vector<std::int64_t> members;
    std::set<std::size_t> met;
    for (const std::int64_t member : group) {
      const std::size_t of = inner_of.at(member);
      if (!met.insert(of).second) return std::nullopt;
      members.insert(members.end(), inner[of].begin(), inner[of].end());
    }
    std::vector<std::int64_t> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    if (!seen.insert(sorted).second) continue;
    for (const std::int64_t member : sorted) {
      if (!taken.insert(member).second) return std::nullopt;
    }
    joined.push_back(std::move(members));
  }
  return joined;
}

std::shared_ptr<const ir::CollectiveAttributes> attributes_for(const Groups& groups,
                                                               const Topology& topology,
                                                               std::int64_t channel) {
  auto made = std::make_shared<ir::CollectiveAttributes>();
  made->channel_id = channel;
  const bool of_whole_replicas =
      std::all_of(groups.begin(), groups.end(), [&](const std::vector<std::int64_t>& group) {
        if (static_cast<std::int64_t>(group.size()) % topology.partitions != 0) return false;
        for (std::size_t i = 0; i < group.size(); ++i) {
          const auto partition = static_cast<std::int64_t>(i) % topology.partitions;
          const std::int64_t first = group[i - at(partition)];
          if (first % topology.partitions != 0 || group[i] != first + partition) return false;
        }
        return true;
      });
  made->use_global_device_ids = !of_whole_replicas;
  if (!of_whole_replicas) {
    made->replica_groups = groups;
    return made;
  }
  for (const auto& group : groups) {
    auto& replicas = made->replica_groups.emplace_back();
    for (std::size_t i = 0; i < group.size(); i += at(topology.partitions)) {
      replicas.push_back(group[i] / topology.partitions);
    }
  }
  return made;
}

}  // namespace plimsoll::passes
