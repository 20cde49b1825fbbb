// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::ComparisonDirection;
using ir::DType;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

// What the combiner makes of an old and a new element: the new one (nothing), or an operation on
// both. Null where it is neither.
struct Combination {
  bool is_simple = false;
  std::optional<Opcode> opcode;  // nothing: the new element
};

Combination combination_of(const ir::Computation& combiner) {
  const Instruction& root = *combiner.root();
  if (root.opcode() == Opcode::parameter) {
    return {root.attributes().parameter_number == 1, std::nullopt};
  }
  const bool is_of_both = ir::op_info(root.opcode()).op_class == ir::OpClass::binary &&
                          root.operand(0) == combiner.parameters()[0] &&
                          root.operand(1) == combiner.parameters()[1];
  const bool is_plain = root.opcode() == Opcode::add || root.opcode() == Opcode::multiply ||
                        root.opcode() == Opcode::maximum || root.opcode() == Opcode::minimum;
  return {is_of_both && is_plain, root.opcode()};
}

// The one window that a scatter writes.
struct Window {
  ir::Dims dims;
  std::vector<std::int64_t> last_starts;  // per index: the last one at which it lies inside
};

// Nothing where there are several windows, or it is no part of the operand in its order.
std::optional<Window> only_window(const Instruction& scatter) {
  const Instruction &operand = *scatter.operand(0), &indices = *scatter.operand(1),
                    &updates = *scatter.operand(2);
  const ir::ScatterDimensions& d = *scatter.attributes().scatter;
  const auto count = static_cast<std::int64_t>(d.scatter_dims_to_operand_dims.size());
  if (count == 0 || indices.shape().element_count() != count || !d.input_batching_dims.empty() ||
      !std::is_sorted(d.update_window_dims.begin(), d.update_window_dims.end())) {
    return std::nullopt;
  }
  std::vector<std::int64_t> dims;
  std::size_t next = 0;
  for (int i = 0; i < operand.shape().rank(); ++i) {
    const bool is_inserted = std::find(d.inserted_window_dims.begin(), d.inserted_window_dims.end(),
                                       i) != d.inserted_window_dims.end();
    dims.push_back(
        is_inserted ? 1 : updates.shape().dim(static_cast<int>(d.update_window_dims[next++])));
    if (dims.back() == 0 || dims.back() > operand.shape().dim(i)) return std::nullopt;
  }
  Window window{ir::Dims(dims), {}};
  for (const std::int64_t i : d.scatter_dims_to_operand_dims) {
    window.last_starts.push_back(operand.shape().dim(static_cast<int>(i)) - dims[at(i)]);
  }
  return window;
}

bool is_index(DType dtype) {
  return dtype == DType::s32 || dtype == DType::s64 || dtype == DType::u32 || dtype == DType::u64;
}

// Builds what replaces one.
class SingleWindow {
 public:
  SingleWindow(Rewriter& rewriter, const Instruction& scatter, Window window)
      : rewriter_(rewriter), scatter_(scatter), window_(std::move(window)) {}

  Instruction* write(std::optional<Opcode> combine) {
    take_indices();
    Instruction* const operand = scatter_.operand(0);
    const Shape shape(operand->shape().dtype(), window_.dims);
    std::vector<Instruction*> starts(at(operand->shape().rank()), number(0));
    const auto& to = scatter_.attributes().scatter->scatter_dims_to_operand_dims;
    for (std::size_t k = 0; k < to.size(); ++k) starts[at(to[k])] = indices_[k];
    std::vector<Instruction*> read{operand};
    read.insert(read.end(), starts.begin(), starts.end());
    Attributes sizes;
    sizes.slice_sizes.assign(window_.dims.begin(), window_.dims.end());
    Instruction* const old =
        rewriter_.add(Opcode::dynamic_slice, shape, std::move(read), std::move(sizes));
    Instruction* update = rewriter_.add(Opcode::reshape, shape, {scatter_.operand(2)});
    if (combine) update = rewriter_.add(*combine, shape, {old, update});
    update = rewriter_.add(Opcode::select, shape, {is_inside(), update, old});
    std::vector<Instruction*> operands{operand, update};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return rewriter_.add(Opcode::dynamic_update_slice, scatter_.shape(), std::move(operands));
  }

 private:
  Instruction* number(std::int64_t value) {
    Literal literal(Shape(scatter_.operand(1)->shape().dtype(), {}));
    literal.set(0, static_cast<double>(value));
    return rewriter_.add_constant(std::move(literal));
  }

  void take_indices() {
    Instruction* const given = scatter_.operand(1);
    const DType dtype = given->shape().dtype();
    const std::int64_t count = given->shape().element_count();
    Instruction* const line = rewriter_.add(Opcode::reshape, Shape(dtype, {count}), {given});
    for (std::int64_t k = 0; k < count; ++k) {
      Attributes part;
      part.slice_starts = {k};
      part.slice_limits = {k + 1};
      part.slice_strides = {1};
      Instruction* const one =
          rewriter_.add(Opcode::slice, Shape(dtype, {1}), {line}, std::move(part));
      indices_.push_back(rewriter_.add(Opcode::reshape, Shape(dtype, {}), {one}));
    }
  }

  Instruction* compare(Instruction* a, ComparisonDirection direction, std::int64_t b) {
    Attributes attributes;
    attributes.comparison_direction = direction;
    return rewriter_.add(Opcode::compare, Shape(DType::pred, {}), {a, number(b)},
                         std::move(attributes));
  }

  Instruction* is_inside() {
    Instruction* all = nullptr;
    const auto add = [&](Instruction* one) {
      all = all == nullptr ? one : rewriter_.add(Opcode::and_, one->shape(), {all, one});
    };
    for (std::size_t k = 0; k < indices_.size(); ++k) {
      add(compare(indices_[k], ComparisonDirection::ge, 0));
      add(compare(indices_[k], ComparisonDirection::le, window_.last_starts[k]));
    }
    return all;
  }

  Rewriter& rewriter_;
  const Instruction& scatter_;
  const Window window_;
  std::vector<Instruction*> indices_;
};

}  // namespace

// A scatter of one window is an update of that slice by what was there and the new elements, where
// the window lies inside, and by what was there, where it does not: a scatter leaves such a window
// out, an update moves it. As other kernels, it is fused with what makes the elements, and works in
// place.
//
// Example: y.at[i].set(0.5 * y[i - 1]) in a loop.
Instruction* simplify_scatter(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::scatter || at.operand_count() != 3 || !at.shape().is_array() ||
      at.attributes().scatter == nullptr || !is_index(at.operand(1)->shape().dtype()) ||
      !ir::is_row_major(at.operand(0)->shape()) || !ir::is_row_major(at.operand(2)->shape())) {
    return nullptr;
  }
  const Combination combination = combination_of(*at.to_apply());
  auto window = combination.is_simple ? only_window(at) : std::nullopt;
  if (!window) return nullptr;
  return SingleWindow(rewriter, at, std::move(*window)).write(combination.opcode);
}

}  // namespace plimsoll::passes
