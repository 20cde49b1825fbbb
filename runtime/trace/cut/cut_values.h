// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/residency/value.h"
#include "runtime/trace/cut/cut.h"
#include "runtime/trace/cut/program_cache.h"

namespace plimsoll::trace {

// How the leaves of a cut are given to its program; lifted constants are the last parameters.
inline std::vector<planner::ParameterResidency> residency_of(const Cut& cut,
                                                             const CachedProgram& program) {
  std::vector<planner::ParameterResidency> residency = cut.residency;
  for (const bool lifted : program.lifted) {
    if (lifted) residency.push_back(planner::ParameterResidency::host);
  }
  return residency;
}

inline std::vector<std::shared_ptr<Value>> values_of(const Cut& cut) {
  std::vector<std::shared_ptr<Value>> values;
  values.reserve(cut.leaves.size());
  for (const Node* leaf : cut.leaves) values.push_back(leaf->value);
  return values;
}

inline std::int64_t device_bytes(std::span<const std::shared_ptr<Value>> values) {
  std::int64_t bytes = 0;
  for (const auto& value : values) {
    if (!value->on_host) bytes += value->bytes;
  }
  return bytes;
}

}  // namespace plimsoll::trace
