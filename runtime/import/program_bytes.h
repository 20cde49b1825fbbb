// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::import {

// Reads a program in whichever form it comes: HLO text, a serialized HloModuleProto
// (hlo_proto/hlo_proto.h), a portable StableHLO artifact (vhlo/vhlo.h), or what jax.export's
// Exported.serialize() writes around one. The result is
// verified. INVALID_ARGUMENT and UNIMPLEMENTED as the form's reader gives them, starting with the
// source's name; StableHLO as text, which this does not read, is told from bad HLO text.
Result<std::unique_ptr<ir::Module>> read_program(std::string_view bytes,
                                                 std::string_view source_name);

}  // namespace plimsoll::import
