// SPDX-License-Identifier: Apache-2.0
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <numeric>
#include <unordered_map>

#include "jit/emit/clean_up.h"
#include "jit/emit/gpu.h"
#include "jit/gpu/gpu_code.h"
#include "jit/gpu/gpu_entry.h"
#include "jit/gpu/gpu_library.h"
#include "jit/gpu/gpu_loops.h"
#include "jit/gpu/gpu_reductions.h"
#include "jit/gpu/gpu_rows.h"
#include "jit/keys/canonical.h"
#include "runtime/base/index.h"
#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/fusions/horizontal_fusion.h"

namespace plimsoll::jit {
namespace {

Status write_graph(GpuWriter& writer) {
  if (writer.graph->reduces().empty()) return write_gpu_loops(writer);
  if (writer.graph->is_row_fusion()) return write_gpu_rows(writer);
  return write_gpu_reductions(writer);
}

using GpuKernelWriter = Status (*)(GpuWriter&);

// What the CPU has kernels of its own for; null: the JIT compiles it, or nobody does.
GpuKernelWriter library_writer(const ir::Instruction& instruction) {
  switch (instruction.opcode()) {
    case ir::Opcode::dot:
      return write_gpu_dot;
    case ir::Opcode::convolution:
      return write_gpu_convolution;
    case ir::Opcode::scatter:
      return write_gpu_scatter;
    case ir::Opcode::reduce_window:
      return write_gpu_reduce_window;
    case ir::Opcode::select_and_scatter:
      return write_gpu_select_and_scatter;
    case ir::Opcode::rng_bit_generator:
      return write_gpu_random_bits;
    case ir::Opcode::sort:
      return write_gpu_sort;
    case ir::Opcode::map:
      return write_gpu_map;
    case ir::Opcode::fusion:
      return ir::claims_attention(instruction) ? write_gpu_attention : nullptr;
    default:
      return nullptr;
  }
}

std::vector<int> numbers(std::size_t count) {
  std::vector<int> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kGpuAlignment - 1) / kGpuAlignment * kGpuAlignment;
}

// Each part is a kernel of its own, on its own share of the pointers. Parts run one after the other
// and share the workspace, but for results that nobody takes, which lie in front.
Status write_parts(GpuCode& code, const ir::Instruction& fusion,
                   const std::vector<const ir::Instruction*>& parts) {
  std::unordered_map<const ir::Instruction*, std::vector<int>> outputs;
  for (const ir::Instruction* part : parts) {
    outputs[part].resize(ir::leaves(part->shape()).size(), -1);
  }
  for (int leaf = 0; leaf < static_cast<int>(code.outputs); ++leaf) {
    const ir::PartResult result = ir::horizontal_result(fusion, leaf);
    int& output = outputs.at(result.part)[at(result.leaf)];
    if (output >= 0) return refuse(fusion, "gives one result twice");
    output = leaf;
  }
  std::int64_t front = 0, behind = 0;
  for (const ir::Instruction* part : parts) {
    const auto leaves = ir::leaves(part->shape());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (outputs.at(part)[i] < 0) front = std::max(front, aligned(leaves[i]->byte_size()));
    }
  }
  for (const ir::Instruction* part : parts) {
    PLIMSOLL_ASSIGN_OR_RETURN(const KernelGraph graph, KernelGraph::create(*part));
    std::vector<int> inputs;
    for (const ir::Instruction* operand : part->operands()) {
      inputs.push_back(static_cast<int>(operand->attributes().parameter_number));
    }
    if (code.name.empty()) code.name = "horizontal." + kernel_name(graph);
    code.workspace_bytes = 0;
    // What nobody takes may be written over by what nobody takes.
    GpuWriter writer{code,
                     *part,
                     std::move(inputs),
                     outputs.at(part),
                     &graph,
                     std::vector<std::int64_t>(outputs.at(part).size(), 0),
                     front};
    PLIMSOLL_RETURN_IF_ERROR(write_graph(writer));
    behind = std::max(behind, code.workspace_bytes);
  }
  code.workspace_bytes = front + behind;
  return ok_status();
}

}  // namespace

bool is_gpu_library_kernel(const ir::Instruction& instruction) {
  return library_writer(instruction) != nullptr;
}

GpuCode new_gpu_code(GpuTarget target, std::string name, std::int64_t inputs,
                     std::int64_t outputs) {
  GpuCode code;
  code.context = std::make_unique<llvm::LLVMContext>();
  code.module = std::make_unique<llvm::Module>("kernel", *code.context);
  // NVPTX's own, so that sizes and alignments are known while code is written.
  code.module->setDataLayout("e-i64:64-i128:128-v16:16-v32:32-n16:32:64");
  code.module->setTargetTriple("nvptx64-nvidia-cuda");
  gpu::allow(*code.module, target.compute_capability);
  code.name = std::move(name);
  code.inputs = inputs;
  code.outputs = outputs;
  return code;
}

Status finish_gpu_code(GpuCode& code) {
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*code.module, &stream)) {
    return internal_error("generated code is invalid: " + stream.str());
  }
  clean_up(*code.module, nullptr);
  return ok_status();
}

Result<GpuCode> write_gpu_code(const ir::Instruction& instruction, GpuTarget target) {
  GpuCode code = new_gpu_code(target, "", instruction.operand_count(),
                              static_cast<std::int64_t>(ir::leaves(instruction.shape()).size()));
  const auto parts = ir::horizontal_parts(instruction);
  if (!parts.empty()) {
    PLIMSOLL_RETURN_IF_ERROR(write_parts(code, instruction, parts));
  } else if (const GpuKernelWriter write = library_writer(instruction)) {
    code.name = ir::to_string(instruction.opcode());
    code.is_library = true;
    GpuWriter writer{code, instruction, numbers(at(code.inputs)), numbers(at(code.outputs))};
    PLIMSOLL_RETURN_IF_ERROR(write(writer));
  } else {
    PLIMSOLL_ASSIGN_OR_RETURN(const KernelGraph graph, KernelGraph::create(instruction));
    code.name = kernel_name(graph);
    GpuWriter writer{code, instruction, numbers(graph.inputs().size()),
                     numbers(graph.roots().size()), &graph};
    PLIMSOLL_RETURN_IF_ERROR(write_graph(writer));
  }
  PLIMSOLL_RETURN_IF_ERROR(finish_gpu_code(code));
  return code;
}

}  // namespace plimsoll::jit
