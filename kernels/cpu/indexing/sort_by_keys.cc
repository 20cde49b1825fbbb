// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/indexing/sort_by_keys.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cpu/indexing/line_sort.h"
#include "kernels/cpu/indexing/merge_sort.h"
#include "kernels/cpu/indexing/order_keys.h"
#include "kernels/cpu/indexing/radix_sort.h"
#include "kernels/cpu/scalar/key_comparison.h"
#include "runtime/ir/fusions/comparator.h"

namespace plimsoll::kernels {
namespace {

// What a line is sorted by: elements of an operand, or what `program` makes of them.
struct SortKey {
  std::size_t operand = 0;
  bool is_falling = false;
  ir::DType dtype = ir::DType::s32;
  bool is_canonical = false;  // by canonical() elements
  std::optional<ScalarProgram> program;
};

class SortByKeys final : public LineSort {
 public:
  SortByKeys(const ir::Instruction& instruction, std::vector<SortKey> keys)
      : LineSort(instruction), keys_(std::move(keys)) {
    std::int64_t entry = 8, computed = 0;
    for (const SortKey& key : keys_) {
      const std::int64_t bytes = ir::dtype_bytes(key.dtype);
      if (bytes == 8) entry = 16;
      if (key.program.has_value()) computed = std::max(computed, bytes);
    }
    half_ = aligned_bytes(length_ * entry);
    reserve_slots(2 * half_ + length_ * computed);
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    for_each_slot(arguments, [&](std::int64_t first, std::int64_t last, void* memory) {
      std::vector<std::optional<ScalarProgram::Evaluator>> evaluators(keys_.size());
      for (std::size_t k = 0; k < keys_.size(); ++k) {
        if (keys_[k].program.has_value()) evaluators[k].emplace(*keys_[k].program);
      }
      for (std::int64_t line = first; line < last; ++line) {
        sort_line(line_base(line), memory, arguments, evaluators);
      }
    });
    return ok_status();
  }

 private:
  void sort_line(std::int64_t base, void* memory, const device::KernelArguments& arguments,
                 std::vector<std::optional<ScalarProgram::Evaluator>>& evaluators) const {
    void* const computed = byte_offset(memory, 2 * half_);
    Places places;
    for (std::size_t k = keys_.size(); k-- > 0;) {
      const SortKey& key = keys_[k];
      const void* from = arguments.inputs[key.operand];
      std::int64_t start = base, stride = stride_;
      if (evaluators[k].has_value()) {
        compute_keys(*evaluators[k], from, dtypes_[key.operand], base, ir::dtype_bytes(key.dtype),
                     computed);
        from = computed;
        start = 0;
        stride = 1;
      }
      ir::visit_dtype(key.dtype, [&](auto zero) {
        const auto* const elements = static_cast<const decltype(zero)*>(from) + start;
        places = key.is_canonical
                     ? sort_by([&](std::int32_t i) { return canonical(elements[i * stride]); },
                               key.is_falling, places, memory)
                     : sort_by([&](std::int32_t i) { return elements[i * stride]; }, key.is_falling,
                               places, memory);
      });
    }
    write_line(base, arguments, [&](std::int64_t i) { return places.at(i); });
  }

  // The places of a line's elements as they are sorted so far: in entries of which half of the
  // memory; without entries, as the elements lie.
  struct Places {
    const void* entries = nullptr;
    bool is_wide = false;
    std::int64_t at(std::int64_t i) const {
      if (entries == nullptr) return i;
      return is_wide ? static_cast<const Keyed<std::uint64_t>*>(entries)[i].at
                     : static_cast<const Keyed<std::uint32_t>*>(entries)[i].at;
    }
  };

  template <typename ElementAt>
  Places sort_by(const ElementAt& element, bool is_falling, const Places& before,
                 void* memory) const {
    using Ordered = decltype(unsigned_key(total_order_key(element(0))));
    // Two sizes of entries are enough.
    using Key = std::conditional_t<sizeof(Ordered) == 8, std::uint64_t, std::uint32_t>;
    using Entry = Keyed<Key>;
    const Ordered flip = is_falling ? Ordered(~Ordered{0}) : Ordered{0};
    auto* from = static_cast<Entry*>(memory);
    auto* to = static_cast<Entry*>(static_cast<void*>(byte_offset(memory, half_)));
    if (before.entries == from) std::swap(from, to);
    for (std::int64_t i = 0; i < length_; ++i) {
      const auto place = static_cast<std::int32_t>(before.at(i));
      from[i] = {Ordered(unsigned_key(total_order_key(element(place))) ^ flip), place};
    }
    const bool is_parallel = lines_ == 1;
    const Entry* const sorted =
        length_ >= kFewestByRadix<Key>
            ? radix_sort(from, to, length_, is_parallel)
            : merge_sort(from, to, length_, is_parallel,
                         [](const Entry& b, const Entry& a) { return b.key < a.key; });
    return {sorted, sizeof(Key) == 8};
  }

  std::vector<SortKey> keys_;
  std::int64_t half_ = 0;
};

}  // namespace

std::shared_ptr<const device::Kernel> sort_by_keys(const ir::Instruction& instruction) {
  const auto comparisons = ir::comparisons_in_turn(*instruction.to_apply());
  if (comparisons.empty()) return nullptr;
  std::vector<SortKey> keys;
  for (const ir::PairComparison& comparison : comparisons) {
    SortKey key{comparison.key, comparison.direction == ir::ComparisonDirection::gt,
                comparison.of->shape().dtype(), false, std::nullopt};
    if (comparison.of->opcode() != ir::Opcode::parameter) {
      auto computed = key_comparison(comparison);
      if (!computed.has_value()) return nullptr;
      key.is_canonical = computed->is_canonical;
      if (!key.is_canonical) key.program = std::move(computed->key);
    }
    keys.push_back(std::move(key));
  }
  return std::make_shared<SortByKeys>(instruction, std::move(keys));
}

}  // namespace plimsoll::kernels
