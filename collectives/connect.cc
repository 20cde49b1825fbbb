// SPDX-License-Identifier: Apache-2.0
#include "collectives/connect.h"

#include <fmt/core.h>

#include "collectives/gloo.h"
#include "collectives/nccl.h"

namespace plimsoll::collectives {

Result<std::unique_ptr<device::Communicator>> connect_processes(
    std::string_view kind, const Membership& membership,
    const std::shared_ptr<device::Device>& device) {
  if (kind == "gloo") {
    PLIMSOLL_ASSIGN_OR_RETURN(auto connected, connect_gloo(membership));
    return std::unique_ptr<device::Communicator>(std::move(connected));
  }
  if (kind == "nccl") {
    PLIMSOLL_ASSIGN_OR_RETURN(auto connected, connect_nccl(membership, device));
    return std::unique_ptr<device::Communicator>(std::move(connected));
  }
  return invalid_argument(fmt::format("communicator '{}' (gloo or nccl)", kind));
}

}  // namespace plimsoll::collectives
