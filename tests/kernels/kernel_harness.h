// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/ir/literal.h"
#include "runtime/ir/module.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::kernels {

// Small whole numbers: sums of their products are exact in f32, so any order of summation gives the
// same bits.
inline ir::Literal small_integers(const ir::Shape& shape, unsigned seed) {
  ir::Literal literal(shape);
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    const int value = static_cast<int>(random() % 7u) - 3;
    literal.set(i, shape.dtype() == ir::DType::pred || !ir::is_floating(shape.dtype())
                       ? (ir::dtype_class(shape.dtype()) == ir::DTypeClass::signed_int
                              ? value
                              : std::abs(value) % (shape.dtype() == ir::DType::pred ? 2 : 4))
                       : value);
  }
  return literal;
}

inline ir::Literal random_floats(const ir::Shape& shape, unsigned seed) {
  ir::Literal literal(shape);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> distribution(-1, 1);
  for (std::int64_t i = 0; i < shape.element_count(); ++i) literal.set(i, distribution(random));
  return literal;
}

inline void collect_leaves(const ir::Literal& literal, std::vector<const void*>& leaves) {
  if (literal.shape().is_tuple()) {
    for (const ir::Literal& element : literal.elements()) collect_leaves(element, leaves);
  } else {
    leaves.push_back(literal.shape().is_array() ? literal.bytes().data() : nullptr);
  }
}

inline void collect_outputs(ir::Literal& literal, std::vector<void*>& leaves) {
  if (literal.shape().is_tuple()) {
    for (ir::Literal& element : literal.mutable_elements()) collect_outputs(element, leaves);
  } else {
    leaves.push_back(literal.shape().is_array() ? literal.mutable_bytes().data() : nullptr);
  }
}

// Runs a kernel on literals. The workspace has guard bytes on both sides, and starts as garbage.
inline Result<ir::Literal> run_kernel(const device::Kernel& kernel, const ir::Shape& result_shape,
                                      std::span<const ir::Literal> operands) {
  std::vector<const void*> inputs;
  for (const ir::Literal& operand : operands) collect_leaves(operand, inputs);
  ir::Literal result(result_shape);
  std::vector<void*> outputs;
  collect_outputs(result, outputs);
  const std::size_t bytes = static_cast<std::size_t>(kernel.workspace_bytes());
  std::vector<std::uint8_t> memory(bytes + 192, 0xa5);
  std::uint8_t* workspace = memory.data() + 64;
  workspace += 63 - (reinterpret_cast<std::uintptr_t>(workspace) + 63) % 64;
  PLIMSOLL_ASSIGN_OR_RETURN(auto stream, device::cpu_device()->create_stream());
  PLIMSOLL_RETURN_IF_ERROR(kernel.launch(*stream, {inputs, outputs, workspace}));
  PLIMSOLL_RETURN_IF_ERROR(stream->synchronize());
  for (std::uint8_t* p = memory.data(); p < memory.data() + memory.size(); ++p) {
    if ((p < workspace || p >= workspace + bytes) && *p != 0xa5)
      return internal_error("the kernel wrote outside its workspace");
  }
  return result;
}

inline Result<ir::Literal> run_instruction(const ir::Instruction& instruction,
                                           std::span<const ir::Literal> operands,
                                           std::string* kernel_name = nullptr) {
  PLIMSOLL_ASSIGN_OR_RETURN(auto kernel, make_kernel(instruction));
  if (kernel_name != nullptr) *kernel_name = kernel->name();
  return run_kernel(*kernel, instruction.shape(), operands);
}

}  // namespace plimsoll::kernels
