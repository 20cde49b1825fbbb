// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/gpu/gpu_check.h"

#include <llvm/Support/raw_ostream.h>

#include <cstring>
#include <memory>

#include "jit/gpu/gpu_code.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/fusions/in_place.h"
#include "tests/cases/compare.h"
#include "tests/jit/fusion_check.h"
#include "tests/jit/gpu/grid_emulator.h"

namespace plimsoll::jit::testing {
namespace {

using ir::Literal;

// A buffer as a GPU's memory has it, with guard bytes on both sides.
class GpuBuffer {
 public:
  explicit GpuBuffer(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)), storage_(bytes_ + 256, kGuard) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    begin_ = 64 + (kGpuAlignment - address % kGpuAlignment) % kGpuAlignment;
  }
  std::byte* data() { return storage_.data() + begin_; }
  std::span<const std::byte> contents() const { return {storage_.data() + begin_, bytes_}; }
  bool is_intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if ((i < begin_ || i >= begin_ + bytes_) && storage_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr std::byte kGuard{0xab};
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::size_t begin_ = 0;
};

// What a launch of an instruction takes: the operands' bytes, room for the result, a workspace.
struct LaunchBuffers {
  LaunchBuffers(const ir::Instruction& instruction, const std::vector<Literal>& operands,
                std::int64_t workspace_bytes)
      : workspace(workspace_bytes) {
    for (const Literal& operand : operands) {
      inputs.emplace_back(operand.shape().byte_size());
      const auto bytes = operand.bytes();
      if (!bytes.empty()) std::memcpy(inputs.back().data(), bytes.data(), bytes.size());
    }
    for (const ir::Shape* leaf : ir::leaves(instruction.shape())) {
      outputs.emplace_back(leaf->byte_size());
    }
  }

  std::vector<GpuBuffer> inputs, outputs;
  GpuBuffer workspace;
};

Compiler& cpu_compiler() {
  static const std::unique_ptr<Compiler> instance = std::move(Compiler::create()).value();
  return *instance;
}

// `reuse` >= 0: result leaf 0 goes into the buffer of this operand.
Result<std::vector<Literal>> run_emulated(EmulatedKernel& kernel,
                                          const ir::Instruction& instruction,
                                          const std::vector<Literal>& operands, int reuse,
                                          ThreadOrder order) {
  const auto leaves = ir::leaves(instruction.shape());
  LaunchBuffers buffers(instruction, operands, kernel.workspace_bytes());
  auto& [inputs, outputs, workspace] = buffers;
  std::vector<void*> pointers;
  for (GpuBuffer& input : inputs) pointers.push_back(input.data());
  for (GpuBuffer& output : outputs) pointers.push_back(output.data());
  if (reuse >= 0) pointers[inputs.size()] = inputs[at(reuse)].data();
  pointers.push_back(workspace.data());
  PLIMSOLL_RETURN_IF_ERROR(kernel.run(pointers, static_cast<std::int64_t>(inputs.size()), order));
  if (!workspace.is_intact()) return internal_error("the kernel wrote outside its workspace");
  std::vector<Literal> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!outputs[i].is_intact()) return internal_error("the kernel wrote outside a result");
    const bool in_input = i == 0 && reuse >= 0;
    results.push_back(Literal::from_bytes(
        *leaves[i], in_input ? inputs[at(reuse)].contents() : outputs[i].contents()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto before = operands[i].bytes();
    const bool same = std::equal(before.begin(), before.end(), inputs[i].contents().begin());
    if (!inputs[i].is_intact() || (!same && static_cast<int>(i) != reuse)) {
      return internal_error("the kernel wrote into or beside an operand");
    }
  }
  return results;
}

std::string difference(const std::vector<Literal>& expected, const std::vector<Literal>& actual) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string message = cases::compare_bits(expected[i], actual[i]);
    if (!message.empty()) return "result " + std::to_string(i) + ": " + message;
  }
  return "";
}

std::string text_for(GpuTarget target, const ir::Instruction& instruction) {
  std::string text;
  if (const auto code = write_gpu_code(instruction, target); code.ok()) {
    llvm::raw_string_ostream stream(text);
    code->module->getNamedMetadata("plimsoll.gpu")->eraseFromParent();
    code->module->print(stream, nullptr);
  }
  return text;
}

