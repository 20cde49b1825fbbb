// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace plimsoll::planner {

// The text of a recorded step: `layers` ops forward, each with a view and a small second result,
// as many backward that read both, and a gradient per layer to hold. `more_digits` is put behind
// all times.
inline std::string recorded_chain(int layers, std::uint32_t seed,
                                  const std::string& more_digits = "") {
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  std::vector<std::string> storages, tensors, ops;
  std::string held;
  const auto storage = [&](int bytes, int constant, int is_held) {
    storages.push_back(std::to_string(bytes) + " " + std::to_string(constant) + " " +
                       std::to_string(is_held));
    return static_cast<int>(storages.size()) - 1;
  };
  const auto tensor = [&](int of, int op) {
    tensors.push_back(std::to_string(of) + " " + std::to_string(op));
    return static_cast<int>(tensors.size()) - 1;
  };
  const auto name = [](int i) { return std::to_string(i); };
  int input = tensor(storage(100, 1, 0), -1);
  std::vector<int> activations{input}, small;
  for (int i = 0; i < layers; ++i) {
    const int op = static_cast<int>(ops.size());
    const int out = storage(draw(50, 150), 0, 0);
    const int made = tensor(out, op), extra = tensor(storage(draw(1, 9), 0, 0), op);
    ops.push_back(name(draw(10, 90)) + more_digits + " 1 " + name(activations.back()) + " 2 " +
                  name(made) + " 1 " + name(extra) + " 1");
    const int view = tensor(out, op + 1);
    ops.push_back("1" + more_digits + " 1 " + name(made) + " 1 " + name(view) + " 0");
    activations.push_back(view);
    small.push_back(extra);
  }
  int gradient = activations.back();
  for (int i = layers; i-- > 0;) {
    const int op = static_cast<int>(ops.size());
    const int weight = tensor(storage(draw(1, 5), 0, 1), op);
    const int next = tensor(storage(draw(50, 150), 0, 0), op);
    ops.push_back(name(draw(10, 90)) + more_digits + " 3 " + name(gradient) + " " + name(small[i]) +
                  " " + name(activations[i]) + " 2 " + name(weight) + " 1 " + name(next) + " 1");
    gradient = next;
    held += name(weight) + " ";
  }
  std::string text = "1000 " + name(static_cast<int>(storages.size())) + " " +
                     name(static_cast<int>(tensors.size())) + " " +
                     name(static_cast<int>(ops.size())) + " " + name(layers) + "\n";
  for (const auto* lines : {&storages, &tensors, &ops}) {
    for (const std::string& line : *lines) text += line + "\n";
  }
  return text + held + "\n";
}

}  // namespace plimsoll::planner
