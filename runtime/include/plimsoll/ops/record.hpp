// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "plimsoll/tensor.hpp"

// How the operations of plimsoll/ops/ reach plm_op.
namespace plimsoll::internal {

inline plm_op_attributes attributes() {
  plm_op_attributes result = {};
  result.struct_size = sizeof result;
  return result;
}

inline plm_ints ints(std::span<const std::int64_t> values) {
  return {values.data(), values.size()};
}

// Records an operation with one result; `context` may be null where there are operands.
inline Tensor record(plm_opcode opcode, std::span<const plm_tensor* const> operands,
                     const plm_op_attributes* attributes = nullptr,
                     plm_context* context = nullptr) {
  for (const plm_tensor* operand : operands) {
    if (operand == nullptr) {
      throw Error(ErrorCode::invalid_argument,
                  std::string("[") + plm_opcode_name(opcode) + "] an operand is empty");
    }
  }
  if (context == nullptr) context = plm_tensor_context(operands[0]);
  plm_tensor* out = nullptr;
  check(plm_op(context, opcode, operands.data(), operands.size(), attributes, &out, 1));
  return Tensor(out);
}

inline Tensor record(plm_opcode opcode, std::initializer_list<const plm_tensor*> operands,
                     const plm_op_attributes* attributes = nullptr) {
  return record(opcode, std::span<const plm_tensor* const>(operands.begin(), operands.size()),
                attributes);
}

// `axes` counted from the front; all axes of the tensor when empty.
inline Dims normalize_axes(const Tensor& x, std::span<const std::int64_t> axes) {
  Dims result;
  for (const std::int64_t axis : axes) result.push_back(x.normalize_axis(axis));
  if (axes.empty()) {
    for (std::int64_t axis = 0; axis < x.rank(); ++axis) result.push_back(axis);
  }
  return result;
}

}  // namespace plimsoll::internal
