// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::vhlo {

// Whether these are the first bytes of MLIR bytecode.
bool is_bytecode(std::string_view bytes);

// Reads a portable StableHLO artifact: MLIR bytecode of version 6 whose operations are VHLO's, of
// StableHLO 1.0 to 1.20, as jax.export and torchax write it. The result is verified. Errors start
// with `SOURCE: `: INVALID_ARGUMENT for bytes that make no sense, UNIMPLEMENTED for what this
// library can't run, by name. Never crashes or hangs, whatever the bytes.
Result<std::unique_ptr<ir::Module>> read_module(std::string_view bytes,
                                                std::string_view source_name);

}  // namespace plimsoll::vhlo
