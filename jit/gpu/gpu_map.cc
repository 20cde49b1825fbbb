// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/elementwise.h"
#include "jit/emit/scalar_computation.h"
#include "jit/gpu/gpu_library.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {

// A thread an element.
Status write_gpu_map(GpuWriter& writer) {
  const ir::Instruction& instruction = writer.instruction;
  PLIMSOLL_RETURN_IF_ERROR(check_scalar_computation(instruction));
  const auto leaves = ir::leaves(instruction.shape());
  const std::int64_t count = leaves[0]->element_count();
  if (count == 0) return ok_status();
  GpuEntry entry(writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  llvm::Value* thread = entry.thread();
  Status status;
  entry.when(b.CreateICmpULT(thread, entry.number(count)), [&] {
    std::vector<llvm::Value*> arguments;
    for (int i = 0; i < instruction.operand_count(); ++i) {
      arguments.push_back(entry.load_element(entry.function().input(i),
                                             instruction.operand(i)->shape().dtype(), thread));
    }
    const auto results = apply_scalars(b, *instruction.to_apply(), arguments);
    status = results.status();
    if (!status.ok()) return;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      entry.store_element(entry.function().output(static_cast<int>(i)), leaves[i]->dtype(), thread,
                          (*results)[i]);
    }
  });
  entry.launch(count);
  return status;
}

}  // namespace plimsoll::jit
