// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <string>

#include "plugins/onnxruntime/api.h"

namespace plimsoll::ort {

constexpr const char* kProviderName = "PlimsollExecutionProvider";

// What a session says of its provider, as it says it; what it leaves out is as the environment says
// (docs/environment.md).
struct ProviderOptions {
  std::int64_t memory_limit_bytes = 0, host_limit_bytes = 0, spill_limit_bytes = 0,
               min_size_bytes = 0;
  std::string planner, planning, remedies, spill_dir;

  plm_context_options context_options() const;
};

// Those of the session's entries that are this provider's. An error names one that there is not,
// and those that there are.
Status* read_options(const Api& api, const abi::SessionOptions* session, ProviderOptions& out);

}  // namespace plimsoll::ort
