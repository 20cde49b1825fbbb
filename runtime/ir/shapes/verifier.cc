// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/shapes/verifier.h"

#include <fmt/core.h>
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::ir {
namespace {

using Positions = std::unordered_map<const Instruction*, int>;

Status check_order(const Instruction& instruction, const Positions& positions, int here) {
  const auto check = [&](const Instruction* before, std::string_view role) {
    if (before->parent() != instruction.parent()) {
      return invalid_argument(std::string(role) + " is not in the same computation");
    }
    const auto it = positions.find(before);
    if (it == positions.end() || it->second >= here) {
      return invalid_argument(std::string(role) + " '" + before->name() +
                              "' comes later in the schedule");
    }
    return ok_status();
  };
  for (const Instruction* operand : instruction.operands()) {
    PLIMSOLL_RETURN_IF_ERROR(check(operand, "operand"));
  }
  for (const Instruction* predecessor : instruction.control_predecessors()) {
    PLIMSOLL_RETURN_IF_ERROR(check(predecessor, "control predecessor"));
  }
  return ok_status();
}

Status check_shape(const Instruction& instruction) {
  std::vector<const Shape*> operands;
  operands.reserve(instruction.operands().size());
  for (const Instruction* operand : instruction.operands()) operands.push_back(&operand->shape());
  const Result<Shape> shape = infer_shape(instruction.opcode(), operands, instruction.attributes(),
                                          instruction.called_computations(), &instruction.shape());
  return shape.status();
}

// The opcodes that may open what `done` closes; empty when `done` is no closing half.
std::vector<Opcode> openers_of(Opcode done) {
  switch (done) {
    case Opcode::send_done:
      return {Opcode::send};
    case Opcode::recv_done:
      return {Opcode::recv};
    case Opcode::all_reduce_done:
      return {Opcode::all_reduce_start};
    case Opcode::all_gather_done:
      return {Opcode::all_gather_start};
    case Opcode::collective_permute_done:
      return {Opcode::collective_permute_start};
    case Opcode::copy_done:
      return {Opcode::copy_start};
    case Opcode::async_update:
    case Opcode::async_done:
      return {Opcode::async_start, Opcode::async_update};
    default:
      return {};
  }
}

Status check_pairing(const Instruction& instruction) {
  const std::vector<Opcode> openers = openers_of(instruction.opcode());
  if (openers.empty()) return ok_status();
  const Opcode opener = instruction.operand(0)->opcode();
  if (std::find(openers.begin(), openers.end(), opener) != openers.end()) return ok_status();
  return invalid_argument(std::string(to_string(instruction.opcode())) + ": operand is " +
                          std::string(to_string(opener)) + ", must be " +
                          std::string(to_string(openers.front())));
}

Status check_collective(const Instruction& instruction) {
  const CollectiveAttributes* collective = instruction.attributes().collective.get();
  if (collective == nullptr) return ok_status();
  std::vector<std::int64_t> members;
  for (const auto& group : collective->replica_groups) {
    if (group.empty()) return invalid_argument("replica_groups have a group without members");
    members.insert(members.end(), group.begin(), group.end());
  }
  std::sort(members.begin(), members.end());
  if (std::adjacent_find(members.begin(), members.end()) != members.end()) {
    return invalid_argument("replica_groups name a participant twice");
  }
  if (!members.empty() && members.front() < 0) {
    return invalid_argument("replica_groups name a negative participant");
  }
  std::vector<std::int64_t> sources, targets;
  for (const auto& [source, target] : collective->source_target_pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  for (std::vector<std::int64_t>* side : {&sources, &targets}) {
    std::sort(side->begin(), side->end());
    if (std::adjacent_find(side->begin(), side->end()) != side->end()) {
      return invalid_argument("source_target_pairs name a participant twice");
    }
  }
  return ok_status();
}

// What is sent in a channel that has both ends must be received there, too, and the other way
// round; and other collectives have channels of their own. (Those share one in programs by JAX.)
Status check_channels(const Module& module) {
  struct Channel {
    std::map<std::string, const Instruction*> sent, received;  // one for each shape
    const Instruction* other = nullptr;
  };
  std::map<std::int64_t, Channel> channels;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      const auto* const collective = instruction->attributes().collective.get();
      const std::int64_t number = collective == nullptr ? 0 : collective->channel_id;
      const bool sends = instruction->opcode() == Opcode::send;
      if (sends || instruction->opcode() == Opcode::recv) {
        if (collective != nullptr && collective->is_host_transfer) continue;
        Channel& channel = channels[number];
        (sends ? channel.sent : channel.received)
            .emplace(instruction->shape().elements()[0].to_string(), instruction.get());
      } else if (number != 0 && op_info(instruction->opcode()).op_class == OpClass::collective) {
        channels[number].other = instruction.get();
      }
    }
  }
  for (const auto& [number, channel] : channels) {
    const auto& [sent, received, other] = channel;
    const auto fail = [number = number](const Instruction& instruction, const std::string& what) {
      return invalid_argument(fmt::format("instruction '{}': {} in channel {}, {}",
                                          instruction.name(), to_string(instruction.opcode()),
                                          number, what))
          .with_context("computation '" + instruction.parent()->name() + "'");
    };
    if (other != nullptr && (!sent.empty() || !received.empty())) {
      const Instruction& end = *(sent.empty() ? received : sent).begin()->second;
      return fail(*other, fmt::format("which {} '{}' uses (give it one of its own)",
                                      to_string(end.opcode()), end.name()));
    }
    if (sent.empty() || received.empty()) continue;
    for (const auto& [shape, instruction] : sent) {
      if (received.contains(shape)) continue;
      return fail(*instruction,
                  fmt::format("where nobody receives {} ('{}' receives {})", shape,
                              received.begin()->second->name(), received.begin()->first));
    }
    for (const auto& [shape, instruction] : received) {
      if (sent.contains(shape)) continue;
      return fail(*instruction, fmt::format("where nobody sends {} ('{}' sends {})", shape,
                                            sent.begin()->second->name(), sent.begin()->first));
    }
  }
  return ok_status();
}

Status verify_computation(const Computation& computation,
                          const std::unordered_map<const Computation*, int>& known) {
  Positions positions;
  positions.reserve(computation.instructions().size());
  std::size_t parameter_count = 0;
  for (const auto& instruction : computation.instructions()) {
    const int here = static_cast<int>(positions.size());
    positions.emplace(instruction.get(), here);
    const auto fail = [&](const Status& status) {
      return status.with_context("instruction '" + instruction->name() + "'");
    };
    if (instruction->parent() != &computation) {
      return fail(invalid_argument("belongs to another computation"));
    }
    if (instruction->opcode() == Opcode::parameter) {
      ++parameter_count;
      const auto number = at(instruction->attributes().parameter_number);
      if (number >= computation.parameters().size() ||
          computation.parameters()[number] != instruction.get()) {
        return fail(invalid_argument(fmt::format("parameter number {} is taken twice", number)));
      }
    }
    for (const Computation* called : instruction->called_computations()) {
      if (!known.contains(called)) {
        return fail(invalid_argument("calls a computation that is not of this module"));
      }
    }
    for (const Status& status :
         {check_order(*instruction, positions, here), check_shape(*instruction)}) {
      if (!status.ok()) return fail(status);
    }
    for (const Status& status :
         {check_pairing(*instruction), check_collective(*instruction), check_hint(*instruction)}) {
      if (!status.ok()) return fail(status);
    }
  }
  if (computation.root() == nullptr || !positions.contains(computation.root())) {
    return invalid_argument("has no root");
  }
  if (parameter_count != computation.parameters().size()) {
    return invalid_argument(
        fmt::format("parameter numbers are not 0..{} without gaps", parameter_count));
  }
  return ok_status();
}

// Kahn's algorithm on the call graph: whatever is never freed of callers lies on a cycle.
Status check_acyclic_calls(const Module& module,
                           const std::unordered_map<const Computation*, int>& known) {
  std::vector<int> callers(known.size(), 0);
  const auto for_each_call = [&](const Computation& computation, auto&& visit) {
    for (const auto& instruction : computation.instructions()) {
      for (const Computation* called : instruction->called_computations()) visit(called);
    }
  };
  for (const auto& computation : module.computations()) {
    for_each_call(*computation,
                  [&](const Computation* called) { ++callers[at(known.at(called))]; });
  }
  std::vector<const Computation*> work;
  for (const auto& computation : module.computations()) {
    if (callers[at(known.at(computation.get()))] == 0) {
      work.push_back(computation.get());
    }
  }
  while (!work.empty()) {
    const Computation* computation = work.back();
    work.pop_back();
    for_each_call(*computation, [&](const Computation* called) {
      if (--callers[at(known.at(called))] == 0) work.push_back(called);
    });
  }
  for (const auto& computation : module.computations()) {
    if (callers[at(known.at(computation.get()))] > 0) {
      return invalid_argument("computation '" + computation->name() + "' calls itself");
    }
  }
  return ok_status();
}

const Shape* at_index(const Shape& shape, const std::vector<std::int64_t>& index) {
  const Shape* part = &shape;
  for (std::int64_t i : index) {
    if (!part->is_tuple() || i < 0 || i >= static_cast<std::int64_t>(part->elements().size())) {
      return nullptr;
    }
    part = &part->elements()[at(i)];
  }
  return part;
}

std::string to_string(const std::vector<std::int64_t>& index) {
  std::string text = "{";
  for (std::size_t i = 0; i < index.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(index[i]);
  }
  return text + "}";
}

const Shape* parameter_at(const Module& module, std::int64_t number,
                          const std::vector<std::int64_t>& index) {
  const auto& parameters = module.entry()->parameters();
  if (number < 0 || number >= static_cast<std::int64_t>(parameters.size())) return nullptr;
  return at_index(parameters[at(number)]->shape(), index);
}

Status check_aliases(const Module& module) {
  using Place = std::pair<std::int64_t, std::vector<std::int64_t>>;
  std::vector<Place> outputs, parameters;
  for (const InputOutputAlias& alias : module.input_output_alias) {
    const std::string what = "input_output_alias " + to_string(alias.output_index) + ": ";
    const Shape* output = at_index(module.entry()->root()->shape(), alias.output_index);
    if (output == nullptr) return invalid_argument(what + "the result has no such element");
    const Shape* parameter = parameter_at(module, alias.parameter_number, alias.parameter_index);
    if (parameter == nullptr) {
      return invalid_argument(fmt::format("{}there is no parameter {} {}", what,
                                          alias.parameter_number,
                                          to_string(alias.parameter_index)));
    }
    if (output->byte_size() != parameter->byte_size()) {
      return invalid_argument(what + output->to_string() + " and " + parameter->to_string() +
                              " differ in bytes");
    }
    outputs.emplace_back(0, alias.output_index);
    parameters.emplace_back(alias.parameter_number, alias.parameter_index);
  }
  for (const BufferDonor& donor : module.buffer_donor) {
    if (parameter_at(module, donor.parameter_number, donor.parameter_index) == nullptr) {
      return invalid_argument(fmt::format("buffer_donor: there is no parameter {} {}",
                                          donor.parameter_number,
                                          to_string(donor.parameter_index)));
    }
    parameters.emplace_back(donor.parameter_number, donor.parameter_index);
  }
  for (std::vector<Place>* places : {&outputs, &parameters}) {
    std::sort(places->begin(), places->end());
    const auto twice = std::adjacent_find(places->begin(), places->end());
    if (twice != places->end()) {
      return invalid_argument(std::string(places == &outputs ? "result " : "parameter ") +
                              to_string(twice->second) + " is aliased or donated twice");
    }
  }
  return ok_status();
}

}  // namespace

Status verify(const Module& module) {
  if (module.entry() == nullptr) {
    return invalid_argument("module '" + module.name() + "' has no entry computation");
  }
  std::unordered_map<const Computation*, int> known;
  for (const auto& computation : module.computations()) {
    known.emplace(computation.get(), static_cast<int>(known.size()));
  }
  if (!known.contains(module.entry())) {
    return invalid_argument("module '" + module.name() + "' has an entry of another module");
  }
  for (const auto& computation : module.computations()) {
    const Status status = verify_computation(*computation, known);
    if (!status.ok()) return status.with_context("computation '" + computation->name() + "'");
  }
  PLIMSOLL_RETURN_IF_ERROR(check_acyclic_calls(module, known));
  PLIMSOLL_RETURN_IF_ERROR(check_channels(module));
  return check_aliases(module);
}

}  // namespace plimsoll::ir
