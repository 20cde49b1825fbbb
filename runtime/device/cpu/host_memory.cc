// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

// A process is in one group of version 2 and in one of each hierarchy of version 1, and every group
// above it limits it, too. /proc/self/cgroup names them:
//
//   0::/user.slice/job            version 2: /sys/fs/cgroup/user.slice/job/memory.max, .current
//   4:memory:/docker/ab12         version 1: /sys/fs/cgroup/memory/docker/ab12/
//                                              memory.limit_in_bytes, memory.usage_in_bytes
//
// In a container the name may be that outside of it, while its group is mounted as the root:
// folders that are not there are passed over on the way up. "max", and version 1's largest number
// of pages, are no limit.

namespace plimsoll::device {
namespace {

std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0) return std::nullopt;
  return value;
}

// The number behind `key` in a file of lines `key number`.
std::optional<std::int64_t> number_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

// What files hold one group's numbers.
struct Names {
  const char *limit, *used, *cache;
};
constexpr Names kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file"};
constexpr Names kVersion2 = {"memory.max", "memory.current", "inactive_file"};

// A limit above what the machine has is none.
void limit_by(const std::string& folder, const Names& names, std::int64_t machine_bytes,
              HostMemory& memory) {
  const auto limit = number_in(folder + "/" + names.limit);
  if (!limit || *limit >= machine_bytes) return;
  const std::int64_t used = number_in(folder + "/" + names.used).value_or(0);
  const std::int64_t cache = number_of(folder + "/memory.stat", names.cache).value_or(0);
  const std::int64_t held = used - std::clamp<std::int64_t>(cache, 0, used);
  memory.total_bytes = std::min(memory.total_bytes, *limit);
  memory.free_bytes = std::min(memory.free_bytes, std::max<std::int64_t>(0, *limit - held));
}

// The group and all above it.
void limit_by_all(const std::string& mount, std::string group, const Names& names,
                  HostMemory& memory) {
  const std::int64_t machine_bytes = memory.total_bytes;
  while (true) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    limit_by(mount + group, names, machine_bytes, memory);
    if (group.empty()) return;
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  HostMemory memory;
  const std::string info = root + "/proc/meminfo";
  memory.total_bytes = number_of(info, "MemTotal:").value_or(0) << 10;
  memory.free_bytes = number_of(info, "MemAvailable:").value_or(memory.total_bytes >> 10) << 10;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      limit_by_all(root + "/sys/fs/cgroup", group, kVersion2, memory);
    } else if (controllers.find(",memory,") != std::string::npos) {
      limit_by_all(root + "/sys/fs/cgroup/memory", group, kVersion1, memory);
    }
  }
  return memory;
}

}  // namespace plimsoll::device
