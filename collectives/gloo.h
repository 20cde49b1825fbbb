// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/membership.h"
#include "collectives/process_communicator.h"
#include "runtime/base/status.h"

namespace plimsoll::collectives {

// This process's communicator, connected to all others through Gloo over TCP: waits for them at the
// rendezvous, within the time-out, and until all are connected. Errors name who has not come.
// Connections are neither encrypted nor authenticated: for networks of one's own.
Result<std::unique_ptr<ProcessCommunicator>> connect_gloo(const Membership& membership);
// With a rendezvous of the caller's.
Result<std::unique_ptr<ProcessCommunicator>> connect_gloo(const Membership& membership,
                                                          Store& store);

}  // namespace plimsoll::collectives
