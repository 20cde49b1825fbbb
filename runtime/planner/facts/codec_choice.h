// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/ir/codec/codec.h"
#include "runtime/ir/module.h"
#include "runtime/planner/facts/value_ranges.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// The codec of fewest bytes that gives elements of `dtype` with these facts back bit for bit;
// `none` when none is smaller.
Codec exact_codec(const ValueFacts& facts, ir::DType dtype);

// The comparison with one constant that is all that `reader` does with its operand leaf
// `operand_leaf`, an array of `dtype`: a compare_mask, or `none`. Looks into fusions, and through
// what only moves or widens elements.
Codec comparison_of(const ir::Instruction& reader, int operand_leaf, ir::DType dtype);

// The codecs that make values of the graph smaller, priced: exact ones, comparisons, and `lossy`
// unless it is none, seeded by the value, so that values are rounded independently.
std::vector<CodecForm> find_codecs(const Graph& graph, const CostModel& cost_model,
                                   CodecKind lossy);

}  // namespace plimsoll::planner
