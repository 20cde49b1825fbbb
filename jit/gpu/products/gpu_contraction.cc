// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/products/gpu_contraction.h"

#include "jit/gpu/products/gpu_products.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {

std::int64_t Contraction::extent(const std::vector<int>& of) const {
  std::int64_t product = 1;
  for (const int digit : of) product *= digits[at(digit)];
  return product;
}

Status write_gpu_contraction(GpuWriter& writer, const Contraction& contraction) {
  const ir::Instruction& instruction = writer.instruction;
  for (const ir::Shape* shape :
       {&instruction.operand(0)->shape(), &instruction.operand(1)->shape(), &instruction.shape()}) {
    if (shape->dtype() == ir::DType::pred) return refuse(instruction, "is of truth values");
  }
  if (instruction.shape().element_count() == 0) return ok_status();
  const Products products(writer, contraction);
  if (products.vector) {
    write_vector_products(products);
  } else if (takes_tensor_cores(products)) {
    write_tensor_products(products);
  } else {
    write_simt_products(products);
  }
  write_sum_of_parts(products);
  return ok_status();
}

}  // namespace plimsoll::jit
