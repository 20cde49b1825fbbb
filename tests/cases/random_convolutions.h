// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::cases {

// A small network of convolutions (forward, and both gradients as differentiation writes them) with
// channels first or last or in between, and between them what networks have: biases, activations,
// pooling and its gradient, padding, slices, concatenation, sums beside a short cut, reductions
// over one or many dimensions, reshapes. All results are floating arrays in a tuple. The same
// module for the same seed.
std::unique_ptr<ir::Module> random_convolutions(std::uint64_t seed);

}  // namespace plimsoll::cases
