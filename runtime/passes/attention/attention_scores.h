// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/module.h"

// What recognize_attention reads from the exponential of a softmax backwards. Dims are labelled by
// their place in [batch.., queries, keys]; an array's labels say what each of its dims is.
namespace plimsoll::passes {

using DimLabels = std::vector<int>;

// An array that a kernel reads or writes: its dim order[i] is dim i of [batch.., rows, columns].
struct AttentionArray {
  ir::Instruction* value = nullptr;
  ir::DimOrder order;
  bool operator==(const AttentionArray&) const = default;
};

// An operand as it lies in memory: through transposes and exact conversions.
AttentionArray stored_array(ir::Instruction* value, ir::DimOrder order);

struct AttentionScores {
  ir::Instruction* power = nullptr;  // the exponential
  DimLabels labels;                  // of its dims
  int batch = 0;                     // labels below are batch dims; then queries, then keys
  std::vector<std::int64_t> sizes;   // by label
  AttentionArray query, key;
  ir::Instruction* bias = nullptr;
  ir::Instruction* mask = nullptr;
  bool mask_is_negated = false;  // the mask is true where a key is not seen
  // The selects' predicates as they stand there, and for which outcome a key is seen.
  std::vector<std::pair<ir::Instruction*, bool>> predicates;
  ir::AttentionForm form;                               // scale, causal, fill, bias, mask
  std::unordered_set<const ir::Instruction*> interior;  // from the dot to the exponential

  int query_label() const { return batch; }
  int key_label() const { return batch + 1; }
};

// Empty when what stands under the exponential is no softmax over attention scores.
std::optional<AttentionScores> match_attention_scores(ir::Instruction& exponential);

// A conversion among f32 and the narrower floats, whose rounding a fused attention leaves out.
bool is_float_conversion(const ir::Instruction& value);

// The labels of a transpose's result by those of its operand.
DimLabels transposed(const DimLabels& labels, const ir::Instruction& transpose);

}  // namespace plimsoll::passes
