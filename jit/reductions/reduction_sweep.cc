// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/reduction_sweep.h"

#include "jit/reductions/sweep_writer.h"

namespace plimsoll::jit {

Result<Phase> write_sweep(const ReductionPlan& plan, const KernelTarget& target,
                          llvm::Module& module, const std::string& name, double element_seconds) {
  const auto writer = plan.shape.rows ? make_row_sweep(plan, target, module, name)
                                      : make_column_sweep(plan, target, module, name);
  PLIMSOLL_RETURN_IF_ERROR(writer->write());
  Phase phase;
  phase.function = name;
  phase.units = writer->units();
  phase.unit_seconds = element_seconds * static_cast<double>(writer->elements_per_unit()) + 10e-9;
  return phase;
}

}  // namespace plimsoll::jit
