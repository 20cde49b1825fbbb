// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/facts/value_ranges.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/base/float16.h"
#include "runtime/base/index.h"
#include "runtime/ir/dataflow/scan_residuals.h"
#include "runtime/ir/dataflow/views.h"

// Interval analysis of elements. A fact must hold for every element in every run, bit for bit,
// since a codec is chosen by it that keeps nothing else. Three traps decide the rules:
// - Negative zero. A codec that stores 0 gives +0 back. So `integral` means "not a negative zero":
//   negating [0, 5] in floats proves nothing, negating [1, 5] proves [-5, -1]; a product of floats
//   proves nothing as soon as one side may be negative, since 0 * -1 is -0.
// - NaNs. A NaN has a payload, which minimum, maximum and reduce_precision pass on. Integers lack
//   NaNs, so that a fact about integers survives them; "fits bf16" survives what only picks or
//   moves elements.
// - Rounding. Sums and products of integers are exact as long as the result's dtype holds all
//   integers of the range: in f32 up to 2^24. Beyond, only what the dtype itself says is left.
//
// Example: a one-hot mask as f32, convert(compare(iota, labels)), is in [0, 1], so that it is kept
// in 8 bits an element, a quarter; its sum over 1,000 classes is proved by no rule here, since
// reductions other than minima and maxima may round.

