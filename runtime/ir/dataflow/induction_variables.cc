// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/induction_variables.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/views.h"

namespace plimsoll::ir {
namespace {

constexpr int kMostCounterVisits = 4'096;       // while a program is made
constexpr std::int64_t kMostSteps = 8'000'000;  // while it runs
constexpr std::int64_t kMostRounds = 1'000'000;

// A value that was put into its dtype, as two's complement does.
std::int64_t wrapped(std::int64_t value, DType dtype) {
  if (dtype == DType::pred) return value != 0;
  const int bits = 8 * dtype_bytes(dtype);
  if (bits == 64) return value;
  const auto mask = (std::uint64_t{1} << bits) - 1;
  auto low = static_cast<std::uint64_t>(value) & mask;
  const bool is_signed = dtype_class(dtype) == DTypeClass::signed_int;
  if (is_signed && (low >> (bits - 1)) != 0) low |= ~mask;
  return static_cast<std::int64_t>(low);
}

// 64-bit unsigned integers would need comparisons and divisions of their own.
bool is_counter(const Shape& shape) {
  return shape.is_array() && shape.element_count() == 1 && shape.dtype() != DType::u64 &&
         !is_floating(shape.dtype());
}

struct Node {
  Opcode opcode = Opcode::constant;
  DType dtype = DType::s32;
  ComparisonDirection direction = ComparisonDirection::eq;
  int a = -1, b = -1, c = -1;
  std::int64_t value = 0;  // constant; parameter: the counter's number
};

// A fusion or call that was entered on the way to an instruction.
struct Frame {
  const Instruction* caller = nullptr;
  const Frame* outer = nullptr;
};

// Straight-line code on scalars. Reads of the state become counters, by leaf, where `state` is
// allowed.
//
// Example: a scan's body updates stack[i] and returns i + 1, its condition is i < n, and n is a
// constant behind three tuples. What the index is in each round is found by running just the
// scalars it depends on: nodes for i (a counter), the constant, the add and the compare; from the
// counter's initial value, round by round, until the condition says no. Interpreting the program
// beats matching patterns of it: i may count down, by twos, or through a select, and the code here
// need not know.
//
// Node numbers rise with dependence, so that running is one pass over an array. Everything is
// worked out in 64 bits and wrapped to the node's dtype after each step, as the machine does.
class Scalars {
 public:
  explicit Scalars(bool state) : state_(state) {}

  // The node that computes leaf `leaf` of `value`; -1: there is none.
  int add(const Instruction& value, int leaf, const Frame* frame) {
    if (++visits_ > kMostCounterVisits) return -1;
    const auto key = std::tuple(&value, leaf, frame);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const int node = make(value, leaf, frame);
    known_.emplace(key, node);
    return node;
  }

  const Frame* enter(const Instruction& caller, const Frame* outer) {
    return &frames_.emplace_back(Frame{&caller, outer});
  }

  int counter(int leaf) {
    const auto [it, inserted] = counters_.emplace(leaf, static_cast<int>(leaves_.size()));
    if (inserted) leaves_.push_back(leaf);
    return it->second;
  }

  const std::vector<int>& leaves() const { return leaves_; }  // per counter
  std::int64_t size() const { return static_cast<std::int64_t>(nodes_.size()); }
  std::int64_t result(int node) const { return results_[at(node)]; }

  // False when something has no defined value.
  bool run(std::span<const std::int64_t> counters) {
    results_.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto value = compute(nodes_[i], counters);
      if (!value) return false;
      results_[i] = wrapped(*value, nodes_[i].dtype);
    }
    return true;
  }

