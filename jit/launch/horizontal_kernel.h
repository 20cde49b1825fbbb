// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cpu/phased_kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit {

// One part of a horizontal fusion (ir/fusions/horizontal_fusion.h).
struct HorizontalPart {
  const ir::Instruction* fusion = nullptr;
  std::shared_ptr<const device::PhasedKernel> kernel;
};

// All parts in one launch (device/cpu/joint_launch.h). Workspaces lie side by side. Precondition:
// `parts` are horizontal_parts(fusion), in order.
std::shared_ptr<const device::Kernel> make_horizontal_kernel(const ir::Instruction& fusion,
                                                             std::vector<HorizontalPart> parts,
                                                             std::string name);

}  // namespace plimsoll::jit
