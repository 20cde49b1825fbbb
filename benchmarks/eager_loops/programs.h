// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

// How large a program is.
struct EagerSize {
  std::int64_t width = 64, batch = 128;
  int depth = 16;  // layers; levels of a tree; steps of a loop at most
  int repeats = 2;
};

// Programs that evaluate every operation at once, so that nothing but what was evicted and
// restored keeps them under a limit. Each works in the current context and returns all its results.
struct EagerProgram {
  std::string_view name;
  std::vector<float> (*run)(const EagerSize& size);
};

// Training of a chain of dense layers, the derivatives written out: what the forward pass keeps is
// used in the reverse order.
std::vector<float> train_dense_chain(const EagerSize& size);
// A tree-LSTM (Tai, Socher, Manning 2015, binary) over random trees, all states kept to the end.
std::vector<float> run_tree_lstm(const EagerSize& size);
// An iteration whose number of steps depends on what it computes; its history is read backwards.
std::vector<float> run_fixed_point(const EagerSize& size);

inline constexpr EagerProgram kEagerPrograms[] = {
    {"dense_chain", train_dense_chain},
    {"tree_lstm", run_tree_lstm},
    {"fixed_point", run_fixed_point},
};

}  // namespace plimsoll::benchmarks
