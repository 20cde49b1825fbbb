// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/sort.h"

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/cpu/indexing/radix_sort.h"
#include "kernels/cpu/numeric.h"
#include "kernels/cpu/scalar/key_comparison.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kMaxSlots = 8;

// A float as an integer that orders as totalOrder does; other types are themselves.
template <typename T>
// Bits of floats order as integers where the sign is not set. Where it is, larger bits are smaller
// numbers: all bits but the sign are flipped. -0 becomes -1 and is before +0; NaNs come last, or
// first with the sign set, as IEEE 754's totalOrder wants.
auto total_order_key(T value) {
  if constexpr (kIsHalf<T>) {
    const auto bits = static_cast<std::int16_t>(value.bits);
    return bits >= 0 ? bits
                     : static_cast<std::int16_t>(bits ^ std::numeric_limits<std::int16_t>::max());
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    const Bits bits = std::bit_cast<Bits>(value);
    return bits >= 0 ? bits : static_cast<Bits>(bits ^ std::numeric_limits<Bits>::max());
  } else {
    return value;
  }
}

template <typename T>
auto natural_key(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

// What orders numbers that are no NaNs as they are compared naturally: -0 is +0.
template <typename Key>
auto order_key(Key key) {
  if constexpr (std::is_floating_point_v<Key>) {
    return total_order_key(key + Key{0});
  } else {
    return key;
  }
}

// Sorts `from`, of `count` entries, by merges of doubling width; `to` is as large. Returns which of
// the two holds the result. `before(b, a)`: the later entry b must come before a.
template <typename Entry, typename Before>
// Bottom up, so that a stable sort needs no stack and every round is a loop of independent merges,
// which can be shared out. Ties take the earlier entry: stable.
Entry* merge_sort(Entry* from, Entry* to, std::int64_t count, bool parallel, Before before) {
  for (std::int64_t width = 1; width < count; width *= 2) {
    const std::int64_t pairs = (count + 2 * width - 1) / (2 * width);
    const auto merge = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) {
        const std::int64_t low = pair * 2 * width;
        const std::int64_t middle = std::min(low + width, count);
        const std::int64_t high = std::min(low + 2 * width, count);
        std::int64_t a = low, b = middle;
        for (std::int64_t out = low; out < high; ++out) {
          const bool second = a == middle || (b < high && before(from[b], from[a]));
          to[out] = second ? from[b++] : from[a++];
        }
      }
    };
    if (parallel) {
      device::parallel_for(pairs, std::max<std::int64_t>(1, 8192 / width), merge);
    } else {
      merge(0, pairs);
    }
    std::swap(from, to);
  }
  return from;
}

