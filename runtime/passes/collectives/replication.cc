// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/replication.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/index.h"

namespace plimsoll::passes {

using ir::Computation;
using ir::Groups;
using ir::Instruction;
using ir::Module;
using ir::OpClass;
using ir::Opcode;

namespace {

constexpr Sameness kNowhere = {false, false};

// What stands between the outer braces, cut at the commas that are in no others.
std::vector<std::string_view> items_of(std::string_view text) {
  std::vector<std::string_view> items;
  if (text.size() < 2 || text.front() != '{') return items;
  int depth = 0;
  std::size_t begin = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{') ++depth;
    if (c == '}') --depth;
    const bool ends = (c == ',' && depth == 1) || (c == '}' && depth == 0);
    if (!ends) continue;
    std::string_view item = text.substr(begin, i - begin);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    if (!item.empty()) items.push_back(item);
    begin = i + 1;
    if (depth == 0) break;
  }
  return items;
}

// `text` is a sharding of a value, or of each leaf of one.
bool is_replicated(std::string_view text, std::size_t leaf) {
  std::vector<std::string_view> items = items_of(text);
  if (!items.empty() && items[0].front() == '{') {
    if (leaf >= items.size()) return false;
    items = items_of(items[leaf]);
  }
  return !items.empty() && (items[0] == "replicated" || items[0].substr(0, 11) == "replicated ");
}

std::vector<Sameness> of_entry_parameter(const Instruction& parameter) {
  const Module& module = *parameter.parent()->module();
  std::string_view sharding = parameter.attributes().find_extra("sharding");
  if (sharding.empty()) {
    for (const auto& [name, text] : module.extra) {
      if (name != "spmd_parameters_shardings") continue;
      const auto items = items_of(text);
      const auto number = at(parameter.attributes().parameter_number);
      if (number < items.size()) sharding = items[number];
    }
  }
  const auto replicas = items_of(parameter.attributes().find_extra("parameter_replication"));
  std::vector<Sameness> leaves(at(leaf_count(parameter.shape())));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    leaves[i] = {is_replicated(sharding, i), i < replicas.size() && replicas[i] == "true"};
  }
  return leaves;
}

Sameness meet_all(const std::vector<Sameness>& leaves) {
  Sameness all;
  for (const Sameness& leaf : leaves) all = meet(all, leaf);
  return all;
}

std::vector<Sameness> meet(std::vector<Sameness> a, const std::vector<Sameness>& b) {
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) a[i] = passes::meet(a[i], b[i]);
  return a;
}

// What an operation on scalars reads besides its arguments.
bool is_of_arguments_alone(const Computation& computation) {
  return std::all_of(computation.instructions().begin(), computation.instructions().end(),
                     [](const auto& instruction) {
                       const OpClass kind = ir::op_info(instruction->opcode()).op_class;
                       return !instruction->has_side_effect() && kind != OpClass::collective &&
                              kind != OpClass::async &&
                              instruction->opcode() != Opcode::partition_id &&
                              instruction->opcode() != Opcode::replica_id &&
                              instruction->opcode() != Opcode::custom_call;
                     });
}

// What a participant learns from its group depends on whom it meets, and as which of them.
struct Meeting {
  std::vector<std::int64_t> members;
  std::int64_t position = 0;
};

// Whether all participants along an axis are in one group, and whether those in other groups meet
// there the same numbers of the other axis, in the same order (and as the same member).
struct AxisOfGroups {
  bool united = true, alike = true, alike_in_position = true;
};

AxisOfGroups axis_of(const std::vector<Meeting>& meetings, const ir::Topology& topology,
                     bool partitions) {
  AxisOfGroups made;
  const std::int64_t outer = partitions ? topology.replicas : topology.partitions;
  const std::int64_t inner = partitions ? topology.partitions : topology.replicas;
  const auto participant = [&](std::int64_t o, std::int64_t i) {
    return partitions ? o * topology.partitions + i : i * topology.partitions + o;
  };
  // The number on the other axis.
  const auto other = [&](std::int64_t member) {
    return partitions ? member / topology.partitions : member % topology.partitions;
  };
  for (std::int64_t o = 0; o < outer; ++o) {
    const Meeting& first = meetings[at(participant(o, 0))];
    for (std::int64_t i = 1; i < inner; ++i) {
      const Meeting& next = meetings[at(participant(o, i))];
      made.united = made.united && next.members == first.members;
      const bool alike = std::equal(
          next.members.begin(), next.members.end(), first.members.begin(), first.members.end(),
          [&](std::int64_t a, std::int64_t b) { return other(a) == other(b); });
      made.alike = made.alike && alike;
      made.alike_in_position = made.alike_in_position && alike && next.position == first.position;
    }
  }
  return made;
}

}  // namespace

