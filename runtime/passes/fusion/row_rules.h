// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// Arrays seen as rows: the minor dimensions together, `minor` elements, are what reductions run
// along; the others count `rows`.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t minor = 0;
  friend bool operator==(const Rows&, const Rows&) = default;
};

// The rows that a reduce of one array by one plain operation runs along; nothing for others, and
// where the reduced dimensions are not the minor ones or hold one element.
std::optional<Rows> rows_of(const ir::Instruction& reduce);

// The same where a reduce runs along the columns of such rows.
std::optional<Rows> columns_of(const ir::Instruction& reduce);

// What a set of instructions would be as a row fusion.
struct RowProfile {
  Rows rows;
  // What reduces along columns keep of each until all rows are done.
  std::int64_t column_bytes = 0;
  // Bytes of a row of all arrays of the full size that are read or written.
  std::int64_t row_bytes = 0;
  int input_count = 0;
};

// The profile of the row fusion of `members` (users before operands) with results `roots`: reduces
// along equal rows of which one needs another's result, or whose result is computed with the rows'
// elements. Reduces along the columns may be among them: nothing in a row follows from theirs.
// Nothing when it is no row fusion, breaks a rule (jit/README.md), or computes something expensive
// again for every row. All other operands are its inputs.
std::optional<RowProfile> examine_row_fusion(std::span<ir::Instruction* const> members,
                                             std::span<ir::Instruction* const> roots);

// A row of all arrays stays in a core's cache, and there are rows for all threads, or so few
// elements that one is enough; what is kept of columns, too, stays in its cache.
bool pays_off(const RowProfile& profile);

}  // namespace plimsoll::passes
