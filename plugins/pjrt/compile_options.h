// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/pjrt/error.h"

namespace plimsoll::pjrt {

// What concerns us of a serialized CompileOptionsProto (OpenXLA, xla/pjrt/proto/
// compile_options.proto).
struct CompileOptions {
  std::int64_t replicas = 1, partitions = 1;
  // Of partition p of replica r at r * partitions + p; empty: the first ones.
  std::vector<std::int64_t> devices;
  std::string memory_limit;  // as people write it; empty: the client's
  std::string planner;       // empty: the client's
};

// INVALID_ARGUMENT for bytes that are no such message, and for a `compiler_options` entry that is
// neither ours (`plimsoll_memory_limit`, `plimsoll_planner`) nor XLA's (`xla_...`, which is left
// alone).
Error* read_compile_options(std::string_view bytes, CompileOptions& out);

}  // namespace plimsoll::pjrt