 private:
  int push(Node node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  int make(const Instruction& value, int leaf, const Frame* frame) {
    switch (value.opcode()) {
      case Opcode::parameter:
        if (frame != nullptr) {
          const auto number = static_cast<int>(value.attributes().parameter_number);
          return add(*frame->caller->operand(number), leaf, frame->outer);
        }
        return state_ ? add_counter(value, leaf) : -1;
      case Opcode::get_tuple_element:
        return add(*value.operand(0),
                   leaf + leaf_offset(value.operand(0)->shape(),
                                      static_cast<int>(value.attributes().tuple_index)),
                   frame);
      case Opcode::tuple: {
        int k = 0;
        while (leaf >= leaf_count(value.operand(k)->shape())) {
          leaf -= leaf_count(value.operand(k)->shape());
          ++k;
        }
        return add(*value.operand(k), leaf, frame);
      }
      case Opcode::fusion:
      case Opcode::call:
        return add(*value.to_apply()->root(), leaf, enter(value, frame));
      case Opcode::while_:
        return passes_through(value, leaf) ? add(*value.operand(0), leaf, frame) : -1;
      case Opcode::opt_barrier:
      case Opcode::domain:
        return add(*value.operand(0), leaf, frame);
      default:
        return is_counter(value.shape()) ? add_operation(value, frame) : -1;
    }
  }

  int add_counter(const Instruction& parameter, int leaf) {
    const Shape& shape = *ir::leaves(parameter.shape())[at(leaf)];
    if (!is_counter(shape)) return -1;
    Node node;
    node.opcode = Opcode::parameter;
    node.dtype = shape.dtype();
    node.value = counter(leaf);
    return push(node);
  }

  int add_operation(const Instruction& value, const Frame* frame) {
    Node node;
    node.opcode = value.opcode();
    node.dtype = value.shape().dtype();
    switch (value.opcode()) {
      case Opcode::constant: {
        const Literal* literal = value.attributes().literal.get();
        if (literal == nullptr || literal->is_elided()) return -1;
        const double number = literal->at(0);
        // at() rounds 64-bit integers that are larger.
        if (std::fabs(number) > 0x1p53) return -1;
        node.value = static_cast<std::int64_t>(number);
        return push(node);
      }
      case Opcode::bitcast:
        if (value.operand(0)->shape().dtype() != node.dtype) return -1;
        return add(*value.operand(0), 0, frame);
      case Opcode::reshape:
      case Opcode::copy:
      case Opcode::broadcast:
      case Opcode::transpose:
        return is_counter(value.operand(0)->shape()) ? add(*value.operand(0), 0, frame) : -1;
      case Opcode::compare:
        node.direction = value.attributes().comparison_direction;
        break;
      case Opcode::add:
      case Opcode::subtract:
      case Opcode::multiply:
      case Opcode::divide:
      case Opcode::remainder:
      case Opcode::maximum:
      case Opcode::minimum:
      case Opcode::and_:
      case Opcode::or_:
      case Opcode::xor_:
      case Opcode::not_:
      case Opcode::negate:
      case Opcode::convert:
      case Opcode::select:
      case Opcode::clamp:
        break;
      default:
        return -1;
    }
    int* const operands[] = {&node.a, &node.b, &node.c};
    for (int i = 0; i < value.operand_count(); ++i) {
      if (!is_counter(value.operand(i)->shape())) return -1;
      *operands[i] = add(*value.operand(i), 0, frame);
      if (*operands[i] < 0) return -1;
    }
    return push(node);
  }

  std::optional<std::int64_t> compute(const Node& node,
                                      std::span<const std::int64_t> counters) const {
    const auto of = [&](int operand) { return operand < 0 ? 0 : results_[at(operand)]; };
    const std::int64_t a = of(node.a), b = of(node.b), c = of(node.c);
    const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
    switch (node.opcode) {
      case Opcode::constant:
        return node.value;
      case Opcode::parameter:
        return counters[at(node.value)];
      case Opcode::compare:
        return holds(node.direction, a, b);
      case Opcode::add:
        return static_cast<std::int64_t>(ua + ub);
      case Opcode::subtract:
        return static_cast<std::int64_t>(ua - ub);
      case Opcode::multiply:
        return static_cast<std::int64_t>(ua * ub);
      case Opcode::divide:
      case Opcode::remainder:
        // What divisions by zero and of the least integer give is not relied on.
        if (b == 0 || b == -1) return std::nullopt;
        return node.opcode == Opcode::divide ? a / b : a % b;
      case Opcode::maximum:
        return std::max(a, b);
      case Opcode::minimum:
        return std::min(a, b);
      case Opcode::and_:
        return a & b;
      case Opcode::or_:
        return a | b;
      case Opcode::xor_:
        return a ^ b;
      case Opcode::not_:
        return node.dtype == DType::pred ? a == 0 : ~a;
      case Opcode::negate:
        return static_cast<std::int64_t>(0 - ua);
      case Opcode::convert:
        return a;
      case Opcode::select:
        return a != 0 ? b : c;
      case Opcode::clamp:
        return std::min(std::max(b, a), c);
      default:
        return std::nullopt;
    }
  }

  const bool state_;
  int visits_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::int64_t> results_;
  std::deque<Frame> frames_;
  std::map<std::tuple<const Instruction*, int, const Frame*>, int> known_;
  std::map<int, int> counters_;
  std::vector<int> leaves_;
};

// In front of the loop nothing but constants will do.
std::optional<std::int64_t> initial_value(const Instruction& loop, int leaf) {
  Scalars scalars(/*state=*/false);
  const int node = scalars.add(*loop.operand(0), leaf, nullptr);
  if (node < 0 || !scalars.run({})) return std::nullopt;
  return scalars.result(node);
}

// Runs the rounds of `loop`, whose condition and body see the same counters, as the condition is
// looked at before the round: node `test` says whether there is another one, and `take` is told of
// each. False where something is not known.
template <typename Take>
bool run_rounds(const Instruction& loop, Scalars& scalars, int test, Take take) {
  std::vector<std::int64_t> counters;
  std::vector<int> next;
  for (std::size_t k = 0; k < scalars.leaves().size(); ++k) {
    const int leaf = scalars.leaves()[k];
    const auto initial = initial_value(loop, leaf);
    // May add counters.
    const int node = scalars.add(*loop.while_body()->root(), leaf, nullptr);
    if (!initial || node < 0) return false;
    counters.push_back(*initial);
    next.push_back(node);
  }
  std::int64_t steps = 0;
  for (std::int64_t round = 0; round <= kMostRounds; ++round) {
    steps += scalars.size();
    if (steps > kMostSteps || !scalars.run(counters)) return false;
    if (scalars.result(test) == 0) return true;
    take();
    for (std::size_t k = 0; k < next.size(); ++k) counters[k] = scalars.result(next[k]);
  }
  return false;
}

}  // namespace

std::optional<std::vector<std::int64_t>> scalar_by_round(
    const Instruction& loop, const Instruction& scalar,
    std::span<const Instruction* const> fusions) {
  Scalars scalars(/*state=*/true);
  const int test = scalars.add(*loop.while_condition()->root(), 0, nullptr);
  const Frame* frame = nullptr;
  for (const Instruction* fusion : fusions) frame = scalars.enter(*fusion, frame);
  const int wanted = is_counter(scalar.shape()) ? scalars.add(scalar, 0, frame) : -1;
  if (test < 0 || wanted < 0) return std::nullopt;
  std::vector<std::int64_t> values;
  if (!run_rounds(loop, scalars, test, [&] { values.push_back(scalars.result(wanted)); })) {
    return std::nullopt;
  }
  return values;
}

std::optional<std::int64_t> round_count(const Instruction& loop) {
  for (const auto& instruction : loop.while_condition()->instructions()) {
    if (instruction->has_side_effect()) return std::nullopt;
  }
  Scalars scalars(/*state=*/true);
  const int test = scalars.add(*loop.while_condition()->root(), 0, nullptr);
  if (test < 0) return std::nullopt;
  std::int64_t rounds = 0;
  if (!run_rounds(loop, scalars, test, [&] { ++rounds; })) return std::nullopt;
  return rounds;
}

}  // namespace plimsoll::ir
