// SPDX-License-Identifier: Apache-2.0
#include "examples/training/memory_limit.h"

#include "plimsoll/context.hpp"
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
  if (!parsed->is_of_device()) return *parsed;
  internal::check(plm_parse_memory_limit(asked->c_str(), "--memory-limit", 0, &limit.bytes));
  return limit;
}

}  // namespace plimsoll::examples
