// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/meeting_place.h"
#include "runtime/base/status.h"
#include "runtime/device/communicator.h"

namespace plimsoll::collectives {

// Participants that are threads of this process and see each other's memory: nothing is copied on
// the way, and reductions are shared out among the members of a group. The bits depend on the
// group's order alone. The object outlives its communicators' use.
class LocalGroup {
 public:
  // `timeout`: how long one waits for another (collective_timeout); then all get an error that
  // names both and the collective.
  LocalGroup(std::int64_t participants, std::chrono::duration<double> timeout);
  ~LocalGroup();

  // Of a participant, for its thread.
  device::Communicator& communicator(std::int64_t participant);
  // That a participant's run has ended: those that wait for it get an error, with a failed status
  // all the others do, wherever they wait.
  void leave(std::int64_t participant, const Status& status);

 private:
  class Member;
  MeetingPlace place_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace plimsoll::collectives
