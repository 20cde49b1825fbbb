// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/top_k.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/indexing/order_keys.h"
#include "kernels/cpu/indexing/radix_sort.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kMostTasks = 8, kElementsOfTask = 8192;
// Elements that are compared with the worst of those kept before any of them is looked at.
constexpr std::int64_t kBlock = 64;
// Entries beyond k that are gathered before they are cut to k: few the first time, which says what
// most others are worse than.
constexpr std::int64_t kFewestAtFirst = 64, kFewestGathered = 512;

class TopK final : public KernelBase {
 public:
  explicit TopK(const ir::Instruction& instruction)
      : KernelBase("topk", device::KernelOrigin::own),
        dtype_(instruction.operand(0)->shape().dtype()),
        is_largest_(instruction.attributes().find_extra("largest") != "false") {
    const ir::Shape& from = instruction.operand(0)->shape();
    length_ = from.dim(from.rank() - 1);
    count_ = instruction.shape().elements()[0].dim(from.rank() - 1);
    lines_ = length_ == 0 ? 0 : from.element_count() / length_;
    tasks_ = std::clamp<std::int64_t>(lines_ * length_ / kElementsOfTask, 1,
                                      std::min(kMostTasks, std::max<std::int64_t>(lines_, 1)));
    gathered_at_first_ = count_ + std::max(count_, kFewestAtFirst);
    gathered_ = std::min(length_, count_ + std::max(count_, kFewestGathered)) + kBlock;
    task_bytes_ = aligned_bytes(gathered_ * (ir::dtype_bytes(dtype_) == 8 ? 16 : 8));
    memory_ = reserve_workspace(task_bytes_ * tasks_);
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (lines_ * count_ == 0) return ok_status();
    ir::visit_dtype(dtype_, [&](auto zero) {
      device::parallel_for(tasks_, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          void* const memory = byte_offset(arguments.workspace, memory_ + task * task_bytes_);
          run_lines<decltype(zero)>(lines_ * task / tasks_, lines_ * (task + 1) / tasks_, memory,
                                    arguments);
        }
      });
    });
    return ok_status();
  }

 private:
  template <typename T>
  void run_lines(std::int64_t first, std::int64_t last, void* memory,
                 const device::KernelArguments& arguments) const {
    const T* const from = static_cast<const T*>(arguments.inputs[0]);
    T* const values = static_cast<T*>(arguments.outputs[0]);
    std::int32_t* const places = static_cast<std::int32_t*>(arguments.outputs[1]);
    for (std::int64_t line = first; line < last; ++line) {
      const T* const elements = from + line * length_;
      const auto* const kept = select(elements, memory);
      for (std::int64_t i = 0; i < count_; ++i) {
        places[line * count_ + i] = kept[i].at;
        values[line * count_ + i] = elements[kept[i].at];
      }
    }
  }

  // The entries of the `count_` first, in order.
  template <typename T>
  auto* select(const T* elements, void* memory) const {
    using Ordered = decltype(unsigned_key(total_order_key(T{})));
    using Key = std::conditional_t<sizeof(Ordered) == 8, std::uint64_t, std::uint32_t>;
    using Entry = Keyed<Key>;
    const Ordered flip = is_largest_ ? Ordered(~Ordered{0}) : Ordered{0};
    // Of equal keys the one before, so that no two are equal.
    const auto before = [](const Entry& a, const Entry& b) {
      return a.key != b.key ? a.key < b.key : a.at < b.at;
    };
    Entry* const entries = static_cast<Entry*>(memory);
    std::int64_t found = 0;
    Key worst = 0;
    bool is_full = false;  // with count_ entries or more, of which the worst is `worst`
    const auto cut = [&] {
      std::nth_element(entries, entries + count_ - 1, entries + found, before);
      found = count_;
      worst = entries[count_ - 1].key;
      is_full = true;
    };
    Key keys[kBlock];
    for (std::int64_t first = 0; first < length_; first += kBlock) {
      const std::int64_t size = std::min(kBlock, length_ - first);
      bool any = !is_full;
      for (std::int64_t i = 0; i < size; ++i) {
        keys[i] = Ordered(unsigned_key(total_order_key(elements[first + i])) ^ flip);
      }
      if (is_full) {
        int better = 0;
        for (std::int64_t i = 0; i < size; ++i) better |= keys[i] < worst ? 1 : 0;
        any = better != 0;
      }
      if (!any) continue;
      for (std::int64_t i = 0; i < size; ++i) {
        // Later ones of the same key come after.
        entries[found] = {keys[i], static_cast<std::int32_t>(first + i)};
        found += !is_full || keys[i] < worst ? 1 : 0;
      }
      if (found > gathered_ - kBlock || (!is_full && found >= gathered_at_first_)) cut();
    }
    if (found > count_) cut();
    std::sort(entries, entries + count_, before);
    return entries;
  }

  ir::DType dtype_;
  bool is_largest_;
  std::int64_t length_ = 0, count_ = 0, lines_ = 0;
  std::int64_t tasks_ = 1, gathered_at_first_ = 0, gathered_ = 0, task_bytes_ = 0, memory_ = 0;
};

}  // namespace

KernelResult make_top_k(const ir::Instruction& instruction) {
  return KernelResult(std::make_shared<TopK>(instruction));
}

}  // namespace plimsoll::kernels
