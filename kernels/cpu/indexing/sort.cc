// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/sort.h"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/cpu/indexing/line_sort.h"
#include "kernels/cpu/indexing/merge_sort.h"
#include "kernels/cpu/indexing/order_keys.h"
#include "kernels/cpu/indexing/radix_sort.h"
#include "kernels/cpu/indexing/sort_by_keys.h"
#include "kernels/cpu/scalar/key_comparison.h"

namespace plimsoll::kernels {
namespace {

// By comparators that are no strict total order (sort_by_keys.h).
class Sort final : public LineSort {
 public:
  // By `program`, or where it is one of these, by a comparison of elements or of keys.
  Sort(const ir::Instruction& instruction, std::optional<PlainComparison> plain,
       std::optional<KeyComparison> keyed, ScalarProgram program)
      : LineSort(instruction),
        plain_(plain),
        keyed_(std::move(keyed)),
        program_(std::move(program)) {
    if (keyed_.has_value()) plain_ = keyed_->comparison;
    std::int64_t entry = sizeof(std::int32_t);
    if (plain_.has_value()) {
      key_dtype_ = keyed_.has_value() ? keyed_->key.results()[0] : dtypes_[plain_->key];
      entry = dtype_bytes(key_dtype_) == 8 ? 16 : 8;
    }
    keys_ = aligned_bytes(2 * length_ * entry);
    reserve_slots(keys_ + (keyed_.has_value() ? length_ * dtype_bytes(key_dtype_) : 0));
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    for_each_slot(arguments, [&](std::int64_t first, std::int64_t last, void* memory) {
      if (plain_.has_value()) {
        sort_by_key(first, last, memory, arguments);
      } else {
        sort_by_program(first, last, memory, arguments);
      }
    });
    return ok_status();
  }

 private:
  void sort_by_key(std::int64_t first, std::int64_t last, void* memory,
                   const device::KernelArguments& arguments) const {
    ir::visit_dtype(key_dtype_, [&](auto zero) {
      using T = decltype(zero);
      const auto sort = [&](const T* keys, std::int64_t stride, std::int64_t from,
                            std::int64_t to) {
        if (plain_->order == ir::ComparisonOrder::total) {
          sort_lines(from, to, memory, arguments, [&](std::int64_t base, std::int64_t i) {
            return total_order_key(keys[base + i * stride]);
          });
        } else {
          sort_lines(from, to, memory, arguments, [&](std::int64_t base, std::int64_t i) {
            return natural_key(keys[base + i * stride]);
          });
        }
      };
      if (!keyed_.has_value()) {
        return sort(static_cast<const T*>(arguments.inputs[plain_->key]), stride_, first, last);
      }
      ScalarProgram::Evaluator evaluator(keyed_->key);
      T* const keys = reinterpret_cast<T*>(static_cast<std::byte*>(memory) + keys_);
      for (std::int64_t line = first; line < last; ++line) {
        compute_keys(evaluator, arguments.inputs[plain_->key], dtypes_[plain_->key],
                     line_base(line), dtype_bytes(key_dtype_), keys);
        sort(keys - line_base(line), 1, line, line + 1);
      }
    });
  }

  template <typename KeyAt>
  void sort_lines(std::int64_t first, std::int64_t last, void* memory,
                  const device::KernelArguments& arguments, const KeyAt& key_at) const {
    using Key = decltype(key_at(std::int64_t{}, std::int64_t{}));
    using Ordered = decltype(unsigned_key(order_key(Key{})));
    static_assert(sizeof(Keyed<Ordered>) <= 8 || sizeof(Ordered) == 8);
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t base = line_base(line);
      if (is_by_radix<Ordered>() && !has_nan(base, key_at)) {
        const Ordered flip =
            plain_->direction == ir::ComparisonDirection::gt ? Ordered(~Ordered{0}) : Ordered{0};
        Keyed<Ordered>* const entries = static_cast<Keyed<Ordered>*>(memory);
        for (std::int64_t i = 0; i < length_; ++i) {
          entries[i] = {Ordered(unsigned_key(order_key(key_at(base, i))) ^ flip),
                        static_cast<std::int32_t>(i)};
        }
        const Keyed<Ordered>* sorted = radix_sort(entries, entries + length_, length_, lines_ == 1);
        write_line(base, arguments, [&](std::int64_t i) { return sorted[i].at; });
      } else {
        merge_line(base, memory, arguments, key_at);
      }
    }
  }

  // Digits are of orders that have ties only between equal keys: `le` has no such, and `eq` is
  // none.
  template <typename Ordered>
  bool is_by_radix() const {
    return length_ >= kFewestByRadix<Ordered> &&
           (plain_->direction == ir::ComparisonDirection::lt ||
            plain_->direction == ir::ComparisonDirection::gt);
  }

