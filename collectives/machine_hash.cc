// SPDX-License-Identifier: Apache-2.0
#include "collectives/machine_hash.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "runtime/base/hash.h"

namespace plimsoll::collectives {

std::uint64_t machine_hash() {
  std::string name;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!std::getline(boot, name) || name.empty()) {
    // Without /proc: what it is called.
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) == 0) name = host.data();
  }
  return hash_text(name);
}

}  // namespace plimsoll::collectives
