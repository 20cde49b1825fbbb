// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectives/store.h"
#include "runtime/base/status.h"

namespace plimsoll::collectives {

// Which of several processes this one is, and how it finds the others.
struct Membership {
  std::int64_t rank = 0, world_size = 1;
  std::string host;            // where participant 0 serves the rendezvous, if not in a folder
  int port = 0;                // there
  std::string folder;          // that all share; empty: by host and port
  std::string interface_name;  // of the network; empty: that of the way to the rendezvous
  std::chrono::duration<double> timeout = std::chrono::seconds(300);

  // The rendezvous as PLIMSOLL_RENDEZVOUS has it.
  std::string where() const;
};

// What a caller says of it, before the environment.
struct GivenMembership {
  std::optional<std::int64_t> rank, world_size;
  std::string rendezvous;      // as PLIMSOLL_RENDEZVOUS has it; empty: not said
  double timeout_seconds = 0;  // 0: not said
};

// How long a participant waits for another one: as given in seconds, PLIMSOLL_COLLECTIVE_TIMEOUT
// where 0 is given. INVALID_ARGUMENT for a variable that is not understood.
Result<std::chrono::duration<double>> collective_timeout(double given_seconds = 0);

// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as launchers set them, and the PLIMSOLL_ variables
// of collectives, where nothing else is given. INVALID_ARGUMENT names what is missing or not
// understood.
Result<Membership> read_membership(const GivenMembership& given = {});

// The members' way to leave each other messages, and the server of it where this is participant 0.
struct MeetingStore {
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Store> store;
};
Result<MeetingStore> open_meeting_store(const Membership& membership, Deadline deadline);

}  // namespace plimsoll::collectives