class Sort final : public KernelBase {
 public:
  // By `program`, or where it is one of these, by a comparison of elements or of keys.
  Sort(const ir::Instruction& instruction, std::optional<PlainComparison> plain,
       std::optional<KeyComparison> keyed, ScalarProgram program)
      : KernelBase("sort", device::KernelOrigin::own),
        plain_(plain),
        keyed_(std::move(keyed)),
        program_(std::move(program)) {
    if (keyed_.has_value()) plain_ = keyed_->comparison;
    const ir::Dims& dims = instruction.operand(0)->shape().dims();
    const int along = static_cast<int>(instruction.attributes().dimensions[0]);
    length_ = dims[along];
    stride_ = ir::row_major_strides(dims)[along];
    const std::int64_t count = instruction.operand(0)->shape().element_count();
    lines_ = length_ == 0 ? 0 : count / length_;
    for (int i = 0; i < instruction.operand_count(); ++i)
      dtypes_.push_back(instruction.operand(i)->shape().dtype());
    slots_ = std::clamp<std::int64_t>(count / 4096, 1,
                                      std::min(kMaxSlots, std::max<std::int64_t>(lines_, 1)));
    std::int64_t entry = sizeof(std::int32_t);
    if (plain_.has_value()) {
      key_dtype_ = keyed_.has_value() ? keyed_->key.results()[0] : dtypes_[plain_->key];
      entry = dtype_bytes(key_dtype_) == 8 ? 16 : 8;
    }
    keys_ = aligned_bytes(2 * length_ * entry);
    slot_bytes_ =
        keys_ + (keyed_.has_value() ? aligned_bytes(length_ * dtype_bytes(key_dtype_)) : 0);
    memory_ = reserve_workspace(slot_bytes_ * slots_);
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) {
        void* memory = byte_offset(arguments.workspace, memory_ + slot * slot_bytes_);
        const std::int64_t first = lines_ * slot / slots_, last = lines_ * (slot + 1) / slots_;
        if (plain_.has_value()) {
          sort_by_key(first, last, memory, arguments);
        } else {
          sort_by_program(first, last, memory, arguments);
        }
      }
    });
    return ok_status();
  }

 private:
  std::int64_t line_base(std::int64_t line) const {
    return line / stride_ * stride_ * length_ + line % stride_;
  }

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
        compute_keys(line_base(line), arguments, evaluator, keys);
        sort(keys - line_base(line), 1, line, line + 1);
      }
    });
  }

  // Of the line that begins at `base`.
  template <typename T>
  void compute_keys(std::int64_t base, const device::KernelArguments& arguments,
                    ScalarProgram::Evaluator& evaluator, T* keys) const {
    const auto bytes = static_cast<std::size_t>(dtype_bytes(dtypes_[plain_->key]));
    const auto* const from = static_cast<const std::byte*>(arguments.inputs[plain_->key]);
    for (std::int64_t i = 0; i < length_; i += ScalarProgram::kLanes) {
      const std::int64_t count = std::min(ScalarProgram::kLanes, length_ - i);
      for (std::int64_t k = 0; k < count; ++k) {
        std::memcpy(evaluator.parameter(0) + static_cast<std::size_t>(k) * bytes,
                    from + static_cast<std::size_t>(base + (i + k) * stride_) * bytes, bytes);
      }
      evaluator.run(count);
      std::memcpy(keys + i, evaluator.result(0), static_cast<std::size_t>(count) * sizeof(T));
    }
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

  template <typename At>
  void write_line(std::int64_t base, const device::KernelArguments& arguments, const At& at) const {
    for (std::size_t o = 0; o < dtypes_.size(); ++o) {
      const auto move = [&](auto zero) {
        using U = decltype(zero);
        const U* from = static_cast<const U*>(arguments.inputs[o]) + base;
        U* to = static_cast<U*>(arguments.outputs[o]) + base;
        for (std::int64_t i = 0; i < length_; ++i) to[i * stride_] = from[at(i) * stride_];
      };
      const int bytes = dtype_bytes(dtypes_[o]);
      if (bytes == 1) move(std::uint8_t{});
      if (bytes == 2) move(std::uint16_t{});
      if (bytes == 4) move(std::uint32_t{});
      if (bytes == 8) move(std::uint64_t{});
    }
  }

  std::optional<PlainComparison> plain_;  // of elements, or of their keys
  std::optional<KeyComparison> keyed_;
  ScalarProgram program_;
  std::vector<ir::DType> dtypes_;
  ir::DType key_dtype_ = ir::DType::s32;
  std::int64_t keys_ = 0;  // where a slot has its line's keys
  std::int64_t length_ = 0, stride_ = 1, lines_ = 0, slots_ = 1, slot_bytes_ = 0, memory_ = 0;
};

}  // namespace

KernelResult make_sort(const ir::Instruction& instruction) {
  const ir::Dims& dims = instruction.operand(0)->shape().dims();
  const std::int64_t length = dims[static_cast<int>(instruction.attributes().dimensions[0])];
  if (length > std::numeric_limits<std::int32_t>::max()) {
    return unimplemented(fmt::format("sort {}: dimension of {} (2147483647 is the most)",
                                     instruction.name(), length));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram program,
                            ScalarProgram::compile(*instruction.to_apply(), false));
  const std::optional<PlainComparison> plain = recognize_comparison(*instruction.to_apply());
  std::optional<KeyComparison> keyed;
  if (!plain.has_value()) keyed = recognize_key_comparison(*instruction.to_apply());
  return KernelResult(
      std::make_shared<Sort>(instruction, plain, std::move(keyed), std::move(program)));
}

}  // namespace plimsoll::kernels
