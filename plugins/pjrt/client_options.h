// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <cstdint>
#include <string>

#include "plugins/pjrt/error.h"

namespace plimsoll::pjrt {

// What a client is made with: the fields of plm_context_options by name, and how many devices it
// has, each optional. Sizes are numbers or texts (`512MiB`).
struct ClientOptions {
  std::int64_t memory_limit_bytes = 0, host_limit_bytes = 0, spill_limit_bytes = 0,
               min_size_bytes = 0;
  std::int64_t num_devices = 1;  // of this process, each with a context of these options
  // Which process this is, of how many that have devices of one client (processes.h), as frameworks
  // pass it, and a host that all reach.
  std::int64_t node_id = 0, num_nodes = 1;
  std::string coordinator;
  std::string planner, planning, remedies, spill_dir;

  // Points into this object.
  plm_context_options context_options() const;
};

// INVALID_ARGUMENT for a value that one of ours can't have, and for a name that is neither ours nor
// one that frameworks are known to pass, which is left alone.
Error* read_client_options(const abi::NamedValue* values, std::size_t count, ClientOptions& out);

}  // namespace plimsoll::pjrt
