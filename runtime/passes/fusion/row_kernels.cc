// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/row_kernels.h"

#include <utility>

#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/fusion/fusion_rules.h"
#include "runtime/passes/fusion/merged_kernel.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

std::optional<RowKernel> row_kernel_of(Instruction& instruction, RowReductions reductions) {
  if (!instruction.control_predecessors().empty() || !instruction.control_successors().empty()) {
    return std::nullopt;
  }
  RowKernel kernel;
  std::vector<Instruction*> members = {&instruction};
  if (instruction.opcode() == Opcode::fusion) {
    if (instruction.attributes().fusion_kind != ir::FusionKind::loop &&
        instruction.attributes().fusion_kind != ir::FusionKind::input) {
      return std::nullopt;
    }
    members = kernel_members(*instruction.to_apply());
    if (members.empty()) return std::nullopt;
  } else if (!is_fusible(instruction) || !instruction.shape().is_array() || is_free(instruction)) {
    return std::nullopt;
  }
  for (const Instruction* member : members) {
    if (member->opcode() != Opcode::reduce) continue;
    auto rows = rows_of(*member);
    if (rows) {
      kernel.reduces_rows = true;
    } else if (reductions == RowReductions::columns) {
      rows = columns_of(*member);
      kernel.reduces_columns = true;
    }
    if (!rows || (kernel.rows && !(*kernel.rows == *rows))) return std::nullopt;
    kernel.rows = rows;
  }
  kernel.elements = kernel.rows ? kernel.rows->rows * kernel.rows->minor
                                : ir::first_leaf(instruction.shape()).element_count();
  auto outputs = kernel_outputs(instruction);
  if (!outputs) return std::nullopt;
  kernel.outputs = std::move(*outputs);
  return kernel;
}

bool may_share_rows(const RowKernel& a, const RowKernel& b, RowReductions reductions) {
  if (!a.rows && !b.rows) return false;
  if (a.rows && b.rows && !(*a.rows == *b.rows)) return false;
  if (reductions == RowReductions::columns) {
    const bool both =
        (a.reduces_rows && b.reduces_columns) || (b.reduces_rows && a.reduces_columns);
    if (!both) return false;
  }
  const Rows& rows = a.rows ? *a.rows : *b.rows;
  const auto fits = [&](const RowKernel& kernel) {
    return kernel.elements == rows.rows * rows.minor || kernel.elements == rows.rows;
  };
  return fits(a) && fits(b);
}

}  // namespace plimsoll::passes