  // Natural comparisons of NaNs are no order.
  template <typename KeyAt>
  bool has_nan(std::int64_t base, const KeyAt& key_at) const {
    bool found = false;
    if constexpr (std::is_floating_point_v<decltype(key_at(base, base))>) {
      for (std::int64_t i = 0; i < length_; ++i) {
        const auto key = key_at(base, i);
        found |= key != key;
      }
    }
    return found;
  }

  template <typename KeyAt>
  void merge_line(std::int64_t base, void* memory, const device::KernelArguments& arguments,
                  const KeyAt& key_at) const {
    using Key = decltype(key_at(std::int64_t{}, std::int64_t{}));
    struct Entry {
      Key key;
      std::int32_t at;
    };
    Entry* const entries = static_cast<Entry*>(memory);
    for (std::int64_t i = 0; i < length_; ++i)
      entries[i] = {key_at(base, i), static_cast<std::int32_t>(i)};
    const auto run = [&](auto before) {
      const Entry* sorted =
          merge_sort(entries, entries + length_, length_, lines_ == 1,
                     [&](const Entry& b, const Entry& a) { return before(b.key, a.key); });
      write_line(base, arguments, [&](std::int64_t i) { return sorted[i].at; });
    };
    switch (plain_->direction) {
      case ir::ComparisonDirection::lt:
        run([](Key x, Key y) { return x < y; });
        break;
      case ir::ComparisonDirection::gt:
        run([](Key x, Key y) { return x > y; });
        break;
      case ir::ComparisonDirection::le:
        run([](Key x, Key y) { return x <= y; });
        break;
      case ir::ComparisonDirection::ge:
        run([](Key x, Key y) { return x >= y; });
        break;
      case ir::ComparisonDirection::eq:
        run([](Key x, Key y) { return x == y; });
        break;
      case ir::ComparisonDirection::ne:
        run([](Key x, Key y) { return x != y; });
        break;
    }
  }

  void sort_by_program(std::int64_t first, std::int64_t last, void* memory,
                       const device::KernelArguments& arguments) const {
    ScalarProgram::Evaluator evaluator(program_);
    std::int32_t* const entries = static_cast<std::int32_t*>(memory);
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t base = line_base(line);
      for (std::int64_t i = 0; i < length_; ++i) entries[i] = static_cast<std::int32_t>(i);
      const auto before = [&](std::int32_t b, std::int32_t a) {
        for (std::size_t i = 0; i < dtypes_.size(); ++i) {
          const std::int64_t bytes = dtype_bytes(dtypes_[i]);
          std::memcpy(evaluator.parameter(2 * i),
                      byte_offset(arguments.inputs[i], (base + b * stride_) * bytes),
                      static_cast<std::size_t>(bytes));
          std::memcpy(evaluator.parameter(2 * i + 1),
                      byte_offset(arguments.inputs[i], (base + a * stride_) * bytes),
                      static_cast<std::size_t>(bytes));
        }
        evaluator.run(1);
        return *evaluator.result(0) != std::byte{0};
      };
      const std::int32_t* sorted = merge_sort(entries, entries + length_, length_, false, before);
      write_line(base, arguments, [&](std::int64_t i) { return sorted[i]; });
    }
  }

  std::optional<PlainComparison> plain_;  // of elements, or of their keys
  std::optional<KeyComparison> keyed_;
  ScalarProgram program_;
  ir::DType key_dtype_ = ir::DType::s32;
  std::int64_t keys_ = 0;  // where a slot has its line's keys
};

}  // namespace

KernelResult make_sort(const ir::Instruction& instruction) {
  const ir::Dims& dims = instruction.operand(0)->shape().dims();
  const std::int64_t length = dims[static_cast<int>(instruction.attributes().dimensions[0])];
  if (length > std::numeric_limits<std::int32_t>::max()) {
    return unimplemented(fmt::format("sort {}: dimension of {} (2147483647 is the most)",
                                     instruction.name(), length));
  }
  if (auto by_keys = sort_by_keys(instruction)) return KernelResult(std::move(by_keys));
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram program,
                            ScalarProgram::compile(*instruction.to_apply(), false));
  const std::optional<PlainComparison> plain = recognize_comparison(*instruction.to_apply());
  std::optional<KeyComparison> keyed;
  if (!plain.has_value()) keyed = recognize_key_comparison(*instruction.to_apply());
  return KernelResult(
      std::make_shared<Sort>(instruction, plain, std::move(keyed), std::move(program)));
}

}  // namespace plimsoll::kernels
