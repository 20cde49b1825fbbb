// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/ir/module.h"
#include "tools/command.h"

namespace plimsoll::tools {

// What is said of the inputs of a model in ONNX.
struct ModelFlags {
  std::vector<std::string> shapes;     // NAME=1,3,224,224
  std::vector<std::string> values;     // NAME=x.npy: read where a shape depends on them
  bool values_are_for_models = false;  // the command takes no other inputs
  // Receives the values that became constants of the program, and are no parameters.
  std::vector<std::string> used;
};
void add_model_flags(CLI::App* command, ModelFlags& flags);
// `--input`, for commands that run nothing.
void add_value_flag(CLI::App* command, ModelFlags& flags);

struct InputFile {
  std::string name;  // for messages
  std::string text;
};
// The bytes at `path` (`-`: standard input). A path that can't be opened is the call's fault.
Outcome read_input(const std::string& path, InputFile& input);
// The program that the bytes say, in any of its forms; what is wrong in it is the program's fault,
// in the flags the call's.
Outcome parse_program(const InputFile& input, ModelFlags& flags,
                      std::unique_ptr<ir::Module>& module);
// Both.
Outcome read_program(const std::string& path, ModelFlags& flags,
                     std::unique_ptr<ir::Module>& module);

// Writes `text` to `path`; a failure is the call's fault.
Outcome write_file(const std::string& path, const std::string& text);

// The names of the parameters, as messages list them; "none" where there are none.
std::string parameter_names(const ir::Computation& entry);

}  // namespace plimsoll::tools
