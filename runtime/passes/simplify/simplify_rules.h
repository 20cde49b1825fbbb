// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"
#include "runtime/passes/rewriter.h"

// The parts of simplify; each is a Rewriter::Rule for some opcodes. A rule must make progress
// (fewer, cheaper or smaller operations), so that repeating the rules ends.
namespace plimsoll::passes {

ir::Instruction* simplify_arithmetic(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_logic(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_conversion(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_movement(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_slicing(Rewriter& rewriter, ir::Instruction& at);
// Scatters of one window as updates of a slice.
ir::Instruction* simplify_scatter(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_windows(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_products(Rewriter& rewriter, ir::Instruction& at);
// Gradients of transposed convolutions' filters as those of plain ones.
ir::Instruction* simplify_convolutions(Rewriter& rewriter, ir::Instruction& at);
// Conditionals between cheap computations of elements as selects.
ir::Instruction* select_branches(Rewriter& rewriter, ir::Instruction& at);
ir::Instruction* simplify_structure(Rewriter& rewriter, ir::Instruction& at);
// Elementwise operations on broadcasts become broadcasts of smaller operations.
ir::Instruction* sink_broadcasts(Rewriter& rewriter, ir::Instruction& at);
// Small operations on constants, where the interpreter's bits are those of every backend.
ir::Instruction* fold_constants(Rewriter& rewriter, ir::Instruction& at);
// Movements of constants of any size that nothing else reads.
ir::Instruction* fold_moves(Rewriter& rewriter, ir::Instruction& at);

// The constant whose first element is the value of every element of `value`, or null; looks through
// broadcast and reshape.
const ir::Literal* splat_value(const ir::Instruction& value);
// Every element has the bits of `number` in the dtype (so -0 is not 0).
bool is_splat_of(const ir::Instruction& value, double number);
// Every element is zero; of floats either one.
bool is_zero(const ir::Instruction& value);
// Every bit of every element is set (pred: true).
bool is_all_ones(const ir::Instruction& value);
// A broadcast whose operand has one element.
bool is_scalar_broadcast(const ir::Instruction& value);

}  // namespace plimsoll::passes
