// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/kernel_traits.h"

// What a graph's kernel is like, whichever writer makes it.
#include <algorithm>

#include "jit/emit/avx512.h"
#include "jit/emit/kernel_code.h"

namespace plimsoll::jit {

using ir::VectorCode;

bool only_moves(const KernelGraph& graph) {
  const auto& all = graph.instructions();
  return std::all_of(all.begin(), all.end(), [](const ir::Instruction* instruction) {
    return instruction->operand_count() == 0 ||
           ir::op_info(instruction->opcode()).op_class == ir::OpClass::movement;
  });
}

bool computes_bf16(const KernelGraph& graph) {
  bool found = false, others = false;
  const auto consider = [&](ir::DType dtype) {
    (dtype == ir::DType::bf16 ? found : others) |= ir::is_floating(dtype);
  };
  for (const ir::Shape* shape : graph.inputs()) consider(shape->dtype());
  for (const ir::Instruction* instruction : graph.instructions()) {
    if (instruction->shape().is_array()) consider(instruction->shape().dtype());
  }
  return found && !others;
}

namespace {

// Of one element, on one thread.
double nanoseconds_of(VectorCode code) {
  switch (code) {
    case VectorCode::strided:
    case VectorCode::parts:
    case VectorCode::slow:
    case VectorCode::polynomial:
      return 0.5;
    case VectorCode::iterated:
    case VectorCode::wide:
    case VectorCode::library:
      return 2;
    default:
      return 0.03;
  }
}

}  // namespace

double seconds_per_element(const KernelGraph& graph) {
  double nanoseconds = 0.1 * static_cast<double>(graph.inputs().size() + graph.roots().size());
  for (const ir::Instruction* instruction : graph.instructions()) {
    nanoseconds += nanoseconds_of(ir::op_info(instruction->opcode()).code);
    if (instruction->shape().is_array() && instruction->shape().dtype() == ir::DType::f64) {
      nanoseconds += 0.2;
    }
  }
  return nanoseconds * 1e-9;
}

// Functions that are computed in f32 alone, and nothing longer.
bool has_polynomial(const KernelGraph& graph) {
  bool found = false;
  for (const ir::Instruction* instruction : graph.instructions()) {
    const VectorCode code = ir::op_info(instruction->opcode()).code;
    if (code == VectorCode::wide) return false;
    found = found || code == VectorCode::polynomial || code == VectorCode::iterated;
  }
  return found;
}

int vector_lanes(const KernelGraph& graph, const KernelTarget& target) {
  // Small floats are computed in f32; what is only moved stays as it is, and so does bf16 where it
  // is computed as two vectors.
  int widest = only_moves(graph) || (target.avx512 && computes_bf16(graph)) ? 2 : 4;
  const auto consider = [&](ir::DType dtype) { widest = std::max(widest, ir::dtype_bytes(dtype)); };
  for (const ir::Shape* shape : graph.inputs()) consider(shape->dtype());
  for (const ir::Instruction* instruction : graph.instructions()) {
    consider(instruction->shape().dtype());
  }
  // A polynomial waits for itself at every step: two vectors at a time fill the gaps, more than the
  // machine finds by looking ahead.
  const int together = target.avx512 && widest == 4 && has_polynomial(graph) ? 2 : 1;
  return std::max(together * target.vector_bytes / widest, 2);
}

}  // namespace plimsoll::jit
