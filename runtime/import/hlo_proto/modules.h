// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::hlo_proto {

// Makes a module of an HloModuleProto, computation by computation; not verified.
class ModuleReader {
 public:
  // `message` outlives it.
  explicit ModuleReader(std::string_view message);

  Result<std::unique_ptr<ir::Module>> read();

 private:
  // What a computation knows while it is read: instructions by id.
  using Instructions = std::unordered_map<std::int64_t, ir::Instruction*>;

  Status read_computation(std::string_view message);
  Status read_instruction_of(std::string_view message, ir::Computation& computation,
                             Instructions& known);
  // The order of the schedule, where it has one for this computation.
  Status reorder(std::int64_t id, ir::Computation& computation, const Instructions& known);
  Result<std::vector<ir::Computation*>> called_by(const std::vector<std::int64_t>& ids,
                                                  ir::Opcode opcode) const;
  Status read_schedule(std::string_view message);
  Status read_aliases(std::string_view message);
  Status read_donors(std::string_view message);

  std::string_view message_;
  std::unique_ptr<ir::Module> module_;
  std::unordered_map<std::int64_t, ir::Computation*> computations_;
  std::unordered_map<std::int64_t, std::string_view> sequences_;  // of the schedule
  std::int64_t participants_left_;
  // How deep each computation's calls nest.
  std::unordered_map<const ir::Computation*, int> depth_;
};

}  // namespace plimsoll::hlo_proto
