// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cpu/kernel_base.h"
#include "kernels/cpu/scalar/scalar_program.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// What the kernels of a sort share: operands of one shape, whose lines along one dim are sorted
// each by itself. Lines are dealt to slots, each of which has scratch memory of its own.
class LineSort : public KernelBase {
 protected:
  explicit LineSort(const ir::Instruction& instruction);

  // To be called once, by the constructor: bytes of scratch memory that a slot has.
  void reserve_slots(std::int64_t bytes);

  // Lines [first, last) are those of a slot with `memory`.
  using SortSlot = std::function<void(std::int64_t first, std::int64_t last, void* memory)>;
  void for_each_slot(const device::KernelArguments& arguments, const SortSlot& sort) const;

  // Where a line begins; its elements are `stride_` apart.
  std::int64_t line_base(std::int64_t line) const {
    return line / stride_ * stride_ * length_ + line % stride_;
  }

  // What `evaluator` makes of each element, of `dtype`, of the line of `operand` at `base`: of the
  // size of its result's dtype each, one behind the other at `keys`.
  void compute_keys(ScalarProgram::Evaluator& evaluator, const void* operand, ir::DType dtype,
                    std::int64_t base, std::int64_t key_bytes, void* keys) const;

  // Element i of the line at `base` of every result is the operand's element at(i) of that line.
  template <typename At>
  void write_line(std::int64_t base, const device::KernelArguments& arguments, const At& at) const {
    for (std::size_t o = 0; o < dtypes_.size(); ++o) {
      const auto move = [&](auto zero) {
        using U = decltype(zero);
        const U* from = static_cast<const U*>(arguments.inputs[o]) + base;
        U* to = static_cast<U*>(arguments.outputs[o]) + base;
        for (std::int64_t i = 0; i < length_; ++i) to[i * stride_] = from[at(i) * stride_];
      };
      const int bytes = ir::dtype_bytes(dtypes_[o]);
      if (bytes == 1) move(std::uint8_t{});
      if (bytes == 2) move(std::uint16_t{});
      if (bytes == 4) move(std::uint32_t{});
      if (bytes == 8) move(std::uint64_t{});
    }
  }

  std::vector<ir::DType> dtypes_;
  std::int64_t length_ = 0, stride_ = 1, lines_ = 0;

 private:
  std::int64_t slots_ = 1, slot_bytes_ = 0, memory_ = 0;
};

}  // namespace plimsoll::kernels
