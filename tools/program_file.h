// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/ir/module.h"
#include "tools/command.h"

namespace plimsoll::tools {

// Reads the HLO text at `path` (`-`: standard input). A path that can't be opened is the call's
// fault, what it holds the program's.
Outcome read_program(const std::string& path, std::unique_ptr<ir::Module>& module);

// Writes `text` to `path`; a failure is the call's fault.
Outcome write_file(const std::string& path, const std::string& text);

}  // namespace plimsoll::tools
