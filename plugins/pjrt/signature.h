// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plugins/pjrt/executable.h"

namespace plimsoll::pjrt {

// What frameworks ask an optimized program for, as the text of a StableHLO module: the shapes of
// parameters and results, each partition's, and how partitions hold the whole arrays
// (`mhlo.spmd_output_sharding`). Its function is one call of `plimsoll.program`.
Error* write_signature(const CompiledProgram& program, std::string& out);

}  // namespace plimsoll::pjrt
