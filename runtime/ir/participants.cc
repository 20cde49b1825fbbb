// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/participants.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <string_view>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/replica_groups.h"

namespace plimsoll::ir {
namespace {

// What the numbers of a collective's groups are.
enum class Numbered : std::uint8_t { replicas, replicas_with_partitions, partitions, participants };

Numbered numbered_by(const Instruction& instruction) {
  const CollectiveAttributes* const collective = instruction.attributes().collective.get();
  if (collective == nullptr) return Numbered::replicas;
  const bool has_channel = collective->channel_id != 0;
  switch (instruction.opcode()) {
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::reduce_scatter:
      // Some programs give no channel where they number participants.
      return collective->use_global_device_ids ? Numbered::participants
             : has_channel                     ? Numbered::replicas_with_partitions
                                               : Numbered::replicas;
    default:
      return has_channel ? Numbered::partitions : Numbered::replicas;
  }
}

Status wrong(const Instruction& instruction, const std::string& what) {
  const Topology topology = topology_of(instruction);
  return invalid_argument(fmt::format(
      "{} '{}': {} ({} replicas x {} partitions; --replicas and --partitions change them)",
      to_string(instruction.opcode()), instruction.name(), what, topology.replicas,
      topology.partitions));
}

// NumberPairs from text or a file, which may be anything.
Status check_topology(const Instruction& instruction) {
  const Topology topology = topology_of(instruction);
  if (topology.replicas >= 1 && topology.partitions >= 1 && topology.replicas <= kMaxParticipants &&
      topology.partitions <= kMaxParticipants && topology.participants() <= kMaxParticipants) {
    return ok_status();
  }
  return wrong(instruction, fmt::format("at most {} participants", kMaxParticipants));
}

}  // namespace

Topology topology_of(const Instruction& instruction) {
  const Module& module = *instruction.parent()->module();
  return {module.replica_count, module.num_partitions};
}

bool is_meeting(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::all_reduce_start:
    case Opcode::all_gather_start:
    case Opcode::collective_permute_start:
    case Opcode::async_start:
    case Opcode::send_done:
    case Opcode::recv_done:
      return true;
    default:
      return op_info(instruction.opcode()).op_class == OpClass::collective;
  }
}

bool may_go_on(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::send:
    case Opcode::send_done:
    case Opcode::recv:
    case Opcode::recv_done:
    case Opcode::infeed:
    case Opcode::outfeed:
      return false;
    default:
      return is_meeting(instruction);
  }
}

std::string_view meeting_of(const Instruction& instruction) {
  const std::string_view said = instruction.attributes().find_extra(kMeeting);
  return said.empty() ? std::string_view(instruction.name()) : said;
}

std::int64_t channel_of(const Instruction& instruction) {
  const auto& collective = instruction.attributes().collective;
  return collective == nullptr ? 0 : collective->channel_id;
}

std::int64_t unused_channel(const Module& module) {
  std::int64_t highest = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      highest = std::max(highest, channel_of(*instruction));
    }
  }
  return highest + 1;
}

Result<Groups> collective_groups(const Instruction& instruction) {
  PLIMSOLL_RETURN_IF_ERROR(check_topology(instruction));
  const Topology topology = topology_of(instruction);
  const Numbered numbered = numbered_by(instruction);
  const std::int64_t count = numbered == Numbered::participants ? topology.participants()
                             : numbered == Numbered::partitions ? topology.partitions
                                                                : topology.replicas;
  Groups written;
  if (const auto& collective = instruction.attributes().collective) {
    written = collective->replica_groups;
  }
  if (written.empty()) {
    written.emplace_back(at(count));
    std::iota(written[0].begin(), written[0].end(), 0);
  }
  Groups made;
  std::vector<bool> is_member(at(topology.participants()), false);
  for (const auto& group : written) {
    const auto add = [&](auto&& participant_of) -> Status {
      std::vector<std::int64_t>& members = made.emplace_back();
      for (const std::int64_t number : group) {
        if (number < 0 || number >= count) {
          return wrong(instruction, fmt::format("there is no {} {}",
                                                numbered == Numbered::partitions     ? "partition"
                                                : numbered == Numbered::participants ? "participant"
                                                                                     : "replica",
                                                number));
        }
        participant_of(number, members);
      }
      for (const std::int64_t member : members) {
        if (is_member[at(member)]) {
          return wrong(instruction, fmt::format("participant {} is in two groups", member));
        }
        is_member[at(member)] = true;
      }
      return ok_status();
    };
    switch (numbered) {
      case Numbered::participants:
        PLIMSOLL_RETURN_IF_ERROR(
            add([](std::int64_t id, std::vector<std::int64_t>& out) { out.push_back(id); }));
        break;
      case Numbered::replicas_with_partitions:
        PLIMSOLL_RETURN_IF_ERROR(add([&](std::int64_t r, std::vector<std::int64_t>& out) {
          for (std::int64_t p = 0; p < topology.partitions; ++p) {
            out.push_back(r * topology.partitions + p);
          }
        }));
        break;
      case Numbered::replicas:
        for (std::int64_t p = 0; p < topology.partitions; ++p) {
          PLIMSOLL_RETURN_IF_ERROR(add([&](std::int64_t r, std::vector<std::int64_t>& out) {
            out.push_back(r * topology.partitions + p);
          }));
        }
        break;
      case Numbered::partitions:
        for (std::int64_t r = 0; r < topology.replicas; ++r) {
          PLIMSOLL_RETURN_IF_ERROR(add([&](std::int64_t p, std::vector<std::int64_t>& out) {
            out.push_back(r * topology.partitions + p);
          }));
        }
        break;
    }
  }
  for (std::size_t i = 0; i < is_member.size(); ++i) {
    if (!is_member[i]) return wrong(instruction, fmt::format("participant {} is in no group", i));
  }
  return made;
}

