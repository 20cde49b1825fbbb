// SPDX-License-Identifier: Apache-2.0
#include "jit/kernel_code.h"

namespace plimsoll::jit {

Result<KernelCode> write_reduction_kernel(const Graph& graph, const Machine&) {
  return unimplemented("compile '" + graph.instruction().name() + "': reduce");
}

}  // namespace plimsoll::jit
