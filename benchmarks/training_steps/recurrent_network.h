// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

struct RecurrentNetworkOptions {
  std::int64_t vocabulary = 64;
  std::int64_t width = 192;
};

// A character model: embedding, one LSTM layer unrolled over the time axis, logits at every step.
class RecurrentNetwork : public nn::Layer {
 public:
  RecurrentNetwork(const RecurrentNetworkOptions& options, nn::Initializer& init)
      : width_(options.width),
        tokens_(options.vocabulary, options.width, init),
        input_gates_(options.width, 4 * options.width, init),
        state_gates_(options.width, 4 * options.width, init),
        head_(options.width, options.vocabulary, init) {
    add_child("tokens", tokens_);
    add_child("input_gates", input_gates_);
    add_child("state_gates", state_gates_);
    add_child("head", head_);
  }

  // Tokens s32[batch, time] to logits [batch, time, vocabulary].
  Tensor forward(const Tensor& tokens) override {
    const std::int64_t batch = tokens.dim(0);
    Tensor hidden = zeros({batch, width_});
    Tensor cell = zeros({batch, width_});
    std::vector<Tensor> logits;
    for (std::int64_t t = 0; t < tokens.dim(1); ++t) {
      const Tensor x = tokens_(reshape(slice_axis(tokens, 1, t, t + 1), {batch}));
      const std::vector<Tensor> gates = split(input_gates_(x) + state_gates_(hidden), 4, -1);
      cell = sigmoid(gates[0]) * cell + sigmoid(gates[1]) * tanh(gates[2]);
      hidden = sigmoid(gates[3]) * tanh(cell);
      logits.push_back(expand_dim(head_(hidden), 1));
    }
    return concatenate(logits, 1);
  }

 private:
  std::int64_t width_;
  nn::Embedding tokens_;
  nn::Linear input_gates_;
  nn::Linear state_gates_;
  nn::Linear head_;
};

}  // namespace plimsoll::benchmarks
