// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/ir/module.h"
#include "tools/command.h"

namespace plimsoll::tools {

struct InputFile {
  std::string name;  // for messages
  std::string text;
};
// The bytes at `path` (`-`: standard input). A path that can't be opened is the call's fault.
Outcome read_input(const std::string& path, InputFile& input);
// What HLO text says; what is wrong in it is the program's fault.
Outcome parse_program(const InputFile& input, std::unique_ptr<ir::Module>& module);
// Both.
Outcome read_program(const std::string& path, std::unique_ptr<ir::Module>& module);

// Writes `text` to `path`; a failure is the call's fault.
Outcome write_file(const std::string& path, const std::string& text);

}  // namespace plimsoll::tools
