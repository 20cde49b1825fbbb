// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/import/hlo_proto/attributes.h"
#include "runtime/ir/attributes.h"

namespace plimsoll::hlo_proto {

// Who takes part in a collective: replica groups as lists, by an iota form or by the axes of a
// mesh, and pairs of a source and a target. Counts what groups have down from `participants_left`,
// and refuses more: a few bytes can stand for many.
Result<std::shared_ptr<const ir::CollectiveAttributes>> read_collective(
    const Instruction& instruction, std::int64_t& participants_left);

}  // namespace plimsoll::hlo_proto
