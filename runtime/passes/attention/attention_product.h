// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/passes/attention/attention_scores.h"

// The dots of an attention besides that of its scores. Labels are those of attention_scores.h.
namespace plimsoll::passes {

// A product at which an attention ends: its value, through transposes (and a narrowing) that
// nothing else reads.
struct AttentionExit {
  ir::Instruction* product = nullptr;  // the dot
  AttentionArray result;
};

// One product of something computed from the scores with an array from outside.
struct AttentionProduct {
  AttentionArray other;  // rows: the dim that is summed over
  AttentionExit exit;
  int summed = 0;  // label
};

// The dot `product`, whose operand `side` is computed from the scores and has these labels. Empty
// when it is not over one dim of theirs, batch by batch.
std::optional<AttentionProduct> read_attention_product(const AttentionScores& scores,
                                                       ir::Instruction& product, int side,
                                                       const DimLabels& labels);

// The operands of slopes = do v^T.
struct AttentionSlopes {
  AttentionArray output_gradient, value;
};

// The dot `slopes`, whose result has these labels. Empty when it is none with the batch of
// `scores`.
std::optional<AttentionSlopes> read_attention_slopes(const AttentionScores& scores,
                                                     ir::Instruction& slopes,
                                                     const DimLabels& labels);

}  // namespace plimsoll::passes
