// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "jit/gpu/gpu_entry.h"

namespace plimsoll::jit {

// One dimension of an array of a contraction, by its position: (sum of factor * digit + constant) /
// divisor. Where that is no whole number, or none of [0, size), there is no element.
struct ContractedDimension {
  std::vector<std::pair<int, std::int64_t>> terms;  // digits by number, with their factors
  std::int64_t constant = 0, divisor = 1;
  std::int64_t size = 1, stride = 1;
};

// out[batch, m, n] = sum over k of lhs[batch, m, k] * rhs[batch, n, k], where each of the four is a
// number of several digits, major to minor, and an array's place follows from them dimension by
// dimension. So a dot of any dims is one, and a convolution, whose windows are read where they lie.
struct Contraction {
  std::vector<std::int64_t> digits;  // extents
  std::vector<int> batch, m, n, k;   // which digits
  std::vector<ContractedDimension> lhs, rhs, out;

  std::int64_t extent(const std::vector<int>& of) const;
};

// Adds the launches; operands and result are those of the writer's instruction.
Status write_gpu_contraction(GpuWriter& writer, const Contraction& contraction);

}  // namespace plimsoll::jit
