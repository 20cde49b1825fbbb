// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/plimsoll.hpp"

namespace plimsoll::examples {

struct LanguageModelOptions {
  std::int64_t vocabulary = 0;
  std::int64_t context = 64;
  std::int64_t width = 96;
  std::int64_t heads = 4;
  std::int64_t layers = 3;
  double dropout = 0.1;
};

// Causal self-attention with several heads over [batch, time, width].
class SelfAttention : public nn::Layer {
 public:
  SelfAttention(const LanguageModelOptions& options, nn::Initializer& init)
      : heads_(options.heads),
        inputs_(options.width, 3 * options.width, init),
        output_(options.width, options.width, init),
        dropout_(options.dropout),
        drops_(options.dropout > 0) {
    add_child("inputs", inputs_);
    add_child("output", output_);
    add_child("dropout", dropout_);
  }

  Tensor forward(const Tensor& x) override {
    const std::int64_t batch = x.dim(0);
    const std::int64_t time = x.dim(1);
    const std::int64_t width = x.dim(2);
    const std::int64_t head_width = width / heads_;
    const auto to_heads = [&](const Tensor& t) {
      return permute(reshape(t, {batch, time, heads_, head_width}), {0, 2, 1, 3});
    };
    const std::vector<Tensor> parts = split(inputs_(x), 3, -1);
    const Tensor query = to_heads(parts[0]);
    const Tensor key = to_heads(parts[1]);
    const Tensor value = to_heads(parts[2]);
    const Tensor mixed =
        permute(drops_ && is_training() ? mix_with_dropout(query, key, value)
                                        : attention(query, key, value, {.causal = true}),
                {0, 2, 1, 3});
    return output_(reshape(mixed, {batch, time, width}));
  }

 private:
  // Dropping probabilities needs them one by one: no kernel of their own.
  Tensor mix_with_dropout(const Tensor& query, const Tensor& key, const Tensor& value) {
    const std::int64_t time = query.dim(2);
    const Tensor scores = dot_general(query, key, {3}, {3}, {0, 1}, {0, 1}) *
                          (1.0 / std::sqrt(static_cast<double>(query.dim(3))));
    const Tensor seen = iota({time, time}, 0) >= iota({time, time}, 1);
    return matmul(dropout_(softmax(where(seen, scores, -1e9))), value);
  }

  std::int64_t heads_;
  nn::Linear inputs_;
  nn::Linear output_;
  nn::Dropout dropout_;
  bool drops_;
};

class TransformerBlock : public nn::Layer {
 public:
  TransformerBlock(const LanguageModelOptions& options, nn::Initializer& init)
      : attention_norm_(options.width, init),
        attention_(options, init),
        mlp_norm_(options.width, init),
        expand_(options.width, 4 * options.width, init),
        contract_(4 * options.width, options.width, init),
        dropout_(options.dropout) {
    add_child("attention_norm", attention_norm_);
    add_child("attention", attention_);
    add_child("mlp_norm", mlp_norm_);
    add_child("expand", expand_);
    add_child("contract", contract_);
    add_child("dropout", dropout_);
  }

  Tensor forward(const Tensor& x) override {
    const Tensor y = x + dropout_(attention_(attention_norm_(x)));
    return y + dropout_(contract_(gelu(expand_(mlp_norm_(y)))));
  }

 private:
  nn::LayerNorm attention_norm_;
  SelfAttention attention_;
  nn::LayerNorm mlp_norm_;
  nn::Linear expand_;
  nn::Linear contract_;
  nn::Dropout dropout_;
};

// A small GPT: token and position embedding, blocks, and logits by the token embedding again.
class LanguageModel : public nn::Layer {
 public:
  LanguageModel(const LanguageModelOptions& options, nn::Initializer& init)
      : tokens_(options.vocabulary, options.width, init),
        positions_(options.context, options.width, init),
        norm_(options.width, init) {
    add_child("tokens", tokens_);
    add_child("positions", positions_);
    for (std::int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(std::make_unique<TransformerBlock>(options, init));
      add_child("block" + std::to_string(i + 1), *blocks_.back());
    }
    add_child("norm", norm_);
  }

  // Tokens s32[batch, time] to logits [batch, time, vocabulary]; time is at most the context.
  Tensor forward(const Tensor& tokens) override {
    const Tensor& table = positions_.weight();
    Tensor x = tokens_(tokens) + slice_axis(table, 0, 0, tokens.dim(1));
    for (const auto& block : blocks_) x = block->forward(x);
    return dot_general(norm_(x), tokens_.weight(), {2}, {1});
  }

 private:
  nn::Embedding tokens_;
  nn::Embedding positions_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
  nn::LayerNorm norm_;
};

}  // namespace plimsoll::examples
