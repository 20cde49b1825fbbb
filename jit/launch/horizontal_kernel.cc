// SPDX-License-Identifier: Apache-2.0
#include "jit/launch/horizontal_kernel.h"

#include <fmt/core.h>
#include <cstring>
#include <unordered_map>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/joint_launch.h"
#include "runtime/ir/fusions/horizontal_fusion.h"

namespace plimsoll::jit {
namespace {

std::vector<const device::PhasedKernel*> kernels_of(const std::vector<HorizontalPart>& parts) {
  std::vector<const device::PhasedKernel*> kernels;
  for (const HorizontalPart& part : parts) kernels.push_back(part.kernel.get());
  return kernels;
}

class HorizontalKernel final : public device::Kernel {
 public:
  HorizontalKernel(const ir::Instruction& fusion, std::vector<HorizontalPart> parts,
                   std::string name)
      : name_(std::move(name)),
        operand_count_(at(fusion.operand_count())),
        result_count_(at(ir::leaf_count(fusion.shape()))),
        launch_(kernels_of(parts)) {
    place_parts(fusion, parts);
    for (HorizontalPart& part : parts) kernels_.push_back(std::move(part.kernel));
  }

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    if (arguments.inputs.size() != operand_count_ || arguments.outputs.size() != result_count_) {
      return internal_error(fmt::format("launch {}: {} inputs and {} outputs (it takes {} and {})",
                                        name_, arguments.inputs.size(), arguments.outputs.size(),
                                        operand_count_, result_count_));
    }
    const auto workspace = [&](std::int64_t offset) {
      return static_cast<std::byte*>(arguments.workspace) + offset;
    };
    std::vector<const void*> inputs(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs[i] = arguments.inputs[at(inputs_[i])];
    }
    std::vector<void*> outputs(outputs_.size());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      // A result that nobody takes is written beside the workspaces.
      outputs[i] = outputs_[i].output >= 0 ? arguments.outputs[at(outputs_[i].output)]
                                           : workspace(outputs_[i].workspace);
    }
    std::vector<void*> workspaces;
    for (const std::int64_t offset : workspaces_) workspaces.push_back(workspace(offset));
    PLIMSOLL_RETURN_IF_ERROR(launch_.launch(stream, inputs, outputs, workspaces));
    for (const Copy& copy : copies_) {
      std::memcpy(arguments.outputs[at(copy.to)], arguments.outputs[at(copy.from)], copy.bytes);
    }
    return ok_status();
  }
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return name_; }

 private:
  struct Target {
    int output = -1;
    std::int64_t workspace = 0;  // where nobody takes it
  };

  // A result that is taken twice.
  struct Copy {
    int from = 0, to = 0;
    std::size_t bytes = 0;
  };

  void place_parts(const ir::Instruction& fusion, const std::vector<HorizontalPart>& parts) {
    std::unordered_map<const ir::Instruction*, std::size_t> first_output;
    for (const HorizontalPart& part : parts) {
      workspaces_.push_back(workspace_bytes_);
      workspace_bytes_ += aligned_bytes(part.kernel->workspace_bytes());
      for (const ir::Instruction* operand : part.fusion->operands()) {
        inputs_.push_back(static_cast<int>(operand->attributes().parameter_number));
      }
      first_output.emplace(part.fusion, outputs_.size());
      outputs_.resize(outputs_.size() +
                      static_cast<std::size_t>(ir::leaf_count(part.fusion->shape())));
    }
    for (int leaf = 0; leaf < static_cast<int>(result_count_); ++leaf) {
      const ir::PartResult result = ir::horizontal_result(fusion, leaf);
      Target& target = outputs_[first_output.at(result.part) + at(result.leaf)];
      if (target.output < 0) {
        target.output = leaf;
        continue;
      }
      const ir::Shape& shape = *ir::leaves(fusion.shape())[at(leaf)];
      copies_.push_back({target.output, leaf, static_cast<std::size_t>(shape.byte_size())});
    }
    std::size_t next = 0;
    for (const HorizontalPart& part : parts) {
      for (const ir::Shape* shape : ir::leaves(part.fusion->shape())) {
        Target& target = outputs_[next++];
        if (target.output >= 0) continue;
        target.workspace = workspace_bytes_;
        workspace_bytes_ += aligned_bytes(shape->byte_size());
      }
    }
  }

  std::string name_;
  std::size_t operand_count_, result_count_;
  std::int64_t workspace_bytes_ = 0;
  std::vector<std::int64_t> workspaces_;  // per part
  // Of all parts, one after the other. Inputs are operands' numbers.
  std::vector<int> inputs_;
  std::vector<Target> outputs_;
  std::vector<Copy> copies_;
  std::vector<std::shared_ptr<const device::PhasedKernel>> kernels_;
  device::CpuJointLaunch launch_;
};

}  // namespace

std::shared_ptr<const device::Kernel> make_horizontal_kernel(const ir::Instruction& fusion,
                                                             std::vector<HorizontalPart> parts,
                                                             std::string name) {
  return std::make_shared<HorizontalKernel>(fusion, std::move(parts), std::move(name));
}

}  // namespace plimsoll::jit
