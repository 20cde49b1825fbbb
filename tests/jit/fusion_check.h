// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "jit/jit.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit::testing {

// How a kernel is launched.
struct Launch {
  int threads = 1;
  bool misaligned = false;  // every buffer begins one element past a multiple of 64 bytes
  int reuse = -1;           // >= 0: result leaf 0 goes into the buffer of this operand
};

// The array leaves of the results of `instruction`'s kernel on `operands`. An error, too, where the
// kernel writes outside its buffers.
Result<std::vector<ir::Literal>> launch(const ir::Instruction& instruction,
                                        const std::vector<ir::Literal>& operands,
                                        Compiler& compiler, const Launch& how);

struct FusionCheck {
  std::int64_t fusions = 0, instructions = 0, launches = 0, in_place = 0;
  std::int64_t not_fusible = 0;  // the compiler does not take it as one kernel, or it is too large
};

// Runs the entry of `module` instruction by instruction and as one fusion. Returns what broke, or
// an empty string:
//   - each instruction's kernel agrees with the interpreter on the same operands: the same bits, or
//     within `tolerance` where it adds or multiplies many floats;
//   - the fusion's kernel has the bits of the instructions' kernels, on 1, 2 and 5 threads, with
//     aligned and misaligned buffers, and with a result in the buffer of an operand where
//     ir::may_reuse_operand allows it.
// Instructions without a kernel of the compiler make the module one that is not fusible.
std::string check_fusion(const ir::Module& module, std::span<const ir::Literal> arguments,
                         Compiler& compiler, double tolerance, FusionCheck& totals);

// One op case, if `extent` > 0 resized to it (cases::resized), among random neighbours
// (random_fusion.h): check_fusion on it with arguments of the same seed; where it fails the message
// ends with the shrunk module.
std::string check_random_fusion(std::size_t op_case, std::int64_t extent, std::uint64_t seed,
                                Compiler& compiler, FusionCheck& totals);

}  // namespace plimsoll::jit::testing
