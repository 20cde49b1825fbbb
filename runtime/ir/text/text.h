// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Reads HLO text (docs/hlo_text.md lists the grammar). The result is verified. Failures,
// UNIMPLEMENTED for an opcode of HLO that is not supported, else INVALID_ARGUMENT, start with
// `SOURCE:LINE:COLUMN: ` and say what was expected. Never crashes or hangs, whatever the bytes.
Result<std::unique_ptr<Module>> parse_module(std::string_view text,
                                             std::string_view source_name = "hlo");

struct PrintOptions {
  bool layouts = true;
  bool extras = true;           // metadata, sharding, ...
  bool large_constants = true;  // otherwise constants of more than 16 elements print as {...}
  bool operand_shapes = false;
};

// HLO text that parse_module reads back to an equal module. Deterministic.
std::string to_text(const Module& module, const PrintOptions& options = {});
std::string to_text(const Computation& computation, const PrintOptions& options = {});
// One line, without the trailing newline.
std::string to_text(const Instruction& instruction, const PrintOptions& options = {});

}  // namespace plimsoll::ir