std::string check_for(
    GpuTarget target, const ir::Instruction& instruction, const std::vector<Literal>& operands,
    GpuCheck& totals,
    const std::function<std::string(const std::vector<Literal>& results)>& compare) {
  auto kernel = EmulatedKernel::create(instruction, target);
  if (!kernel.ok()) return kernel.status().to_string();
  ++totals.kernels;
  const auto check = [&](int reuse, ThreadOrder order) -> std::string {
    ++totals.launches;
    const auto results = run_emulated(**kernel, instruction, operands, reuse, order);
    if (!results.ok()) return results.status().to_string();
    return compare(*results);
  };
  constexpr ThreadOrder kOrders[] = {{ThreadOrder::Kind::forward, 0},
                                     {ThreadOrder::Kind::backward, 0},
                                     {ThreadOrder::Kind::shuffled, 1}};
  for (const ThreadOrder& order : kOrders) {
    const std::string message = check(-1, order);
    if (!message.empty()) {
      return "order " + std::to_string(static_cast<int>(order.kind)) + ": " + message;
    }
  }
  for (int i = 0; i < instruction.operand_count(); ++i) {
    if (!instruction.operand(i)->shape().is_array() || !ir::may_reuse_operand(instruction, i, 0)) {
      continue;
    }
    ++totals.in_place;
    for (const ThreadOrder& order : kOrders) {
      const std::string message = check(i, order);
      if (!message.empty()) return "in place of operand " + std::to_string(i) + ": " + message;
    }
    break;
  }
  return "";
}

}  // namespace

Result<std::vector<Literal>> run_on_cpu(const device::Kernel& kernel,
                                        const ir::Instruction& instruction,
                                        const std::vector<Literal>& operands) {
  const auto leaves = ir::leaves(instruction.shape());
  LaunchBuffers buffers(instruction, operands, kernel.workspace_bytes());
  auto& [inputs, outputs, workspace] = buffers;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (GpuBuffer& input : inputs) input_pointers.push_back(input.data());
  for (GpuBuffer& output : outputs) output_pointers.push_back(output.data());
  const auto device = device::cpu_device();
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device->create_stream());
  PLIMSOLL_RETURN_IF_ERROR(
      kernel.launch(*stream, {input_pointers, output_pointers, workspace.data()}));
  std::vector<Literal> results;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    results.push_back(Literal::from_bytes(*leaves[i], outputs[i].contents()));
  }
  return results;
}

// Older GPUs have other code where it rounds to bf16.
std::string check_on_gpu(
    const ir::Instruction& instruction, const std::vector<Literal>& operands, GpuCheck& totals,
    const std::function<std::string(const std::vector<Literal>& results)>& compare) {
  constexpr GpuTarget kOld{75}, kNew{80};
  const std::string message = check_for(kOld, instruction, operands, totals, compare);
  if (!message.empty() || text_for(kOld, instruction) == text_for(kNew, instruction))
    return message;
  ++totals.newer;
  const std::string newer = check_for(kNew, instruction, operands, totals, compare);
  return newer.empty() ? newer : "compute capability 8.0: " + newer;
}
std::string check_on_gpu(const ir::Instruction& instruction, const std::vector<Literal>& operands,
                         GpuCheck& totals) {
  const auto expected = launch(instruction, operands, cpu_compiler(), {});
  if (!expected.ok()) return "on the CPU: " + expected.status().to_string();
  return check_on_gpu(instruction, operands, totals, [&](const std::vector<Literal>& results) {
    return difference(*expected, results);
  });
}

std::string check_root_on_gpu(const ir::Module& module, const std::vector<Literal>& arguments,
                              GpuCheck& totals) {
  const ir::Instruction& root = *module.entry()->root();
  std::vector<Literal> operands;
  for (const ir::Instruction* operand : root.operands()) {
    operands.push_back(arguments[at(operand->attributes().parameter_number)]);
  }
  return check_on_gpu(root, operands, totals);
}

}  // namespace plimsoll::jit::testing