std::vector<Sameness> Replication::of_collective(const Instruction& instruction) const {
  Sameness operands;
  for (const Instruction* operand : instruction.operands()) {
    operands = passes::meet(operands, of(*operand));
  }
  Sameness made = kNowhere;
  const auto& collective = instruction.attributes().collective;
  switch (instruction.opcode()) {
    case Opcode::collective_permute:
    case Opcode::collective_permute_start:
      // Zeros or the value of one along this axis: the other axis stays as it is.
      (collective != nullptr && collective->channel_id != 0 ? made.replicas : made.partitions) =
          collective != nullptr && collective->channel_id != 0 ? operands.replicas
                                                               : operands.partitions;
      break;
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::collective_broadcast:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::ragged_all_to_all: {
      const auto groups = ir::collective_groups(instruction);
      if (!groups.ok()) break;
      std::vector<Meeting> meetings(at(topology_.participants()));
      for (const auto& group : *groups) {
        for (std::size_t i = 0; i < group.size(); ++i) {
          meetings[at(group[i])] = {group, static_cast<std::int64_t>(i)};
        }
      }
      const bool shares_out = instruction.opcode() == Opcode::reduce_scatter ||
                              instruction.opcode() == Opcode::all_to_all ||
                              instruction.opcode() == Opcode::ragged_all_to_all;
      for (const bool partitions : {true, false}) {
        const AxisOfGroups axis = axis_of(meetings, topology_, partitions);
        const bool same = partitions ? operands.partitions : operands.replicas;
        (partitions ? made.partitions : made.replicas) =
            shares_out ? same && axis.alike_in_position : axis.united || (same && axis.alike);
      }
      break;
    }
    default:
      break;
  }
  Leaves leaves(at(leaf_count(instruction.shape())), made);
  // A start half also hands its operands through.
  if (ir::op_info(instruction.opcode()).op_class == OpClass::async &&
      instruction.opcode() != Opcode::all_reduce_start) {
    leaves.assign(leaves.size(), passes::meet(made, operands));
  }
  return leaves;
}

std::vector<Sameness> Replication::computed(const Instruction& instruction) const {
  const auto leaves_of = [&](const Instruction* value) -> const Leaves& {
    return known_.at(value);
  };
  const std::size_t count = at(leaf_count(instruction.shape()));
  // The leaves of element `element` of a tuple.
  const auto element_of = [&](const Instruction& tuple, int element) {
    const Leaves& all = leaves_of(&tuple);
    const auto first = all.begin() + leaf_offset(tuple.shape(), element);
    return Leaves(first, first + static_cast<std::ptrdiff_t>(count));
  };
  Sameness operands;
  for (const Instruction* operand : instruction.operands()) {
    operands = passes::meet(operands, meet_all(leaves_of(operand)));
  }
  switch (instruction.opcode()) {
    case Opcode::parameter:
      return leaves_of(&instruction);
    case Opcode::partition_id:
      return {{false, true}};
    case Opcode::replica_id:
      return {{true, false}};
    case Opcode::tuple: {
      Leaves leaves;
      for (const Instruction* operand : instruction.operands()) {
        const Leaves& of_operand = leaves_of(operand);
        leaves.insert(leaves.end(), of_operand.begin(), of_operand.end());
      }
      return leaves;
    }
    case Opcode::get_tuple_element:
      return element_of(*instruction.operand(0),
                        static_cast<int>(instruction.attributes().tuple_index));
    case Opcode::opt_barrier:
    case Opcode::domain:
    case Opcode::add_dependency:
    case Opcode::all_reduce_done:
    case Opcode::async_update:
      return leaves_of(instruction.operand(0));
    case Opcode::all_gather_done:
    case Opcode::collective_permute_done:
    case Opcode::async_done:
      return element_of(*instruction.operand(0), 1);
    case Opcode::copy_done:
      return element_of(*instruction.operand(0), 0);
    case Opcode::while_: {
      // Rounds are counted alike only where all decide alike.
      const Sameness rounds = meet_all(leaves_of(instruction.while_condition()->root()));
      Leaves leaves =
          meet(leaves_of(instruction.operand(0)), leaves_of(instruction.while_body()->root()));
      for (Sameness& leaf : leaves) leaf = passes::meet(leaf, rounds);
      return leaves;
    }
    case Opcode::conditional: {
      const Sameness choice = meet_all(leaves_of(instruction.operand(0)));
      Leaves leaves(count, choice);
      for (const Computation* branch : instruction.called_computations()) {
        leaves = meet(std::move(leaves), leaves_of(branch->root()));
      }
      return leaves;
    }
    case Opcode::call:
    case Opcode::fusion:
      return leaves_of(instruction.to_apply()->root());
    case Opcode::async_start: {
      if (instruction.called_computations().empty()) break;
      const Sameness result = meet_all(leaves_of(instruction.called(0)->root()));
      return Leaves(count, passes::meet(result, operands));
    }
    case Opcode::custom_call:
    case Opcode::rng:
    case Opcode::infeed:
    case Opcode::recv:
      return Leaves(count, kNowhere);
    default:
      break;
  }
  const OpClass kind = ir::op_info(instruction.opcode()).op_class;
  if (kind == OpClass::collective || kind == OpClass::async) return of_collective(instruction);
  const auto& called = instruction.called_computations();
  if (instruction.has_side_effect() ||
      !std::all_of(called.begin(), called.end(),
                   [](const Computation* c) { return is_of_arguments_alone(*c); })) {
    return Leaves(count, kNowhere);
  }
  return Leaves(count, operands);
}

