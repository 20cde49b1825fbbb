// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/collectives/members.h"

#include <fmt/core.h>

#include "runtime/base/index.h"

namespace plimsoll::kernels {

Members::Members(const ir::Instruction& instruction, ir::Groups groups)
    : topology_(ir::topology_of(instruction)),
      groups_(std::move(groups)),
      places_(at(topology_.participants())),
      what_(fmt::format("{} '{}' of {}", ir::to_string(instruction.opcode()),
                        ir::meeting_of(instruction), instruction.operand(0)->shape().to_string())) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < groups_[g].size(); ++i) places_[at(groups_[g][i])] = {g, i};
  }
}

Result<device::Communicator::Call> Members::call_of(const device::Stream& stream) const {
  const device::Communicator* const communicator = stream.communicator();
  if (communicator == nullptr || communicator->participants() != topology_.participants()) {
    return failed_precondition(fmt::format(
        "{}: the program is one of {} replicas x {} partitions, and was run by {} (run all of them "
        "together)",
        what_, topology_.replicas, topology_.partitions,
        communicator == nullptr ? 1 : communicator->participants()));
  }
  const Place& place = places_[at(communicator->participant())];
  return device::Communicator::Call{what_, groups_[place.group], place.position};
}

}  // namespace plimsoll::kernels
