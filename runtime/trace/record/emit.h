// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/trace/record/node.h"

namespace plimsoll::trace {

// The value of a constant node.
ir::Literal scalar_literal(ir::DType dtype, std::span<const std::int64_t> words);

// Writes recorded operations as instructions of a module. What a loop or branch is made of becomes
// computations of that module.
class Emitter {
 public:
  // `names` are those that numbers of names (Node::name) stand for; there may be fewer.
  Emitter(ir::Module& module, std::span<const std::string> names)
      : module_(module), names_(names) {}

  // Everything about an operation but its operands.
  struct Operation {
    ir::Opcode opcode = ir::Opcode::add;
    const ir::Shape* shape = nullptr;
    std::uint8_t flags = 0;
    std::uint32_t name = 0;
    std::span<const std::int64_t> words;
    const ControlFlow* control = nullptr;
  };
  // Appends the operation to `computation`. Of a loop that has a counter in front of its results
  // the instruction may only be read by elements that are written here, too.
  ir::Instruction* emit(ir::Computation& computation, const Operation& operation,
                        const std::vector<ir::Instruction*>& operands, std::string_view name = {});

 private:
  using Instructions = std::vector<ir::Instruction*>;

  ir::Instruction* emit_loop(ir::Computation& computation, const ControlFlow& loop,
                             const Instructions& operands);
  ir::Instruction* emit_scan(ir::Computation& computation, const ControlFlow& scan,
                             const Instructions& operands);
  ir::Instruction* emit_branches(ir::Computation& computation, const ControlFlow& branches,
                                 const Instructions& operands);
  // The outputs, in `computation`, which gives each parameter when it is first read.
  Instructions emit_region(ir::Computation& computation, const Region& region,
                           const std::function<ir::Instruction*(int)>& parameter);

  ir::Module& module_;
  std::span<const std::string> names_;
  std::unordered_map<const ir::Instruction*, std::int64_t> first_result_;  // 0 where not in it
};

}  // namespace plimsoll::trace
