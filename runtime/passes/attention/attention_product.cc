// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/attention/attention_product.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/hint.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

namespace {

// The result through a narrowing and transposes that nothing else reads.
AttentionArray followed(Instruction* value, ir::DimOrder order) {
  while (value->users().size() == 1 && !value->is_root() && !ir::must_materialize(*value)) {
    Instruction* user = value->users()[0];
    if (!user->control_predecessors().empty() || !user->control_successors().empty()) break;
    if (user->opcode() == Opcode::transpose) {
      const auto& dimensions = user->attributes().dimensions;
      for (std::int64_t& d : order) {
        d = std::find(dimensions.begin(), dimensions.end(), d) - dimensions.begin();
      }
    } else if (!is_float_conversion(*user) || value->shape().dtype() != ir::DType::f32) {
      break;
    }
    value = user;
  }
  return {value, std::move(order)};
}

}  // namespace

std::optional<AttentionProduct> read_attention_product(const AttentionScores& scores,
                                                       Instruction& dot, int side,
                                                       const DimLabels& labels) {
  const ir::DotDimensions& d = *dot.attributes().dot;
  const auto& my_batch = side == 0 ? d.lhs_batch : d.rhs_batch;
  const auto& other_batch = side == 0 ? d.rhs_batch : d.lhs_batch;
  const auto& my_contracting = side == 0 ? d.lhs_contracting : d.rhs_contracting;
  const auto& other_contracting = side == 0 ? d.rhs_contracting : d.lhs_contracting;
  const Instruction& other = *dot.operand(1 - side);
  const auto batch = at(scores.batch);
  if (labels.size() != batch + 2 || my_batch.size() != batch || my_contracting.size() != 1 ||
      other.shape().rank() != static_cast<int>(batch) + 2) {
    return std::nullopt;
  }
  AttentionProduct product;
  product.summed = labels[at(my_contracting[0])];
  ir::DimOrder other_order(batch), result_order(batch);
  std::vector<bool> used(batch + 2, false);
  for (std::size_t j = 0; j < batch; ++j) {
    const int label = labels[at(my_batch[j])];
    if (label < 0 || label >= scores.batch) return std::nullopt;
    other_order[at(label)] = other_batch[j];
    result_order[at(label)] = static_cast<std::int64_t>(j);
    used[at(other_batch[j])] = true;
  }
  used[at(other_contracting[0])] = true;
  other_order.push_back(other_contracting[0]);
  other_order.push_back(std::find(used.begin(), used.end(), false) - used.begin());
  const auto first_free = static_cast<std::int64_t>(batch);
  result_order.push_back(side == 0 ? first_free : first_free + 1);
  result_order.push_back(side == 0 ? first_free + 1 : first_free);
  product.other = stored_array(dot.operand(1 - side), std::move(other_order));
  product.exit = {&dot, followed(&dot, std::move(result_order))};
  return product;
}

std::optional<AttentionSlopes> read_attention_slopes(const AttentionScores& scores,
                                                     Instruction& slopes, const DimLabels& labels) {
  const ir::DotDimensions& d = *slopes.attributes().dot;
  const auto batch = at(scores.batch);
  if (d.lhs_batch.size() != batch || d.lhs_contracting.size() != 1 ||
      slopes.shape().rank() != static_cast<int>(batch) + 2 ||
      slopes.operand(0)->shape().rank() != slopes.shape().rank() ||
      slopes.operand(1)->shape().rank() != slopes.shape().rank()) {
    return std::nullopt;
  }
  for (std::size_t j = 0; j < batch; ++j) {
    if (labels[j] < 0 || labels[j] >= scores.batch) return std::nullopt;
  }
  const int query_side = labels[batch] == scores.query_label() ? 0 : 1;
  if (labels[batch + (query_side == 0 ? 1 : 0)] != scores.key_label()) return std::nullopt;
  const auto operand = [&](int side) {
    const auto& my_batch = side == 0 ? d.lhs_batch : d.rhs_batch;
    const std::int64_t contracting = (side == 0 ? d.lhs_contracting : d.rhs_contracting)[0];
    ir::DimOrder order(batch);
    std::vector<bool> used(batch + 2, false);
    for (std::size_t j = 0; j < batch; ++j) {
      order[at(labels[j])] = my_batch[j];
      used[at(my_batch[j])] = true;
    }
    used[at(contracting)] = true;
    order.push_back(std::find(used.begin(), used.end(), false) - used.begin());
    order.push_back(contracting);
    return stored_array(slopes.operand(side), std::move(order));
  };
  return AttentionSlopes{operand(query_side), operand(1 - query_side)};
}

}  // namespace plimsoll::passes
