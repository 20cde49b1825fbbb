// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "jit/kernel_code.h"
#include "jit/native_code.h"
#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit {

// A compiled kernel with its phases in sight. The functions it was linked from live as long as it.
class PhasedKernel : public device::Kernel {
 public:
  virtual const std::vector<Phase>& phases() const = 0;
  virtual PhaseEntry entry(std::size_t phase) const = 0;
  // Inputs after the launch's own, in order.
  virtual const std::vector<std::shared_ptr<const ir::Literal>>& tables() const = 0;
};

// One part of a horizontal fusion (ir/horizontal_fusion.h).
struct HorizontalPart {
  const ir::Instruction* fusion = nullptr;
  std::shared_ptr<const PhasedKernel> kernel;
  // Of a flat kernel: the extent it runs over here. 0: the kernel's phases have their units.
  std::int64_t elements = 0;
};

// All parts in one launch. The work of all of them is listed in one table, of which pieces of about
// equal time (a large part is in many, many small parts are in one) are shared out among threads.
// Phases of one part keep their order: the first phases of all parts, then the second ones, ...
// Workspaces lie side by side. Precondition: `parts` are horizontal_parts(fusion), in order.
std::shared_ptr<const device::Kernel> make_horizontal_kernel(const ir::Instruction& fusion,
                                                             std::vector<HorizontalPart> parts,
                                                             std::string name);

}  // namespace plimsoll::jit