namespace plimsoll::planner {
namespace {

using ir::DType;
using ir::Instruction;
using ir::Opcode;

constexpr int kMostRangeVisits = 256;
constexpr int kMostElements = 4096;  // of a constant that is looked through

struct Range {
  std::int64_t low, high;
};

// The integers that a dtype holds exactly, without gaps; nothing for 64-bit integers, whose limits
// say too little.
std::optional<Range> exact_integers(DType dtype) {
  switch (dtype) {
    case DType::pred:
      return Range{0, 1};
    case DType::bf16:
      return Range{-256, 256};
    case DType::f16:
      return Range{-2048, 2048};
    case DType::f32:
      return Range{-(1 << 24), 1 << 24};
    case DType::f64:
      return Range{-(std::int64_t{1} << 53), std::int64_t{1} << 53};
    case DType::s64:
    case DType::u64:
      return Range{dtype == DType::u64 ? 0 : -(std::int64_t{1} << 62), std::int64_t{1} << 62};
    default: {
      const int bits = ir::dtype_bytes(dtype) * 8;
      if (ir::dtype_class(dtype) == ir::DTypeClass::unsigned_int) {
        return Range{0, (std::int64_t{1} << bits) - 1};
      }
      return Range{-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
    }
  }
}

bool within(const ValueFacts& facts, DType dtype) {
  const auto range = exact_integers(dtype);
  return facts.integral && range && facts.low >= range->low && facts.high <= range->high;
}

ValueFacts integers(std::int64_t low, std::int64_t high) {
  ValueFacts facts;
  facts.integral = true;
  facts.low = low;
  facts.high = high;
  return facts;
}

// What the dtype alone says.
ValueFacts of_dtype(DType dtype) {
  ValueFacts facts;
  facts.bf16 = dtype == DType::bf16;
  facts.f16 = dtype == DType::f16;
  if (ir::is_floating(dtype) || ir::dtype_bytes(dtype) == 8) return facts;
  const auto range = exact_integers(dtype);
  return integers(range->low, range->high);
}

// Integers that a smaller float holds are representable there, too.
ValueFacts completed(ValueFacts facts) {
  facts.bf16 = facts.bf16 || within(facts, DType::bf16);
  facts.f16 = facts.f16 || within(facts, DType::f16);
  return facts;
}

ValueFacts either(const ValueFacts& a, const ValueFacts& b) {
  ValueFacts facts;
  facts.integral = a.integral && b.integral;
  facts.low = std::min(a.low, b.low);
  facts.high = std::max(a.high, b.high);
  facts.bf16 = a.bf16 && b.bf16;
  facts.f16 = a.f16 && b.f16;
  return facts;
}

bool in_bf16(double value) {
  const auto single = static_cast<float>(value);
  return static_cast<double>(single) == value &&
         (std::bit_cast<std::uint32_t>(single) & 0xffffu) == 0;
}

bool in_f16(double value) {
  return static_cast<double>(static_cast<float>(Float16(static_cast<float>(value)))) == value;
}

using Known = std::map<std::pair<const Instruction*, int>, ValueFacts>;

class Look {
 public:
  explicit Look(Known& known) : known_(known) {}

  ValueFacts find(const Instruction& instruction, int leaf) {
    const bool outside = callers_.empty();
    if (outside) {
      const auto found = known_.find({&instruction, leaf});
      if (found != known_.end()) return found->second;
    }
    if (++visits_ > kMostRangeVisits) return fallback(instruction, leaf);
    const ValueFacts facts = completed(look(instruction, leaf));
    if (outside) known_.emplace(std::pair(&instruction, leaf), facts);
    return facts;
  }

 private:
  static const ir::Shape& leaf_shape(const Instruction& instruction, int leaf) {
    return *ir::leaves(instruction.shape())[at(leaf)];
  }

  static ValueFacts fallback(const Instruction& instruction, int leaf) {
    const ir::Shape& shape = leaf_shape(instruction, leaf);
    return shape.is_array() ? of_dtype(shape.dtype()) : ValueFacts{};
  }

  ValueFacts operand(const Instruction& instruction, int i) {
    return find(*instruction.operand(i), 0);
  }

  // Facts that hold in the instruction's own dtype, else what that says.
  ValueFacts checked(const Instruction& instruction, const ValueFacts& facts) {
    const DType dtype = instruction.shape().dtype();
    return within(facts, dtype) ? facts : of_dtype(dtype);
  }

  ValueFacts look(const Instruction& instruction, int leaf) {
    switch (instruction.opcode()) {
      case Opcode::parameter:
        return look_at_parameter(instruction, leaf);
      case Opcode::constant:
        return instruction.shape().is_array() ? look_at_constant(instruction)
                                              : fallback(instruction, leaf);
      case Opcode::iota:
        return look_at_iota(instruction);
      case Opcode::tuple:
        return look_at_tuple(instruction, leaf);
      case Opcode::get_tuple_element: {
        const Instruction& tuple = *instruction.operand(0);
        return find(tuple,
                    leaf + ir::leaf_offset(tuple.shape(),
                                           static_cast<int>(instruction.attributes().tuple_index)));
      }
      case Opcode::fusion:
      case Opcode::call: {
        callers_.push_back(&instruction);
        const ValueFacts facts = find(*instruction.to_apply()->root(), leaf);
        callers_.pop_back();
        return facts;
      }
      case Opcode::while_:
        return look_at_loop(instruction, leaf);
      case Opcode::opt_barrier:
      case Opcode::domain:
        return find(*instruction.operand(0), leaf);
      case Opcode::sort:
        return operand(instruction, leaf);
      case Opcode::topk:
        return leaf == 0 ? operand(instruction, 0) : fallback(instruction, leaf);
      case Opcode::reduce:
      case Opcode::reduce_window:
        return look_at_reduction(instruction, leaf);
      default:
        return instruction.shape().is_array() ? look_at_array(instruction)
                                              : fallback(instruction, leaf);
    }
  }

  ValueFacts look_at_array(const Instruction& instruction) {
    const DType dtype = instruction.shape().dtype();
    switch (instruction.opcode()) {
      case Opcode::bitcast:
        if (instruction.operand(0)->shape().dtype() != dtype) return of_dtype(dtype);
        return operand(instruction, 0);
      case Opcode::broadcast:
      case Opcode::reshape:
      case Opcode::transpose:
      case Opcode::copy:
      case Opcode::slice:
      case Opcode::dynamic_slice:
      case Opcode::reverse:
      case Opcode::gather:
        return operand(instruction, 0);
      case Opcode::dynamic_update_slice:
      case Opcode::pad:
        return either(operand(instruction, 0), operand(instruction, 1));
      case Opcode::concatenate: {
        ValueFacts facts = operand(instruction, 0);
        for (int i = 1; i < instruction.operand_count(); ++i) {
          facts = either(facts, operand(instruction, i));
        }
        return facts;
      }
      case Opcode::select:
        return either(operand(instruction, 1), operand(instruction, 2));
      case Opcode::convert:
        return look_at_convert(instruction);
      case Opcode::reduce_precision: {
        // What the numbers become would fit, but a NaN comes through with its bits.
        ValueFacts facts = operand(instruction, 0);
        facts.integral = false;
        return facts;
      }
      case Opcode::sign: {
        if (!ir::is_floating(dtype)) return integers(-1, 1);
        // A NaN comes through with its bits.
        ValueFacts facts;
        const ValueFacts from = operand(instruction, 0);
        facts.bf16 = from.bf16;
        facts.f16 = from.f16;
        return facts;
      }
      case Opcode::popcnt:
      case Opcode::count_leading_zeros:
        return integers(0, 8 * ir::dtype_bytes(dtype));
      default:
        break;
    }
    return ir::is_floating(dtype) ? look_at_floats(instruction) : look_at_integers(instruction);
  }

  ValueFacts look_at_floats(const Instruction& instruction) {
    const DType dtype = instruction.shape().dtype();
    switch (instruction.opcode()) {
      case Opcode::negate: {
        ValueFacts facts = operand(instruction, 0);
        // The opposite of zero is a negative zero.
        facts.integral = facts.integral && (facts.low > 0 || facts.high < 0);
        std::swap(facts.low, facts.high);
        facts.low = -facts.low;
        facts.high = -facts.high;
        return facts;
      }
      case Opcode::abs: {
        ValueFacts facts = operand(instruction, 0);
        const std::int64_t most = std::max(std::abs(facts.low), std::abs(facts.high));
        facts.low = facts.low > 0 ? facts.low : facts.high < 0 ? -facts.high : 0;
        facts.high = most;
        return facts;
      }
      case Opcode::maximum:
      case Opcode::minimum:
        return extreme(instruction);
      case Opcode::clamp: {
        ValueFacts facts = either(operand(instruction, 1),
                                  either(operand(instruction, 0), operand(instruction, 2)));
        return facts;
      }
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::multiply: {
        const ValueFacts facts = arithmetic(instruction);
        return within(facts, dtype) ? facts : of_dtype(dtype);
      }
      default:
        return of_dtype(dtype);
    }
  }

  ValueFacts look_at_integers(const Instruction& instruction) {
    const DType dtype = instruction.shape().dtype();
    if (dtype == DType::pred) return of_dtype(dtype);
    switch (instruction.opcode()) {
      case Opcode::abs:
      case Opcode::negate: {
        const ValueFacts a = operand(instruction, 0);
        if (!a.integral) return of_dtype(dtype);
        const bool negate = instruction.opcode() == Opcode::negate;
        const std::int64_t most = std::max(std::abs(a.low), std::abs(a.high));
        return checked(instruction, negate ? integers(-a.high, -a.low) : integers(0, most));
      }
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::multiply:
        return checked(instruction, arithmetic(instruction));
      case Opcode::maximum:
      case Opcode::minimum:
        return checked(instruction, extreme(instruction));
      case Opcode::clamp: {
        const ValueFacts low = operand(instruction, 0), high = operand(instruction, 2);
        if (!low.integral || !high.integral) return of_dtype(dtype);
        return checked(instruction, integers(std::min(low.low, high.low), high.high));
      }
      case Opcode::and_: {
        const ValueFacts a = operand(instruction, 0), b = operand(instruction, 1);
        const bool a_bounds = a.integral && a.low >= 0, b_bounds = b.integral && b.low >= 0;
        if (!a_bounds && !b_bounds) return of_dtype(dtype);
        return integers(0, a_bounds && b_bounds ? std::min(a.high, b.high)
                           : a_bounds           ? a.high
                                                : b.high);
      }
      case Opcode::shift_right_logical: {
        const ValueFacts a = operand(instruction, 0), by = operand(instruction, 1);
        if (!a.integral || a.low < 0 || !by.integral || by.low < 0) return of_dtype(dtype);
        return integers(0, a.high >> std::min<std::int64_t>(by.low, 63));
      }
      case Opcode::remainder:
      case Opcode::divide: {
        const ValueFacts a = operand(instruction, 0), by = operand(instruction, 1);
        if (!a.integral || !by.integral || by.low <= 0) return of_dtype(dtype);
        if (instruction.opcode() == Opcode::divide) {
          return integers(std::min(a.low, a.low / by.low), std::max(a.high, a.high / by.low));
        }
        return integers(a.low >= 0 ? 0 : std::max(a.low, 1 - by.high),
                        a.high <= 0 ? 0 : std::min(a.high, by.high - 1));
      }
      default:
        return of_dtype(dtype);
    }
  }

  // Minimum and maximum give one of their operands; so do unknown NaNs.
  //
  // Of a in [1, 5] and b in [3, 9], maximum(a, b) is in [3, 9], minimum(a, b) in [1, 5].
  ValueFacts extreme(const Instruction& instruction) {
    const ValueFacts a = operand(instruction, 0), b = operand(instruction, 1);
    ValueFacts facts = either(a, b);
    if (!facts.integral) {
      // Integers lack NaNs: one side bounds the result.
      return facts;
    }
    if (instruction.opcode() == Opcode::maximum) {
      facts.low = std::max(a.low, b.low);
    } else {
      facts.high = std::min(a.high, b.high);
    }
    return facts;
  }

  // The sides are bounded by 2^30, so that no sum or product overflows the 64 bits it is worked out
  // in.
  ValueFacts arithmetic(const Instruction& instruction) {
    const ValueFacts a = operand(instruction, 0), b = operand(instruction, 1);
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    const auto small = [](const ValueFacts& f) {
      return f.integral && f.low >= -kMost && f.high <= kMost;
    };
    if (!small(a) || !small(b)) return {};
    switch (instruction.opcode()) {
      case Opcode::add:
        return integers(a.low + b.low, a.high + b.high);
      case Opcode::subtract:
        return integers(a.low - b.high, a.high - b.low);
      default:
        break;
    }
    // Zero times a negative number is a negative zero.
    if (ir::is_floating(instruction.shape().dtype()) && (a.low < 0 || b.low < 0)) return {};
    const auto [low, high] =
        std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
    return integers(low, high);
  }

  ValueFacts look_at_convert(const Instruction& instruction) {
    const DType from = instruction.operand(0)->shape().dtype(), to = instruction.shape().dtype();
    const ValueFacts facts = operand(instruction, 0);
    ValueFacts result = of_dtype(to);
    if (within(facts, to)) {
      result.integral = true;
      result.low = facts.low;
      result.high = facts.high;
    }
    if (ir::is_floating(from) && ir::is_floating(to)) {
      // What a smaller float holds comes through any conversion that rounds to nearest.
      const bool widens = ir::dtype_bytes(to) > ir::dtype_bytes(from) || to == from;
      if (widens || to == DType::f32) {
        result.bf16 = result.bf16 || facts.bf16;
        result.f16 = result.f16 || facts.f16;
      }
    }
    return result;
  }

  ValueFacts look_at_parameter(const Instruction& parameter, int leaf) {
    if (callers_.empty() || callers_.back()->to_apply() != parameter.parent()) {
      return fallback(parameter, leaf);
    }
    const Instruction* caller = callers_.back();
    callers_.pop_back();
    const ValueFacts facts =
        find(*caller->operand(static_cast<int>(parameter.attributes().parameter_number)), leaf);
    callers_.push_back(caller);
    return facts;
  }

  // What a loop leaves alone is what it was; a residual is made of the slices that are put there.
  //
  // A stacked scan residual is written slice by slice, every slice once, so that what holds for the
  // slices holds for the whole, whatever it was before the loop.
  ValueFacts look_at_loop(const Instruction& loop, int leaf) {
    if (passes_through(loop, leaf)) return find(*loop.operand(0), leaf);
    const auto access = find_residual_access(loop, leaf);
    if (!access || !access->writes) return fallback(loop, leaf);
    const Instruction& update = *access->by.front();
    if (update.opcode() != Opcode::fusion) return operand(update, 1);
    callers_.push_back(&update);
    const ValueFacts facts = operand(*update.to_apply()->root(), 1);
    callers_.pop_back();
    return facts;
  }

  // Large constants are looked at only where one element stands for all.
  static ValueFacts look_at_constant(const Instruction& constant) {
    const ir::Literal& literal = *constant.attributes().literal;
    const DType dtype = constant.shape().dtype();
    std::int64_t count = constant.shape().element_count();
    if (literal.is_elided() || count == 0) return of_dtype(dtype);
    if (count > kMostElements) {
      if (!literal.is_splat()) return of_dtype(dtype);
      count = 1;
    }
    ValueFacts facts;
    facts.integral = facts.bf16 = facts.f16 = true;
    const bool floats = ir::is_floating(dtype);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = literal.at(i);
      if (!std::isfinite(value)) {
        facts.integral = false;
        // A NaN may have a payload.
        facts.bf16 = facts.bf16 && std::isinf(value);
        facts.f16 = facts.f16 && std::isinf(value);
        continue;
      }
      constexpr double kMost = 9007199254740992.0;
      if (std::abs(value) >= kMost || value != std::floor(value) ||
          (value == 0 && std::signbit(value))) {
        facts.integral = false;
      } else {
        const auto number = static_cast<std::int64_t>(value);
        facts.low = i == 0 ? number : std::min(facts.low, number);
        facts.high = i == 0 ? number : std::max(facts.high, number);
      }
      facts.bf16 = facts.bf16 && floats && in_bf16(value);
      facts.f16 = facts.f16 && floats && in_f16(value);
    }
    if (!facts.integral) facts.low = facts.high = 0;
    if (!floats && !facts.integral) return of_dtype(dtype);
    return facts;
  }

  ValueFacts look_at_iota(const Instruction& iota) {
    const ir::Shape& shape = iota.shape();
    const auto& dimensions = iota.attributes().dimensions;
    const int dimension = dimensions.empty() ? 0 : static_cast<int>(dimensions[0]);
    if (shape.rank() == 0) return of_dtype(shape.dtype());
    return checked(iota, integers(0, std::max<std::int64_t>(0, shape.dim(dimension) - 1)));
  }

  ValueFacts look_at_tuple(const Instruction& tuple, int leaf) {
    for (const Instruction* element : tuple.operands()) {
      const int count = ir::leaf_count(element->shape());
      if (leaf < count) return find(*element, leaf);
      leaf -= count;
    }
    return {};
  }

  // A reduction whose combiner picks one of its inputs gives elements of the operand or the initial
  // value: minima, maxima, and the indices that go with them.
  ValueFacts look_at_reduction(const Instruction& instruction, int leaf) {
    const int count = instruction.operand_count() / 2;
    const Instruction* root = instruction.to_apply()->root();
    if (root->opcode() == Opcode::tuple) root = root->operand(leaf);
    if (!picks(*root, leaf, count, 0)) return fallback(instruction, leaf);
    return either(operand(instruction, leaf), operand(instruction, leaf + count));
  }

  static bool picks(const Instruction& value, int leaf, int count, int depth) {
    if (depth > 8) return false;
    switch (value.opcode()) {
      case Opcode::parameter: {
        const auto number = value.attributes().parameter_number;
        return number == leaf || number == leaf + count;
      }
      case Opcode::select:
        return picks(*value.operand(1), leaf, count, depth + 1) &&
               picks(*value.operand(2), leaf, count, depth + 1);
      case Opcode::maximum:
      case Opcode::minimum:
        return picks(*value.operand(0), leaf, count, depth + 1) &&
               picks(*value.operand(1), leaf, count, depth + 1);
      default:
        return false;
    }
  }

  Known& known_;
  int visits_ = 0;
  std::vector<const Instruction*> callers_;
};

}  // namespace

ValueFacts FactFinder::find(const ir::Instruction& instruction, int leaf) {
  return Look(known_).find(instruction, leaf);
}

}  // namespace plimsoll::planner