bool Replication::lower(const Instruction& instruction, const Leaves& leaves) {
  Leaves& known = known_.at(&instruction);
  Leaves lowered = meet(known, leaves);
  if (lowered == known) return false;
  known = std::move(lowered);
  return true;
}

bool Replication::hand_arguments(const Instruction& caller) {
  bool changed = false;
  switch (caller.opcode()) {
    case Opcode::while_: {
      const Leaves state = known_.at(&caller);
      for (const Computation* computation : caller.called_computations()) {
        changed = lower(*computation->parameters()[0], state) || changed;
      }
      break;
    }
    case Opcode::conditional:
      for (std::size_t i = 0; i < caller.called_computations().size(); ++i) {
        changed = lower(*caller.called_computations()[i]->parameters()[0],
                        known_.at(caller.operands()[i + 1])) ||
                  changed;
      }
      break;
    case Opcode::call:
    case Opcode::fusion:
    case Opcode::async_start:
      if (caller.called_computations().empty()) break;
      for (std::size_t i = 0; i < caller.operands().size(); ++i) {
        changed =
            lower(*caller.called(0)->parameters()[i], known_.at(caller.operands()[i])) || changed;
      }
      break;
    default:
      break;
  }
  return changed;
}

// From the assumption that all is the same everywhere, down to what follows from itself. Each round
// that changes something lowers a leaf, of which there are finitely many; in practice as many
// rounds run as loops nest.
Replication::Replication(const Module& module)
    : known_(at(module.instruction_count())),
      topology_{module.replica_count, module.num_partitions} {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      known_.emplace(instruction.get(), Leaves(at(leaf_count(instruction->shape()))));
    }
  }
  for (const Instruction* parameter : module.entry()->parameters()) {
    known_.at(parameter) = of_entry_parameter(*parameter);
  }
  for (bool changed = true; changed;) {
    changed = false;
    // Callers before callees, so that arguments are handed down within a round.
    for (auto it = module.computations().rbegin(); it != module.computations().rend(); ++it) {
      for (const auto& instruction : (*it)->instructions()) {
        changed = lower(*instruction, computed(*instruction)) || changed;
        changed = hand_arguments(*instruction) || changed;
      }
    }
  }
}

Sameness Replication::of(const Instruction& value) const {
  const Leaves* const leaves = known_.find(&value);
  return leaves == nullptr ? kNowhere : meet_all(*leaves);
}

bool Replication::within(const Instruction& value, const Groups& groups) const {
  const Sameness same = of(value);
  for (const auto& group : groups) {
    for (const std::int64_t member : group) {
      if (member / topology_.partitions != group[0] / topology_.partitions && !same.replicas) {
        return false;
      }
      if (member % topology_.partitions != group[0] % topology_.partitions && !same.partitions) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace plimsoll::passes
