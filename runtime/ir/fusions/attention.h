// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

// Attention as one instruction: a fusion of kind kCustom whose computation is the composed form,
// so that it can be read, interpreted and inlined like any other, and whose backend_config says
// what that form is, so that a kernel can compute it without ever holding the scores.
//
//   scores = scale * q k^T [+ bias], fill where !mask, fill where not causal    [batch.., t, s]
//   p = exp(scores - max) / sum over s of exp(scores - max)
//   forward:  (q, k, v, [bias], [mask]) -> o = p v, or (o, max, sum) with `statistics`
//   backward: (q, k, v, [bias], [mask], o, do, max, sum) -> a tuple of those wanted of dq, dk, dv
//             (the array itself where it is one), where
//             ds = gradient_scale * p * (do v^T - sum over columns of do * o), 0 where masked,
//             dq = ds k, dk = ds^T q, dv = p^T do
//
// Everything between operands and results is f32; max and sum are f32[batch.., t].
namespace plimsoll::ir {

// Dim i of [batch.., rows, columns] is dim `order[i]` of the array as it lies in memory.
using DimOrder = std::vector<std::int64_t>;

struct AttentionForm {
  bool backward = false;
  DimOrder query, key, value, output;  // of the operands, and of o
  DimOrder output_gradient, query_gradient, key_gradient, value_gradient;  // backward
  float scale = 1;
  float gradient_scale = 1;
  // Query row i sees keys j <= i + *causal.
  std::optional<std::int64_t> causal;
  float fill = 0;  // what stands for the score of an unseen key
  // The dims of [batch.., t, s] that the operand has, ascending; absent: no such operand.
  std::optional<std::vector<std::int64_t>> bias, mask;
  bool statistics = false;                                        // forward
  bool wants_query = true, wants_key = true, wants_value = true;  // backward
  DType result_dtype = DType::f32;

  int operand_count() const {
    return (backward ? 7 : 3) + (bias.has_value() ? 1 : 0) + (mask.has_value() ? 1 : 0);
  }
  int bias_operand() const { return 3; }
  int mask_operand() const { return bias.has_value() ? 4 : 3; }
  // Backward only: o, do, max, sum from here on.
  int output_operand() const { return operand_count() - 4; }
  bool operator==(const AttentionForm&) const = default;
};

// The sizes that a form has on operands of these shapes. INVALID_ARGUMENT says what does not fit.
struct AttentionSizes {
  std::vector<std::int64_t> batch;
  std::int64_t queries = 0, keys = 0, depth = 0, value_depth = 0;
};
Result<AttentionSizes> attention_sizes(const AttentionForm& form, std::span<const Shape> operands);

// A new computation of `module`: the composed form on operands of these shapes.
Result<Computation*> add_attention_body(Module& module, const AttentionForm& form,
                                        std::span<const Shape> operands);

// The attributes of the fusion that calls it.
Attributes attention_attributes(const AttentionForm& form);

// True when the instruction claims to be an attention (cheap).
bool claims_attention(const Instruction& instruction);
// The form of an attention; empty when the instruction is none, or when its computation is not the
// composed form of what it claims. Linear in the computation.
std::optional<AttentionForm> read_attention(const Instruction& instruction);

}  // namespace plimsoll::ir
