// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::hlo_proto {

// Whether these may be the bytes of a message: they have control characters that no text has.
bool looks_like_message(std::string_view bytes);

// Reads a serialized HloModuleProto, alone or within an HloProto, HloSnapshot or
// HloUnoptimizedSnapshot. The result is verified. Instructions keep their order, or that of the
// module's schedule; layouts are kept as HLO text keeps them; shardings are dropped. Errors start
// with `SOURCE: ` and name the computation and the instruction: INVALID_ARGUMENT for bytes that
// make no sense, UNIMPLEMENTED for what this library can't run. Never crashes or hangs, whatever
// the bytes.
Result<std::unique_ptr<ir::Module>> read_module(std::string_view bytes,
                                                std::string_view source_name);

}  // namespace plimsoll::hlo_proto
