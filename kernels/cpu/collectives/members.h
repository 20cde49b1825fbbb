// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/ir/participants.h"

namespace plimsoll::kernels {

// Who comes together at a collective, and as what. Immutable; keeps nothing of the module.
class Members {
 public:
  Members(const ir::Instruction& instruction, ir::Groups groups);

  const ir::Groups& groups() const { return groups_; }
  // What it is called by in errors, and what has to be the same for all members.
  const std::string& what() const { return what_; }

  // The call of the stream's participant. FAILED_PRECONDITION for a stream that has none, or one of
  // another number of participants.
  Result<device::Communicator::Call> call_of(const device::Stream& stream) const;

 private:
  struct Place {
    std::size_t group = 0, position = 0;
  };
  ir::Topology topology_;
  ir::Groups groups_;
  std::vector<Place> places_;  // by participant
  std::string what_;
};

}  // namespace plimsoll::kernels
