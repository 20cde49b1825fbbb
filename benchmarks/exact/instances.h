// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::exact {

struct Instance {
  std::string name;
  planner::Problem problem;
};

// Training steps of small networks, forward and backward, with costs and sizes from the seed. Every
// forward op has a backward one that reads the gradients of its result and its operands, and now
// and then its result.
Instance random_graph(int forward_ops, std::uint32_t seed);
// An encoder and a decoder that also reads the encoder's results of its level.
Instance encoder_decoder(int levels, std::uint32_t seed);
// Blocks of two ops whose result is added to what they read.
Instance residual_network(int blocks, std::uint32_t seed);

}  // namespace plimsoll::exact
