// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/ir/module.h"
#include "runtime/passes/fusion/row_rules.h"

namespace plimsoll::passes {

// Which reductions a kernel may have to become part of a row fusion.
enum class RowReductions {
  rows,     // along rows
  columns,  // along rows, along columns, or along both
};

// A fusion or a lone instruction that may become part of a row fusion.
struct RowKernel {
  std::vector<ir::Instruction*> outputs;  // itself, or its get-tuple-elements
  std::optional<Rows> rows;               // where it reduces some, or their columns
  std::int64_t elements = 0;              // of the reduced array, else of the results
  bool reduces_rows = false, reduces_columns = false;
};

std::optional<RowKernel> row_kernel_of(ir::Instruction& instruction, RowReductions reductions);

// A cheap look whether two may be one, before its body is built and examined. Among kernels with
// columns (RowReductions::columns) one has rows and another columns.
bool may_share_rows(const RowKernel& a, const RowKernel& b, RowReductions reductions);

}  // namespace plimsoll::passes
