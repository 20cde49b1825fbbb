// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/cpu/contraction/contraction.h"
#include "kernels/cpu/contraction/convolution_blocked.h"
#include "kernels/cpu/contraction/convolution_bytes.h"
#include "kernels/cpu/contraction/convolution_library.h"
#include "kernels/cpu/contraction/convolution_packed.h"
#include "kernels/cpu/contraction/convolution_shape.h"
#include "kernels/cpu/contraction/convolution_widened.h"
#include "runtime/ir/shapes/large_filters.h"

namespace plimsoll::kernels {

KernelResult make_convolution(const ir::Instruction& instruction) {
  if (instruction.attributes().convolution == nullptr)
    return invalid_argument("convolution " + instruction.name() + ": no dim_labels");
  for (LibraryConvolution& c : library_convolutions(instruction)) {
    if (ir::has_large_filters(instruction) && PackedConvolution::takes(c)) {
      return KernelResult(std::make_shared<PackedConvolution>(std::move(c)));
    }
    if (auto kernel = make_library_convolution(c)) return KernelResult(std::move(kernel));
  }
  if (auto kernel = make_byte_convolution(instruction)) return KernelResult(std::move(kernel));
  if (auto kernel = make_widened_convolution(instruction)) return KernelResult(std::move(kernel));
  return KernelResult(make_blocked_convolution(instruction));
}

}  // namespace plimsoll::kernels
