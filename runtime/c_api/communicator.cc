// SPDX-License-Identifier: Apache-2.0
#include "runtime/c_api/communicator.h"

#include "collectives/gloo.h"
#include "collectives/membership.h"
#include "runtime/c_api/handles.h"

using namespace plimsoll;
using c_api::guarded;
using c_api::require;

extern "C" {

plm_status* plm_communicator_connect(const plm_communicator_options* given,
                                     plm_communicator** out) {
  return guarded([&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(require(out != nullptr, "communicator: the output pointer is NULL"));
    collectives::GivenMembership wanted;
    if (given != nullptr) {
      PLIMSOLL_ASSIGN_OR_RETURN(const plm_communicator_options options, c_api::read_options(given));
      if (options.rank >= 0) wanted.rank = options.rank;
      if (options.world_size != 0) wanted.world_size = options.world_size;
      if (options.rendezvous != nullptr) wanted.rendezvous = options.rendezvous;
      wanted.timeout_seconds = options.timeout_seconds;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const collectives::Membership membership,
                              collectives::read_membership(wanted));
    PLIMSOLL_ASSIGN_OR_RETURN(auto connected, collectives::connect_gloo(membership));
    auto peers = std::make_shared<executor::ServedProgram::Peers>();
    peers->communicator = std::move(connected);
    *out = new plm_communicator{std::move(peers)};
    return ok_status();
  });
}

int64_t plm_communicator_rank(const plm_communicator* communicator) {
  return communicator == nullptr ? 0 : communicator->peers->communicator->participant();
}

int64_t plm_communicator_size(const plm_communicator* communicator) {
  return communicator == nullptr ? 1 : communicator->peers->communicator->participants();
}

void plm_communicator_destroy(plm_communicator* communicator) { delete communicator; }

}  // extern "C"
