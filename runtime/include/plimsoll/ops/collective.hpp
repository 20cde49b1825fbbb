// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plimsoll/ops/elementwise.hpp"

// Operations between the participants of the context's communicator (ContextOptions::communicator),
// who record the same ones in the same order and cut at the same places. Those of several tensors,
// of one dtype, meet once for all of them. With groups each group does by itself what all would;
// everybody is in one, and records them all. Without a communicator they throw failed_precondition.
namespace plimsoll {

// Participants by number, in the order in which a group adds up and gathers; empty: all are one
// group. Those of reduce_scatter and all_gather are of one size.
using Groups = std::vector<std::vector<std::int64_t>>;

enum class Reduction {
  sum = PLM_REDUCE_SUM,
  product = PLM_REDUCE_PRODUCT,
  max = PLM_REDUCE_MAX,
  min = PLM_REDUCE_MIN,
  logical_and = PLM_REDUCE_AND,
  logical_or = PLM_REDUCE_OR,
};

namespace internal {

inline std::vector<Tensor> record_collective(plm_opcode opcode, std::span<const Tensor> tensors,
                                             plm_op_attributes attributes, const Groups& groups) {
  if (tensors.empty()) return {};
  std::vector<std::int64_t> members, sizes;
  for (const auto& group : groups) {
    members.insert(members.end(), group.begin(), group.end());
    sizes.push_back(static_cast<std::int64_t>(group.size()));
  }
  attributes.groups = {members.data(), members.size()};
  attributes.group_sizes = {sizes.data(), sizes.size()};
  std::vector<const plm_tensor*> operands;
  for (const Tensor& tensor : tensors) operands.push_back(tensor.require(plm_opcode_name(opcode)));
  std::vector<plm_tensor*> out(operands.size(), nullptr);
  check(plm_op(plm_tensor_context(operands[0]), opcode, operands.data(), operands.size(),
               &attributes, out.data(), out.size()));
  return std::vector<Tensor>(out.begin(), out.end());
}

}  // namespace internal

// Everybody gets what all participants' values are together, added up in the participants' order.
inline std::vector<Tensor> all_reduce(std::span<const Tensor> tensors,
                                      Reduction reduction = Reduction::sum,
                                      const Groups& groups = {}) {
  plm_op_attributes a = internal::attributes();
  a.reduction = static_cast<plm_reduction>(reduction);
  return internal::record_collective(PLM_OP_ALL_REDUCE, tensors, a, groups);
}
inline Tensor all_reduce(const Tensor& x, Reduction reduction = Reduction::sum,
                         const Groups& groups = {}) {
  return std::move(all_reduce(std::span(&x, 1), reduction, groups)[0]);
}

// The same, of which each participant gets its own piece along `axis`, which their number divides.
inline std::vector<Tensor> reduce_scatter(std::span<const Tensor> tensors, std::int64_t axis = 0,
                                          Reduction reduction = Reduction::sum,
                                          const Groups& groups = {}) {
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&axis, 1};
  a.reduction = static_cast<plm_reduction>(reduction);
  return internal::record_collective(PLM_OP_REDUCE_SCATTER, tensors, a, groups);
}
inline Tensor reduce_scatter(const Tensor& x, std::int64_t axis = 0,
                             Reduction reduction = Reduction::sum, const Groups& groups = {}) {
  return std::move(reduce_scatter(std::span(&x, 1), x.normalize_axis(axis), reduction, groups)[0]);
}

// All participants' values, one after the other along `axis`.
inline std::vector<Tensor> all_gather(std::span<const Tensor> tensors, std::int64_t axis = 0,
                                      const Groups& groups = {}) {
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&axis, 1};
  return internal::record_collective(PLM_OP_ALL_GATHER, tensors, a, groups);
}
inline Tensor all_gather(const Tensor& x, std::int64_t axis = 0, const Groups& groups = {}) {
  return std::move(all_gather(std::span(&x, 1), x.normalize_axis(axis), groups)[0]);
}

// The value of participant `root`, for everybody; of groups that of each one's `root`-th.
inline std::vector<Tensor> broadcast(std::span<const Tensor> tensors, std::int64_t root = 0,
                                     const Groups& groups = {}) {
  plm_op_attributes a = internal::attributes();
  a.root = root;
  return internal::record_collective(PLM_OP_COLLECTIVE_BROADCAST, tensors, a, groups);
}
inline Tensor broadcast(const Tensor& x, std::int64_t root = 0, const Groups& groups = {}) {
  return std::move(broadcast(std::span(&x, 1), root, groups)[0]);
}

}  // namespace plimsoll
