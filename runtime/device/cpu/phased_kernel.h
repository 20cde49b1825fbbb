// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/device/kernel.h"

namespace plimsoll::device {

// Does units [begin, end) of a phase. Pointers are those of KernelArguments, with the kernel's
// tables behind the inputs.
using PhaseEntry = void (*)(const void* const* inputs, void* const* outputs, void* workspace,
                            std::int64_t begin, std::int64_t end);

// A piece of work that is worth giving to another thread.
inline constexpr double kPieceSeconds = 20e-6;

// One parallel loop of a kernel: units [0, units), which write disjoint memory.
struct KernelPhase {
  PhaseEntry run = nullptr;
  std::int64_t units = 0;
  std::int64_t cut = 1;     // the loop is cut at multiples of this
  double unit_seconds = 0;  // estimate
  // Not run when this input and this output are the same buffer; -1: always run.
  int unless_input = -1, unless_output = -1;
  // Where unit u is elements [u * run_elements, (u + 1) * run_elements) of every result, in
  // row-major order, as far as there are any: which inputs (a bit each, of the first 64) are read
  // at the positions alone that are written. 0: units are something else.
  std::int64_t run_elements = 0;
  std::uint64_t own_inputs = 0;
};

// A kernel that is nothing but phases, each run when the one before it is over. What may join
// others on this device is one.
class PhasedKernel : public Kernel {
 public:
  bool may_join(std::size_t inputs, std::size_t outputs) const final {
    return inputs == input_count() && outputs == output_count();
  }
  virtual std::span<const KernelPhase> phases() const = 0;
  // Pointers that phases take after the launch's inputs. They live as long as the kernel.
  virtual std::span<const void* const> tables() const = 0;
  // Of a launch.
  virtual std::size_t input_count() const = 0;
  virtual std::size_t output_count() const = 0;
};

}  // namespace plimsoll::device
