// SPDX-License-Identifier: Apache-2.0
#include "jit/native/dump.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "runtime/ir/text/text.h"

namespace plimsoll::jit {

Status make_dump_folder(const DumpOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (!error) return ok_status();
  return unavailable("kernel dumps: '" + options.folder +
                     "' cannot be made a folder: " + error.message());
}

std::string program_text(const ir::Instruction& instruction) {
  ir::Module module(instruction.name());
  std::vector<ir::Computation*> called;
  for (const ir::Computation* computation : instruction.called_computations()) {
    called.push_back(module.add_clone(*computation));
  }
  ir::Computation* entry = module.add_computation("main");
  std::vector<ir::Instruction*> operands;
  for (const ir::Instruction* operand : instruction.operands()) {
    operands.push_back(entry->add_parameter(static_cast<std::int64_t>(operands.size()),
                                            operand->shape(), operand->name()));
  }
  ir::Instruction* copy = entry->add(instruction.opcode(), instruction.shape(), std::move(operands),
                                     instruction.name(), instruction.attributes());
  copy->set_called_computations(std::move(called));
  module.set_entry(entry);
  return ir::to_text(module);
}

Status write_dump(const DumpOptions& options, const std::string& name, const std::string& text) {
  const std::string path = options.folder + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) return unavailable(path + ": the kernel dump cannot be written");
  return ok_status();
}

}  // namespace plimsoll::jit
