// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/collective_costs.h"

#include <algorithm>

#include "runtime/ir/participants.h"

namespace plimsoll::planner {

using ir::Instruction;
using ir::Opcode;

namespace {

// Of all operands of up to so many bytes, a sum is computed by everybody.
constexpr double kSmallSum = 8 << 10;

double operand_bytes(const Instruction& instruction) {
  double bytes = 0;
  for (const Instruction* operand : instruction.operands()) {
    bytes += static_cast<double>(operand->shape().byte_size());
  }
  return bytes;
}

}  // namespace

CollectiveTraffic collective_traffic(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::async_start &&
      instruction.called_computations().size() == 1) {
    return collective_traffic(*instruction.called(0)->root());
  }
  if (ir::topology_of(instruction).participants() <= 1) return {};
  const double bytes = operand_bytes(instruction);
  switch (instruction.opcode()) {
    case Opcode::collective_permute:
    case Opcode::collective_permute_start:
      return {1, bytes};
    // The first halves never wait.
    case Opcode::send_done:
    case Opcode::recv_done:
      return {1, static_cast<double>(instruction.operand(0)->shape().elements()[0].byte_size())};
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::reduce_scatter:
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::all_to_all:
    case Opcode::ragged_all_to_all:
    case Opcode::collective_broadcast:
      break;
    default:
      return {};
  }
  const auto groups = ir::collective_groups(instruction);
  if (!groups.ok()) return {};
  std::size_t largest = 1;
  for (const auto& group : *groups) largest = std::max(largest, group.size());
  const auto members = static_cast<double>(largest), others = members - 1;
  switch (instruction.opcode()) {
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
      if (bytes <= kSmallSum) return {others, others * bytes};
      return {2 * others, 2 * others / members * bytes};
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::collective_broadcast:
      return {others, others * bytes};
    case Opcode::ragged_all_to_all:
      return {2 * others,
              others / members * static_cast<double>(instruction.operand(0)->shape().byte_size())};
    default:
      return {others, others / members * bytes};
  }
}

double collective_seconds(const CollectiveTraffic& traffic, const CollectiveSpeeds& speeds) {
  return traffic.messages * speeds.message_seconds + traffic.bytes / speeds.bytes_per_second;
}

}  // namespace plimsoll::planner
