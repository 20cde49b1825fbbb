// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "jit/jit.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Makes the folder. UNAVAILABLE when it can't be made.
Status make_dump_folder(const DumpOptions& options);

// The instruction as a program of its own, whose parameters are its operands: HLO text that
// `plimsoll run` takes.
std::string program_text(const ir::Instruction& instruction);

// Writes `text` into `name` of the folder; UNAVAILABLE when that fails.
Status write_dump(const DumpOptions& options, const std::string& name, const std::string& text);

}  // namespace plimsoll::jit
