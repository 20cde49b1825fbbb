// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "plimsoll/ops/elementwise.hpp"

// Operations between the participants of the context's communicator (ContextOptions::communicator),
// who record the same ones in the same order and cut at the same places. Those of several tensors,
// of one dtype, meet once for all of them. Without a communicator they throw failed_precondition.
namespace plimsoll {

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
                                             const plm_op_attributes& attributes) {
  if (tensors.empty()) return {};
  std::vector<const plm_tensor*> operands;
  for (const Tensor& tensor : tensors) operands.push_back(tensor.require(plm_opcode_name(opcode)));
  std::vector<plm_tensor*> out(operands.size(), nullptr);
  check(plm_op(plm_tensor_context(operands[0]), opcode, operands.data(), operands.size(),
               &attributes, out.data(), out.size()));
  return std::vector<Tensor>(out.begin(), out.end());
}

inline Tensor record_collective(plm_opcode opcode, const Tensor& tensor,
                                const plm_op_attributes& attributes) {
  return std::move(record_collective(opcode, std::span(&tensor, 1), attributes)[0]);
}

}  // namespace internal

// Everybody gets what all participants' values are together, added up in the participants' order.
inline std::vector<Tensor> all_reduce(std::span<const Tensor> tensors,
                                      Reduction reduction = Reduction::sum) {
  plm_op_attributes a = internal::attributes();
  a.reduction = static_cast<plm_reduction>(reduction);
  return internal::record_collective(PLM_OP_ALL_REDUCE, tensors, a);
}
inline Tensor all_reduce(const Tensor& x, Reduction reduction = Reduction::sum) {
  return std::move(all_reduce(std::span(&x, 1), reduction)[0]);
}

// The same, of which each participant gets its own piece along `axis`, which their number divides.
inline std::vector<Tensor> reduce_scatter(std::span<const Tensor> tensors, std::int64_t axis = 0,
                                          Reduction reduction = Reduction::sum) {
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&axis, 1};
  a.reduction = static_cast<plm_reduction>(reduction);
  return internal::record_collective(PLM_OP_REDUCE_SCATTER, tensors, a);
}
inline Tensor reduce_scatter(const Tensor& x, std::int64_t axis = 0,
                             Reduction reduction = Reduction::sum) {
  return std::move(reduce_scatter(std::span(&x, 1), x.normalize_axis(axis), reduction)[0]);
}

// All participants' values, one after the other along `axis`.
inline std::vector<Tensor> all_gather(std::span<const Tensor> tensors, std::int64_t axis = 0) {
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&axis, 1};
  return internal::record_collective(PLM_OP_ALL_GATHER, tensors, a);
}
inline Tensor all_gather(const Tensor& x, std::int64_t axis = 0) {
  return std::move(all_gather(std::span(&x, 1), x.normalize_axis(axis))[0]);
}

// The value of participant `root`, for everybody.
inline std::vector<Tensor> broadcast(std::span<const Tensor> tensors, std::int64_t root = 0) {
  plm_op_attributes a = internal::attributes();
  a.root = root;
  return internal::record_collective(PLM_OP_COLLECTIVE_BROADCAST, tensors, a);
}
inline Tensor broadcast(const Tensor& x, std::int64_t root = 0) {
  return std::move(broadcast(std::span(&x, 1), root)[0]);
}

}  // namespace plimsoll
