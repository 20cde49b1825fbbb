// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/line_sort.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kMaxSlots = 8;
constexpr std::int64_t kElementsOfSlot = 4096;

}  // namespace

LineSort::LineSort(const ir::Instruction& instruction)
    : KernelBase("sort", device::KernelOrigin::own) {
  const ir::Shape& shape = instruction.operand(0)->shape();
  const int along = static_cast<int>(instruction.attributes().dimensions[0]);
  length_ = shape.dims()[along];
  stride_ = ir::row_major_strides(shape.dims())[along];
  lines_ = length_ == 0 ? 0 : shape.element_count() / length_;
  for (int i = 0; i < instruction.operand_count(); ++i) {
    dtypes_.push_back(instruction.operand(i)->shape().dtype());
  }
}

void LineSort::reserve_slots(std::int64_t bytes) {
  slots_ = std::clamp<std::int64_t>(lines_ * length_ / kElementsOfSlot, 1,
                                    std::min(kMaxSlots, std::max<std::int64_t>(lines_, 1)));
  slot_bytes_ = aligned_bytes(bytes);
  memory_ = reserve_workspace(slot_bytes_ * slots_);
}

void LineSort::for_each_slot(const device::KernelArguments& arguments, const SortSlot& sort) const {
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      sort(lines_ * slot / slots_, lines_ * (slot + 1) / slots_,
           byte_offset(arguments.workspace, memory_ + slot * slot_bytes_));
    }
  });
}

void LineSort::compute_keys(ScalarProgram::Evaluator& evaluator, const void* operand,
                            ir::DType dtype, std::int64_t base, std::int64_t key_bytes,
                            void* keys) const {
  const auto bytes = static_cast<std::size_t>(ir::dtype_bytes(dtype));
  const auto* const from = static_cast<const std::byte*>(operand);
  for (std::int64_t i = 0; i < length_; i += ScalarProgram::kLanes) {
    const std::int64_t count = std::min(ScalarProgram::kLanes, length_ - i);
    for (std::int64_t k = 0; k < count; ++k) {
      std::memcpy(evaluator.parameter(0) + static_cast<std::size_t>(k) * bytes,
                  from + static_cast<std::size_t>(base + (i + k) * stride_) * bytes, bytes);
    }
    evaluator.run(count);
    std::memcpy(byte_offset(keys, i * key_bytes), evaluator.result(0),
                static_cast<std::size_t>(count * key_bytes));
  }
}

}  // namespace plimsoll::kernels
