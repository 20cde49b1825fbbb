// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/graph/graph.h"
#include "jit/native/native_code.h"
#include "runtime/device/cpu/phased_kernel.h"

namespace plimsoll::jit {

// Machine code that runs phase after phase, each shared out to the threads of the pool; pieces of
// equal shape, which a concatenate puts side by side, in turns.
class CompiledKernel final : public device::PhasedKernel {
 public:
  CompiledKernel(const KernelGraph& graph, const KernelObject& object,
                 std::shared_ptr<const NativeCode> code);

  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override;
  std::int64_t workspace_bytes() const override { return workspace_bytes_; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::jit; }
  const std::string& name() const override { return name_; }
  std::span<const device::KernelPhase> phases() const override { return phases_; }
  std::span<const void* const> tables() const override { return table_pointers_; }
  std::size_t input_count() const override { return input_count_; }
  std::size_t output_count() const override { return output_count_; }

 private:
  // Runs all phases on some units, then on the next ones.
  void take_turns(const void* const* inputs, const device::KernelArguments& arguments) const;

  std::string name_;
  std::size_t input_count_, output_count_;
  std::int64_t workspace_bytes_;
  std::vector<device::KernelPhase> phases_;
  std::vector<std::int64_t> grains_;
  bool takes_turns_ = false;
  std::shared_ptr<const NativeCode> code_;
  std::vector<std::shared_ptr<const ir::Literal>> tables_;
  std::vector<const void*> table_pointers_;
};

}  // namespace plimsoll::jit
