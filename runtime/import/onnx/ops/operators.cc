// SPDX-License-Identifier: Apache-2.0
#include "runtime/import/onnx/ops/node_context.h"

namespace plimsoll::onnx {

const OpTable& operators() {
  static const OpTable table = [] {
    OpTable made;
    add_elementwise(made);
    add_reductions(made);
    add_shapes(made);
    add_movement(made);
    add_indexing(made);
    add_products(made);
    add_convolutions(made);
    add_pooling(made);
    add_normalizations(made);
    add_attention(made);
    add_losses(made);
    add_quantization(made);
    add_contrib(made);
    add_contrib_attention(made);
    add_few_bits(made);
    add_control(made);
    add_scan(made);
    add_sequences(made);
    add_recurrent(made);
    add_resampling(made);
    add_signals(made);
    add_training(made);
    add_regions(made);
    add_random(made);
    return made;
  }();
  return table;
}

const std::map<std::string, std::string, std::less<>>& refused_operators() {
  static const std::map<std::string, std::string, std::less<>> reasons = {
      {"StringNormalizer", "programs hold no strings"},
      {"StringConcat", "programs hold no strings"},
      {"StringSplit", "programs hold no strings"},
      {"RegexFullMatch", "programs hold no strings"},
      {"ImageDecoder", "it decodes files, of a size that depends on data"},
      {"ai.onnx.preview.training:Gradient", "a model's own gradients are not derived here"},
  };
  return reasons;
}

}  // namespace plimsoll::onnx
