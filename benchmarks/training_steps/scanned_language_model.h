// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::benchmarks {

struct ScannedLanguageModelOptions {
  std::int64_t vocabulary = 96;
  std::int64_t context = 64;
  std::int64_t width = 96;
  std::int64_t heads = 4;
  std::int64_t layers = 6;
};

// A small GPT whose layers are one `scan` over their stacked parameters, [layers, ...] each, the
// way large models are written in JAX: layer norm, causal attention, layer norm, GELU, residuals;
// token and position embedding, and logits by the token embedding again.
class ScannedLanguageModel : public nn::Layer {
 public:
  ScannedLanguageModel(const ScannedLanguageModelOptions& options, nn::Initializer& init)
      : heads_(options.heads),
        tokens_(options.vocabulary, options.width, init),
        positions_(options.context, options.width, init),
        norm_(options.width, init) {
    add_child("tokens", tokens_);
    add_child("positions", positions_);
    const std::int64_t layers = options.layers, width = options.width;
    const auto add_norm = [&](const std::string& name) {
      stacked_.push_back(add_parameter(name + ".weight", init.constant({layers, width}, 1)));
      stacked_.push_back(add_parameter(name + ".bias", init.constant({layers, width}, 0)));
    };
    const auto add_linear = [&](const std::string& name, std::int64_t inputs,
                                std::int64_t outputs) {
      stacked_.push_back(add_parameter(
          name + ".weight", init.xavier_uniform({layers, inputs, outputs}, inputs, outputs)));
      stacked_.push_back(add_parameter(name + ".bias", init.constant({layers, outputs}, 0)));
    };
    add_norm("attention_norm");
    add_linear("inputs", width, 3 * width);
    add_linear("output", width, width);
    add_norm("mlp_norm");
    add_linear("expand", width, 4 * width);
    add_linear("contract", 4 * width, width);
    add_child("norm", norm_);
  }

  // Tokens s32[batch, time] to logits [batch, time, vocabulary]; time is at most the context.
  Tensor forward(const Tensor& tokens) override {
    const Tensor start = tokens_(tokens) + slice_axis(positions_.weight(), 0, 0, tokens.dim(1));
    const auto [last, none] = scan(
        [this](const Tensor& x, const std::vector<Tensor>& layer) {
          return std::pair(block(x, layer), std::tuple<>());
        },
        start, stacked_);
    return dot_general(norm_(last), tokens_.weight(), {2}, {1});
  }

 private:
  Tensor block(const Tensor& x, const std::vector<Tensor>& layer) const {
    const Tensor y =
        x + linear(attend(linear(normalize(x, layer[0], layer[1]), layer[2], layer[3])), layer[4],
                   layer[5]);
    const Tensor wide = gelu(linear(normalize(y, layer[6], layer[7]), layer[8], layer[9]));
    return y + linear(wide, layer[10], layer[11]);
  }

  // Queries, keys and values beside each other, [batch, time, 3 * width].
  Tensor attend(const Tensor& inputs) const {
    const std::int64_t batch = inputs.dim(0), time = inputs.dim(1), width = inputs.dim(2) / 3;
    const auto to_heads = [&](const Tensor& t) {
      return permute(reshape(t, {batch, time, heads_, width / heads_}), {0, 2, 1, 3});
    };
    const std::vector<Tensor> parts = split(inputs, 3, -1);
    const Tensor mixed =
        attention(to_heads(parts[0]), to_heads(parts[1]), to_heads(parts[2]), {.causal = true});
    return reshape(permute(mixed, {0, 2, 1, 3}), {batch, time, width});
  }

  static Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    return matmul(x, weight) + bias;
  }

  static Tensor normalize(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor centered = x - mean(x, {-1}, true);
    return centered * rsqrt(mean(square(centered), {-1}, true) + 1e-5) * weight + bias;
  }

  std::int64_t heads_;
  nn::Embedding tokens_;
  nn::Embedding positions_;
  std::vector<Tensor> stacked_;
  nn::LayerNorm norm_;
};

}  // namespace plimsoll::benchmarks
