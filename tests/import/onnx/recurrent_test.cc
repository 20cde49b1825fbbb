// SPDX-License-Identifier: Apache-2.0
// Gated recurrent units beside their formulas.
#include <cmath>

#include "tests/import/onnx/one_node.h"

namespace plimsoll::testing {
namespace {

// Two steps of one unit: gates are z, r, h; the first half of B is the input's.
TEST(OnnxRecurrent, AddsTheBiasOfTheRecurrenceWithinTheReset) {
  const double w[] = {0.5, -0.25, 1}, r[] = {0.75, 0.5, -1.5};
  const double b[] = {0.1, 0.2, 0.3, -0.4, 0.5, 0.6}, x[] = {1, -2};
  const auto share = [](double value) { return 1 / (1 + std::exp(-value)); };
  const auto floats = [](const double* from, std::size_t count) {
    return std::vector<float>(from, from + count);
  };
  for (const bool before_reset : {false, true}) {
    OneNode made("GRU", "", 14);
    made.input(array<float>({2, 1, 1}, floats(x, 2))).input(array<float>({1, 3, 1}, floats(w, 3)));
    made.input(array<float>({1, 3, 1}, floats(r, 3))).input(array<float>({1, 6}, floats(b, 6)));
    made.with(attribute("hidden_size", 1));
    made.with(attribute("linear_before_reset", std::int64_t{before_reset}));
    double state = 0;
    std::vector<double> wanted;
    for (const double input : x) {
      const double z = share(w[0] * input + b[0] + r[0] * state + b[3]);
      const double reset = share(w[1] * input + b[1] + r[1] * state + b[4]);
      const double inner =
          before_reset ? reset * (r[2] * state + b[5]) : r[2] * reset * state + b[5];
      state = (1 - z) * std::tanh(w[2] * input + b[2] + inner) + z * state;
      wanted.push_back(state);
    }
    expect_near(made.result(ir::DType::f32), {2, 1, 1, 1}, wanted, 1e-6);
  }
}

// No turn cuts weights, which would be copied; where the product comes before the reset it is one.
TEST(OnnxRecurrent, TakesWeightsApartBeforeTheLoop) {
  for (const bool before_reset : {false, true}) {
    OneNode made("GRU", "", 14);
    made.input(array<float>({2, 1, 1}, {1, 2})).input(array<float>({1, 6, 1}, {1, 2, 3, 4, 5, 6}));
    made.input(array<float>({1, 6, 2}, std::vector<float>(12, 1)));
    made.with(attribute("hidden_size", 2));
    made.with(attribute("linear_before_reset", std::int64_t{before_reset}));
    const auto module = import::read_program(made.bytes(ir::DType::f32), "m.onnx");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    int products = 0, cut_weights = 0;
    for (const auto& computation : (*module)->computations()) {
      if (computation.get() == (*module)->entry()) continue;
      for (const auto& one : computation->instructions()) {
        if (one->opcode() == ir::Opcode::dot) ++products;
        if (one->opcode() == ir::Opcode::slice && one->operand(0)->shape().dim(1) > 1) {
          ++cut_weights;
        }
      }
    }
    EXPECT_EQ(products, before_reset ? 1 : 2);
    EXPECT_EQ(cut_weights, 0);
  }
}

}  // namespace
}  // namespace plimsoll::testing
