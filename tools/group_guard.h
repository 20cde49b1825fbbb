// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "collectives/socket.h"

namespace plimsoll::tools {

// Ends process groups by SIGKILL when this process has gone without having done so, killed, say: of
// that the system tells the groups' leaders alone. A process of its own, which hears of each group
// that starts and ends. For one thread; where it cannot be had, nothing is guarded.
class GroupGuard {
 public:
  // As many groups at a time as `most`. SIGPIPE is to be ignored.
  explicit GroupGuard(std::size_t most);
  GroupGuard(const GroupGuard&) = delete;
  GroupGuard& operator=(const GroupGuard&) = delete;
  ~GroupGuard();

  void has_started(pid_t group) { tell(group); }
  void has_ended(pid_t group) { tell(-group); }

 private:
  void tell(pid_t what);

  collectives::Socket told_;
  pid_t pid_ = -1;
};

}  // namespace plimsoll::tools
