// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {

// Values that the graphs of a node use from around it. HLO's computations see what they are given
// and nothing else, so these go along with their operands.
struct Captured {
  std::vector<std::string_view> names;
  std::vector<Value> values;
  std::vector<Array> arrays;  // those that a computation has to be given; small known ones it makes

  // The same values in another computation, which has `inner` for `arrays`.
  GraphTranslator::Outer outer(const std::vector<Array>& inner) const;
};
Captured capture(NodeContext& n, std::initializer_list<const Graph*> graphs);

// The arrays of `values` in the computation of `n`; an error for sequences.
std::vector<Array> arrays_of(NodeContext& n, std::vector<Value>& values);

// Arrays of one shape, one behind the other in a new dim at `axis`.
Array stacked(NodeContext& n, std::vector<Value>& rows, std::int64_t axis);

}  // namespace plimsoll::onnx
