// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jit/graph/graph.h"
#include "jit/graph/index_space.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// An array of rows * minor elements, reduced along the rows.
struct RowShape {
  std::int64_t rows = 0;
  std::int64_t minor = 0;
  friend bool operator==(const RowShape&, const RowShape&) = default;
};

// Nothing unless the reduced dimensions are the minor ones and hold more than one element.
std::optional<RowShape> row_shape(const ir::Dims& dims,
                                  const std::vector<std::int64_t>& reduced_dims);

// The same where all but the minor ones are reduced: `minor` sums of `rows` elements.
std::optional<RowShape> column_shape(const ir::Dims& dims,
                                     const std::vector<std::int64_t>& reduced_dims);

// Rows whose reduction has at most so many lanes lie side by side in the lanes of a vector.
inline constexpr std::int64_t kShortRowLanes = 8;

// What column sums of a row fusion may take of a thread's stack: all lanes of all columns.
inline constexpr std::int64_t kColumnSumBytes = std::int64_t{128} << 10;

// A value where it is read.
struct RowValue {
  KernelNode node;
  Index index;
};

// What a sweep over the row leaves behind for later ones: in the row of an output that is not yet
// written, or that it belongs in anyway, else in scratch memory (`output` < 0).
struct KeptValue {
  KernelNode node;
  int sweep = 0;
  int output = -1;
};

// How a row fusion (KernelGraph::is_row_fusion) is computed row by row. A row is swept several
// times while it is in the cache: sweep s holds the reduces that need the results of sweeps before
// s (the reduce's `depth`), the last one, number `sweeps() - 1`, has none and stores what is left.
// Values of the rows' count stand between the sweeps.
//
// Reduces along the columns of the same arrays take their elements in the last sweep, where all
// that is known of a row is known: rows are then cut into the blocks of `column_cut`, each of which
// leaves a result for every column, and the blocks' results are combined in order.
struct RowPlan {
  const KernelGraph& graph;
  RowShape shape;
  ReductionShape cut;  // of every reduce: one row each

  IndexSpace space;
  Affine row, lane;  // the loops
  // Per sweep: numbers of reduces, and of the full-sized roots stored in it.
  std::vector<std::vector<int>> reduces, stores;
  // Per sweep: what is computed from its reduces once a row, operands first.
  std::vector<std::vector<RowValue>> row_values;
  std::vector<int> row_roots;
  // Numbers of the reduces along columns, and of the roots that follow from them, one a column.
  std::vector<int> columns, column_roots;
  std::vector<RowValue> inputs;  // every read of an input within rows, once
  std::vector<KeptValue> kept;
  // Outputs are to be stored past the caches: none is lent to a value that is kept, as long as
  // there is scratch memory.
  bool streams = false;

  int sweeps() const { return static_cast<int>(stores.size()); }
  // How each column is cut.
  ReductionShape column_cut() const {
    return ReductionShape::of(ir::Dims{shape.rows, shape.minor}, {0}, false);
  }
  // Where an array of either size is read or written at its own place.
  Index own_index(const ir::Dims& dims);
  // The same of an array with an element a column.
  Index column_index(const ir::Dims& dims) { return space.delinearize(lane, dims); }
  // `node` has an element for every element of a row.
  bool is_full(const KernelNode& node) const {
    return node.shape->element_count() == shape.rows * shape.minor;
  }
};

enum class RowLayout {
  loops,     // rows are the outer loop, the lane level is within a row
  in_lanes,  // several rows side by side in the lanes
};

// UNIMPLEMENTED, with the reason, when `graph` is no row fusion: all reduces are plain binary
// operations along equally cut rows, or along their columns, what follows from one is computed at
// its own place, nothing in a row follows from a column's, and all results have the size of the
// reduced arrays or of the reduces.
Result<RowPlan> make_row_plan(const KernelGraph& graph, RowLayout layout);

// Decides which values are kept from sweep to sweep, and where everything is stored.
void plan_row_sweeps(RowPlan& plan);

}  // namespace plimsoll::jit
