// SPDX-License-Identifier: Apache-2.0
#include "examples/training/memory_limit.h"

#include <unistd.h>

#include "plimsoll/error.hpp"
#include "plimsoll/plimsoll.h"

namespace plimsoll::examples {

std::optional<MemoryLimit> chosen_limit(const std::optional<std::string>& asked) {
  if (!asked) return std::nullopt;
  MemoryLimit limit;
  if (*asked == "none") {
    limit.bytes = PLM_NO_LIMIT;
    return limit;
  }
  const Result<MemoryLimit> parsed = parse_memory_limit(*asked, "--memory-limit");
  if (!parsed.ok()) {
    throw Error(ErrorCode::invalid_argument, parsed.status().message() + "; or none");
  }
  if (parsed->kind != MemoryLimit::Kind::percent_of_device) return *parsed;
  limit.bytes = parsed->resolve(
      static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE), 0);
  return limit;
}

}  // namespace plimsoll::examples
