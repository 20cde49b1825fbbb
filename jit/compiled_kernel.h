// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/horizontal_kernel.h"
#include "jit/native_code.h"
#include "runtime/device/kernel.h"

namespace plimsoll::jit {

// A piece of work that is worth giving to another thread.
inline constexpr double kPieceSeconds = 20e-6;

// Machine code that runs phase after phase, each shared out to the threads of the pool.
class CompiledKernel final : public PhasedKernel {
 public:
  CompiledKernel(const Graph& graph, const KernelObject& object,
                 std::shared_ptr<const NativeCode> code);

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override;
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return name_; }
  const std::vector<Phase>& phases() const override { return phases_; }
  PhaseEntry entry(std::size_t phase) const override { return code_->entry(phase); }
  const std::vector<std::shared_ptr<const ir::Literal>>& tables() const override { return tables_; }

 private:
  std::string name_;
  std::size_t input_count_, output_count_;
  std::int64_t workspace_bytes_;
  std::vector<Phase> phases_;
  std::vector<std::int64_t> grains_;
  std::shared_ptr<const NativeCode> code_;
  std::vector<std::shared_ptr<const ir::Literal>> tables_;
};

}  // namespace plimsoll::jit