namespace {

using NumberPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Pairs of replicas without a channel, of partitions with one, as participants.
Result<Pairs> participants_of(const Instruction& instruction, const NumberPairs& numbers) {
  PLIMSOLL_RETURN_IF_ERROR(check_topology(instruction));
  const Topology topology = topology_of(instruction);
  Pairs made;
  const bool by_partition = channel_of(instruction) != 0;
  const std::int64_t count = by_partition ? topology.partitions : topology.replicas;
  const std::int64_t others = by_partition ? topology.replicas : topology.partitions;
  for (const auto& [source, target] : numbers) {
    for (const std::int64_t number : {source, target}) {
      if (number < 0 || number >= count) {
        return wrong(instruction, fmt::format("there is no {} {}",
                                              by_partition ? "partition" : "replica", number));
      }
    }
    for (std::int64_t other = 0; other < others; ++other) {
      const auto participant = [&](std::int64_t number) {
        return by_partition ? other * topology.partitions + number
                            : number * topology.partitions + other;
      };
      made.emplace_back(participant(source), participant(target));
    }
  }
  return made;
}

// {{0,1},{1,2}}; nothing where it is not of that form, or a number is longer than any there is.
std::optional<NumberPairs> read_pairs(std::string_view text) {
  std::string tight;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t') tight += c;
  }
  std::string_view rest = tight;
  const auto take = [&](char c) {
    if (rest.empty() || rest.front() != c) return false;
    rest.remove_prefix(1);
    return true;
  };
  const auto number = [&](std::int64_t& value) {
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
    return true;
  };
  NumberPairs made;
  if (!take('{')) return std::nullopt;
  if (take('}')) return rest.empty() ? std::optional(made) : std::nullopt;
  do {
    auto& [source, target] = made.emplace_back();
    if (!take('{') || !number(source) || !take(',') || !number(target) || !take('}')) {
      return std::nullopt;
    }
  } while (take(','));
  if (!take('}') || !rest.empty()) return std::nullopt;
  return made;
}

}  // namespace

Result<Pairs> permuted_participants(const Instruction& instruction) {
  PLIMSOLL_RETURN_IF_ERROR(check_topology(instruction));
  const CollectiveAttributes* const collective = instruction.attributes().collective.get();
  if (collective == nullptr) return Pairs();
  return participants_of(instruction, collective->source_target_pairs);
}

Result<Pairs> sent_participants(const Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  const bool is_done = opcode == Opcode::send_done || opcode == Opcode::recv_done;
  const Instruction& start = is_done ? *instruction.operand(0) : instruction;
  const auto text = find_frontend_attribute(start.attributes(), kSendRecvPairs);
  if (!text) {
    return wrong(start, fmt::format("frontend attribute {} says who sends to whom: it has none",
                                    kSendRecvPairs));
  }
  const auto numbers = read_pairs(*text);
  if (!numbers) {
    return wrong(
        start, fmt::format("{} is '{}', must be like {{{{0,1}},{{1,2}}}}", kSendRecvPairs, *text));
  }
  for (std::size_t i = 0; i < numbers->size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [source, target] = (*numbers)[i];
      if (source != (*numbers)[j].first && target != (*numbers)[j].second) continue;
      return wrong(start, fmt::format("{} names a participant twice: {}", kSendRecvPairs, *text));
    }
  }
  return participants_of(start, *numbers);
}

namespace {

// Whether the module both sends and receives in the channel.
bool has_both_ends(const Module& module, std::int64_t channel) {
  bool sends = false, receives = false;
  for (const auto& computation : module.computations()) {
    for (const auto& each : computation->instructions()) {
      const Opcode opcode = each->opcode();
      if (opcode != Opcode::send && opcode != Opcode::recv) continue;
      if (channel_of(*each) != channel) continue;
      (opcode == Opcode::send ? sends : receives) = true;
    }
  }
  return sends && receives;
}

}  // namespace

std::string passage_name(const Instruction& instruction) {
  const Opcode opcode = instruction.opcode();
  const bool is_done = opcode == Opcode::send_done || opcode == Opcode::recv_done;
  const Instruction& start = is_done ? *instruction.operand(0) : instruction;
  const std::int64_t channel = channel_of(start);
  const std::string shape = start.shape().elements()[0].to_string();
  if (!has_both_ends(*start.parent()->module(), channel)) {
    return fmt::format("send and recv of {}", shape);
  }
  return fmt::format("send and recv of {} in channel {}", shape, channel);
}

}  // namespace plimsoll::ir
