// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// What a result leaf is where nobody has to come from elsewhere: an input leaf as it is or in
// another dtype, or zeros (-1). No elements: it is left alone.
struct LeafCopy {
  int input = -1;
  ir::DType from = ir::DType::f32, to = ir::DType::f32;
  std::int64_t count = 0;

  bool is_of_bytes() const { return input < 0 || from == to; }
};

// Whether other participants take part. Of a module with one, groups and pairs are checked, and
// nobody does. INVALID_ARGUMENT for groups and pairs that the topology hasn't.
Result<bool> meets_others(const ir::Instruction& instruction);

// The result's leaves of a collective that meets nobody, of either half of one, of copy-start and
// copy-done, and of async-update and async-done. UNIMPLEMENTED for shapes that are no copies, and
// for async-start, which has an operation to run (async_operation).
Result<std::vector<LeafCopy>> leaf_copies(const ir::Instruction& instruction);

// The operation of an async-start: the only one of its computation, on the parameters in order.
// UNIMPLEMENTED where there is more to it.
Result<const ir::Instruction*> async_operation(const ir::Instruction& instruction);

// The leaves of a start half's result, (operands, result, contexts...): those of the result itself,
// `result_count` from `result_leaf` on, are left alone.
struct StartCopies {
  std::vector<LeafCopy> copies;
  std::size_t result_leaf = 0, result_count = 0;
};
Result<StartCopies> start_copies(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
