// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::cases {

struct RandomModuleOptions {
  int instructions = 60;                                             // of the entry, about
  std::int64_t smallest_bytes = 1 << 10, largest_bytes = 256 << 10;  // of most values
  bool training_step = true;  // often: layers whose activations are used again in reverse order
  bool control_flow = true;   // call, while, conditional
  bool mixed_dtypes = true;   // f64, f16, bf16, pred and integers besides f32
  bool donations = true;      // some parameters give their buffers to outputs
  // Layers of the training step also keep values that have a smaller exact form: masks, what is
  // only compared later, and what came from bf16.
  bool gates = false;
  // Operations, forms of them, and entries that few programs have; what the interpreter leaves to
  // expansions and to libraries among them.
  bool rare = false;
  std::int64_t replicas = 1, partitions = 1;  // of more than one participant, with collectives
  // What is added up over participants are whole numbers (of sixteenths), as floats or integers, so
  // that no order of sums makes a difference.
  bool whole_sums = false;
  bool large_constants = false;  // weights that are constants, some of them read several times
  bool whole_words = false;      // rows of 32 elements or a multiple, for bits that fill words
};

// A valid module, the same one for the same seed and options. Made so that results can be compared
// between implementations that add in different orders: values stay around 1 for arguments in
// [-2, 2], and what makes a small difference large (comparisons, narrow dtypes, positions of
// maxima) is only applied to values that every implementation computes with the same bits.
std::unique_ptr<ir::Module> random_module(std::uint64_t seed,
                                          const RandomModuleOptions& options = {});

// The smallest module found, by removing outputs and replacing instructions with an operand or a
// constant, for which `fails` still holds. Precondition: fails(module). Parameters stay. `fails`
// gets verified modules only.
std::unique_ptr<ir::Module> shrink(const ir::Module& module,
                                   const std::function<bool(const ir::Module&)>& fails);

}  // namespace plimsoll::cases
