// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::graphs {

// How the equal layers of a network are written down.
enum class Layers : std::uint8_t {
  inlined,  // one after the other in the entry
  called,   // one computation for the forward, one for the backward direction, called per layer
  looped,   // two while loops over stacked weights; the forward one stacks what the other reads
};

struct TransformerOptions {
  int layers = 4;
  std::int64_t batch = 8, length = 128, width = 128, heads = 4, hidden = 512;
  bool adam = true;  // else plain gradient descent
  Layers form = Layers::inlined;
};

// One training step of a pre-norm transformer on f32: forward, squared error, backward, update of
// every weight into its donated parameter. Deterministic. Weights and optimizer state come first
// among the parameters, the batch and its target last; the results are the updated state and the
// loss.
std::unique_ptr<ir::Module> transformer_step(const TransformerOptions& options);

// As many layers, inlined, as make about `instructions`.
std::unique_ptr<ir::Module> transformer_step_of_size(int instructions);

}  // namespace plimsoll::graphs
