// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/communicator.h"

#include <string>
#include <utility>
#include <vector>

#include "collectives/connect.h"
#include "collectives/local.h"
#include "collectives/membership.h"
#include "runtime/base/environment.h"
#include "runtime/c_api/handles.h"
#include "runtime/device/devices.h"
#include "runtime/ir/participants.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::require;

extern "C" {

plm_status* plm_communicator_connect(const plm_communicator_options* given,
                                     plm_communicator** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "communicator: the output pointer is NULL"));
    collectives::GivenMembership wanted;
    std::string kind;
    if (given != nullptr) {
      PLIMSOLL_ASSIGN_OR_RETURN(const plm_communicator_options options, c_api::read_options(given));
      if (options.rank >= 0) wanted.rank = options.rank;
      if (options.world_size != 0) wanted.world_size = options.world_size;
      if (options.rendezvous != nullptr) wanted.rendezvous = options.rendezvous;
      wanted.timeout_seconds = options.timeout_seconds;
      if (options.communicator != nullptr) kind = options.communicator;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const collectives::Membership membership,
                              collectives::read_membership(wanted));
    if (kind.empty()) {
      PLIMSOLL_ASSIGN_OR_RETURN(kind, choice_variable(Variable::communicator));
      if (kind == "local") kind = "gloo";
    }
    PLIMSOLL_RETURN_IF_ERROR(device::check_device());
    PLIMSOLL_ASSIGN_OR_RETURN(
        std::shared_ptr<device::Communicator> connected,
        collectives::connect_processes(kind, membership, device::default_device()));
    *out = new plm_communicator{std::make_shared<device::SharedCommunicator>(std::move(connected))};
    return ok_status();
  });
}

plm_status* plm_communicator_create_local(size_t count, plm_communicator** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "communicator: the output pointer is NULL"));
    if (count == 0 || count > static_cast<size_t>(ir::kMostParticipants)) {
      return invalid_argument("communicator: " + std::to_string(count) +
                              " participants (must be from 1 to " +
                              std::to_string(ir::kMostParticipants) + ")");
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const auto timeout, collectives::collective_timeout());
    const auto group =
        std::make_shared<collectives::LocalGroup>(static_cast<std::int64_t>(count), timeout);
    std::vector<std::unique_ptr<plm_communicator>> made;
    for (size_t i = 0; i < count; ++i) {
      // Each keeps the whole group.
      std::shared_ptr<device::Communicator> own(group,
                                                &group->communicator(static_cast<std::int64_t>(i)));
      made.push_back(std::make_unique<plm_communicator>(
          plm_communicator{std::make_shared<device::SharedCommunicator>(std::move(own))}));
    }
    for (size_t i = 0; i < count; ++i) out[i] = made[i].release();
    return ok_status();
  });
}

void plm_communicator_leave(plm_communicator* communicator, plm_code code, const char* message) {
  if (communicator == nullptr) return;
  plm_status_free(guarded(communicator, [&]() -> Status {
    device::SharedCommunicator& peers = *communicator->peers;
    const Status status =
        code == PLM_OK ? ok_status()
                       : Status(static_cast<StatusCode>(code), message == nullptr ? "" : message);
    const std::lock_guard turn(peers.in_turn);
    peers.communicator->leave(
        status.with_context("participant " + std::to_string(peers.communicator->participant())));
    return ok_status();
  }));
}

int64_t plm_communicator_rank(const plm_communicator* communicator) {
  return communicator == nullptr ? 0 : communicator->peers->communicator->participant();
}

int64_t plm_communicator_size(const plm_communicator* communicator) {
  return communicator == nullptr ? 1 : communicator->peers->communicator->participants();
}

void plm_communicator_destroy(plm_communicator* communicator) {
  if (!c_api::is_inherited(communicator)) delete communicator;
}

}  // extern "C"
