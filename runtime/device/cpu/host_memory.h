// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::device {

struct HostMemory {
  std::int64_t total_bytes = 0;  // what this process may use at most, with all that is beside it
  std::int64_t free_bytes = 0;   // what of it is free now, file caches that can go included
};

// Of the machine, or of the control groups (cgroup v1 and v2) that this process is in where one of
// them has less: what a container may use. Read anew at each call. `root` stands before the files
// of /proc and /sys, for tests. What can't be read does not limit.
HostMemory host_memory(const std::string& root = "");

}  // namespace plimsoll::device
