// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// What stands for an instruction, at the end of its computation; the instruction itself is left for
// the caller to take out. Null for one that stays as it is. One function for each opcode of the
// table in expand.cc.
using Expansion = Result<ir::Instruction*>;

// Of a `topk`, or of XLA's custom call `TopK`, by the order that it calls: a stable sort and slices
// of it, or with `keeps` where the first are few of many, and no order of its own is called, a
// `topk`.
Expansion expand_topk(ir::Instruction& instruction, bool keeps);
bool is_topk_call(const ir::Instruction& instruction);
// A stable sort with places, of which nothing but the first are used, as a `topk`, which takes the
// place of those slices; false where it is no such, or they are not few of many.
Result<bool> recognize_topk(ir::Instruction& sort);
// Whether the comparator has the order of a topk: the first two elements' total order.
bool is_total_order_of_values(const ir::Computation& comparator);
// Whether choosing so many of each line is less work than sorting all of it.
bool is_worth_top_k(const ir::Shape& from, std::int64_t count);
// The done half of anything but a single collective, as a call.
Expansion expand_async_done(ir::Instruction& instruction);
// A scalar `bitcast` to another type of the same width, which XLA's optimizer writes into
// comparators and reducers, as bitcast-convert.
Expansion expand_bitcast(ir::Instruction& instruction);
// A custom call that only says how values lie on devices, or where they stay, as its operands.
// UNIMPLEMENTED, by name, where it cuts them up for several devices.
Expansion expand_identity(ir::Instruction& instruction);
// A copy of a tuple as the tuple: values do not change, so who copies does not matter.
Expansion expand_copy(ir::Instruction& instruction);
// LAPACK's potrf; where a matrix is not positive definite, NaNs.
Expansion expand_cholesky(ir::Instruction& instruction);
// A call of the kernel that has the name of BLAS's trsm.
Expansion expand_triangular_solve(ir::Instruction& instruction);
// A call of our own function by its name.
Expansion expand_fft(ir::Instruction& instruction);

// In the computations that reductions, sorts, scatters, maps and collectives apply to elements:
// calls as what they call, conditionals as all of their branches and selects of them, so that
// kernels meet scalar operations only. Loops stay, and are refused where a kernel is made.
Status expand_applied(ir::Module& module);

// Means, variances and what follows from them, feature by feature; one function for all three.
Expansion expand_batch_norm(ir::Instruction& instruction);
// The upper half of a product of integers, by one of twice the width, or by its four parts.
Expansion expand_mulhi(ir::Instruction& instruction);
// A loop over one dim of the inputs, which stacks what its computation gives beside the carries.
Expansion expand_scan(ir::Instruction& instruction);
// Products of groups of rows with a matrix each, a loop over the groups; where the contracted dim
// is cut into groups, a product of each; where a batch dim is, a dot.
Expansion expand_ragged_dot(ir::Instruction& instruction);
// A dot of operands times their scales, each of which holds for a block of elements, in f32.
Expansion expand_scaled_dot(ir::Instruction& instruction);
// The same, of XLA's custom call `__op$block_scaled_dot`: matrices, or batches of them, along the
// last dim of both, then the scales of one or both, then a scale of the product.
Expansion expand_block_scaled_call(ir::Instruction& instruction);
// Floats to signed integers, up or down as random bits and the fraction say.
Expansion expand_stochastic_convert(ir::Instruction& instruction);

}  // namespace plimsoll::passes
