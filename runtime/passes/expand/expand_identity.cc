// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Shape;

// Targets of XLA, Shardy and JAX. What results in nothing (JAX's sink of values that optimizers
// must not remove) has no effect.
constexpr std::string_view kIdentities[] = {
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "LayoutConstraint",
    "annotate_device_placement",
    "MoveToHost",
    "MoveToDevice",
    "PinToDevice",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.PropagationBarrier",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
    "dce_sink",
};

// What goes to the host's memory is there where it must give way.
void hint_at_host(const Instruction& call) {
  const auto place = ir::find_frontend_attribute(call.attributes(), "_xla_buffer_placement");
  const bool goes_there =
      call.attributes().custom_call_target == "MoveToHost" || (place && place->ends_with("host"));
  if (!goes_there || call.operand_count() != 1) return;
  Instruction& value = *call.operand(0);
  const bool is_made =
      value.opcode() != ir::Opcode::parameter && value.opcode() != ir::Opcode::constant;
  if (is_made && value.shape().is_array()) ir::set_hint(value.attributes(), ir::Hint::swap);
}

}  // namespace

Result<Instruction*> expand_identity(Instruction& call) {
  const std::string& target = call.attributes().custom_call_target;
  if (std::find(std::begin(kIdentities), std::end(kIdentities), target) == std::end(kIdentities)) {
    return nullptr;
  }
  hint_at_host(call);
  const Shape& result = call.shape();
  if (result.is_tuple() && result.elements().empty()) return call.parent()->add_tuple({});
  if (call.operand_count() == 1 && call.operand(0)->shape() == result) return call.operand(0);
  const bool is_tuple_of_all =
      result.is_tuple() && result.elements().size() == call.operands().size();
  bool is_same = is_tuple_of_all;
  for (int i = 0; is_same && i < call.operand_count(); ++i) {
    is_same = call.operand(i)->shape() == result.elements()[at(i)];
  }
  if (is_same) return call.parent()->add_tuple(call.operands());
  std::string given;
  for (const Instruction* operand : call.operands()) {
    given += (given.empty() ? "" : ", ") + operand->shape().to_string();
  }
  return unimplemented("'" + call.name() + "': the custom call '" + target + "' makes " +
                       result.to_string() + " of " + given +
                       ", which takes several partitions (the program has " +
                       std::to_string(call.parent()->module()->num_partitions) + ")");
}

Result<Instruction*> expand_copy(Instruction& copy) {
  return copy.shape().is_tuple() && copy.shape() == copy.operand(0)->shape() ? copy.operand(0)
                                                                             : nullptr;
}

}  // namespace plimsoll::passes
