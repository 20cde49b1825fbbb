// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_fusion.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>

#include "runtime/ir/shapes/builder.h"
#include "tests/cases/random_graph.h"

namespace plimsoll::cases {
namespace {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::DTypeClass;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

class Neighbours {
 public:
  Neighbours(ir::Computation& body, std::uint64_t seed) : graph_(body), random_(seed) {}

  // A value of `shape` from parameters, by `depth` operations at most.
  Instruction* source(const Shape& shape, int depth) {
    if (depth == 0 || random_.chance(0.4)) return parameter(shape);
    switch (random_.below(8)) {
      case 0:
        return unary(source(shape, depth - 1));
      case 1:
      case 2:
        return binary(source(shape, depth - 1), source(shape, depth - 1));
      case 3:
        return converted(source(Shape(any_dtype(), shape.dims()), depth - 1), shape.dtype());
      case 4:
        return selected(source(shape, depth - 1), source(shape, depth - 1));
      default:
        return moved_to(shape, depth - 1);
    }
  }

  // `value` through an operation that keeps its dims.
  Instruction* elementwise(Instruction* value) {
    switch (random_.below(6)) {
      case 0:
        return converted(value, any_dtype());
      case 1:
        return selected(value, source(value->shape(), 1));
      case 2:
        return selected(source(value->shape(), 1), value);
      case 3:
        return unary(value);
      default:
        return random_.chance(0.5) ? binary(value, source(value->shape(), 1))
                                   : binary(source(value->shape(), 1), value);
    }
  }

  // `value` through an operation that changes its dims, often.
  Instruction* moved(Instruction* value) {
    const Dims& dims = value->shape().dims();
    if (dims.empty()) return spread(value, {3, 17});
    const std::int64_t at = any_dimension(dims);
    Attributes attributes;
    switch (random_.below(6)) {
      case 0:
        return reversed(value, at);
      case 1: {
        attributes.dimensions = permutation(dims);
        return graph_.op(Opcode::transpose, {value}, std::move(attributes));
      }
      case 2:
        return reshaped(value, Dims{value->shape().element_count()});
      case 3:
        return sliced(value);
      case 4:
        return padded(value);
      default: {
        attributes.dimensions = {at};
        return graph_.op(Opcode::concatenate, {value, parameter(value->shape())},
                         std::move(attributes));
      }
    }
  }

  Instruction* reduced(Instruction* value) {
    const Dims& dims = value->shape().dims();
    if (dims.empty()) return value;
    const DType dtype = value->shape().dtype();
    Attributes attributes;
    for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
      if (random_.chance(0.5)) attributes.dimensions.push_back(i);
    }
    if (attributes.dimensions.empty()) attributes.dimensions.push_back(any_dimension(dims));
    const Opcode kinds[] = {Opcode::add, Opcode::add, Opcode::maximum, Opcode::minimum};
    Opcode kind = kinds[random_.below(4)];
    if (dtype == DType::pred) kind = random_.chance(0.5) ? Opcode::or_ : Opcode::and_;
    Instruction* initial = graph_.computation().add_constant(ir::Literal(Shape(dtype, {})));
    return graph_.op(Opcode::reduce, {value, initial}, std::move(attributes),
                     {ir::scalar_computation(graph_.module(), kind, dtype)});
  }

  Random& random() { return random_; }

 private:
  Instruction* parameter(const Shape& shape) {
    const auto number = static_cast<std::int64_t>(graph_.computation().parameters().size());
    return graph_.computation().add_parameter(number, Shape(shape.dtype(), shape.dims()));
  }

  DType any_dtype() {
    const DType dtypes[] = {DType::f32, DType::f32, DType::f32,  DType::f64, DType::bf16,
                            DType::f16, DType::s32, DType::pred, DType::u8,  DType::s64};
    return dtypes[random_.below(std::size(dtypes))];
  }

  std::int64_t any_dimension(const Dims& dims) {
    return static_cast<std::int64_t>(random_.below(dims.size()));
  }

  std::vector<std::int64_t> permutation(const Dims& dims) {
    std::vector<std::int64_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
    return order;
  }

  Instruction* converted(Instruction* value, DType dtype) {
    return graph_.given(Opcode::convert, Shape(dtype, value->shape().dims()), {value});
  }

  Instruction* unary(Instruction* value) {
    static constexpr Opcode kFloat[] = {
        Opcode::negate, Opcode::abs,  Opcode::floor,       Opcode::sign,
        Opcode::tanh,   Opcode::log,  Opcode::exponential, Opcode::logistic,
        Opcode::sine,   Opcode::sqrt, Opcode::erf,         Opcode::round_nearest_even};
    static constexpr Opcode kInteger[] = {Opcode::negate, Opcode::not_, Opcode::popcnt};
    const DType dtype = value->shape().dtype();
    if (dtype == DType::pred) return graph_.op(Opcode::not_, {value});
    return graph_.op(ir::is_integer(dtype) ? kInteger[random_.below(std::size(kInteger))]
                                           : kFloat[random_.below(std::size(kFloat))],
                     {value});
  }

  Instruction* binary(Instruction* x, Instruction* y) {
    static constexpr Opcode kFloat[] = {Opcode::add,     Opcode::subtract, Opcode::multiply,
                                        Opcode::maximum, Opcode::minimum,  Opcode::divide};
    static constexpr Opcode kInteger[] = {Opcode::add,     Opcode::multiply, Opcode::maximum,
                                          Opcode::minimum, Opcode::xor_,     Opcode::and_};
    static constexpr Opcode kPred[] = {Opcode::and_, Opcode::or_, Opcode::xor_};
    const DType dtype = x->shape().dtype();
    const Opcode opcode = dtype == DType::pred    ? kPred[random_.below(std::size(kPred))]
                          : ir::is_integer(dtype) ? kInteger[random_.below(std::size(kInteger))]
                                                  : kFloat[random_.below(std::size(kFloat))];
    return graph_.op(opcode, {x, y});
  }

  Instruction* selected(Instruction* x, Instruction* y) {
    Instruction* condition =
        random_.chance(0.5) ? parameter(Shape(DType::pred, x->shape().dims()))
                            : graph_.compare(x, parameter(x->shape()), ir::ComparisonDirection::gt);
    return graph_.op(Opcode::select, {condition, x, y});
  }

  Instruction* spread(Instruction* scalar, const Dims& dims) {
    return graph_.given(Opcode::broadcast, Shape(scalar->shape().dtype(), dims), {scalar});
  }

  Instruction* reshaped(Instruction* value, const Dims& dims) {
    return graph_.given(Opcode::reshape, Shape(value->shape().dtype(), dims), {value});
  }

  Instruction* reversed(Instruction* value, std::int64_t dimension) {
    Attributes attributes;
    attributes.dimensions = {dimension};
    return graph_.op(Opcode::reverse, {value}, std::move(attributes));
  }

  Instruction* sliced(Instruction* value) {
    Attributes attributes;
    for (const std::int64_t extent : value->shape().dims()) {
      const std::int64_t start =
          extent > 1 ? random_.between(0, std::min<std::int64_t>(3, extent - 1)) : 0;
      attributes.slice_starts.push_back(start);
      attributes.slice_limits.push_back(extent);
      attributes.slice_strides.push_back(random_.chance(0.3) ? 2 : 1);
    }
    return graph_.op(Opcode::slice, {value}, std::move(attributes));
  }

  Instruction* padded(Instruction* value) {
    Attributes attributes;
    for (int i = 0; i < value->shape().rank(); ++i) {
      attributes.padding.push_back(
          {random_.between(0, 2), random_.between(0, 2), random_.chance(0.2) ? 1 : 0});
    }
    return graph_.op(Opcode::pad, {value, parameter(Shape(value->shape().dtype(), {}))},
                     std::move(attributes));
  }

  // `shape` by a movement of something else.
  Instruction* moved_to(const Shape& shape, int depth) {
    const Dims& dims = shape.dims();
    const DType dtype = shape.dtype();
    if (dims.empty()) return reshaped(source(Shape(dtype, {1, 1}), depth), {});
    const std::int64_t at = any_dimension(dims);
    const int axis = static_cast<int>(at);
    Attributes attributes;
    switch (random_.below(7)) {
      case 0:
        return reversed(source(shape, depth), at);
      case 1: {
        attributes.dimensions = permutation(dims);
        Dims from = dims;
        for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
          from[static_cast<int>(attributes.dimensions[static_cast<std::size_t>(i)])] = dims[i];
        }
        return graph_.op(Opcode::transpose, {source(Shape(dtype, from), depth)},
                         std::move(attributes));
      }
      case 2:
        return reshaped(source(Shape(dtype, {shape.element_count()}), depth), dims);
      case 3: {
        // One dimension alone, over all the others.
        attributes.dimensions = {at};
        return graph_.given(Opcode::broadcast, Shape(dtype, dims),
                            {source(Shape(dtype, {dims[axis]}), depth)}, std::move(attributes));
      }
      case 4: {
        Dims from = dims;
        for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
          const std::int64_t start = random_.between(0, 2);
          const std::int64_t stride = random_.chance(0.2) ? 2 : 1;
          attributes.slice_starts.push_back(start);
          attributes.slice_strides.push_back(stride);
          attributes.slice_limits.push_back(start + dims[i] * stride);
          from[i] = start + dims[i] * stride + random_.between(0, 2);
        }
        return graph_.op(Opcode::slice, {source(Shape(dtype, from), depth)}, std::move(attributes));
      }
      case 5: {
        if (dims[axis] < 2) return parameter(shape);
        Dims first = dims, second = dims;
        first[axis] = random_.between(1, dims[axis] - 1);
        second[axis] = dims[axis] - first[axis];
        attributes.dimensions = {at};
        return graph_.op(Opcode::concatenate,
                         {source(Shape(dtype, first), depth), source(Shape(dtype, second), depth)},
                         std::move(attributes));
      }
      default: {
        Dims from = dims;
        std::vector<Instruction*> operands{nullptr};
        for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
          from[i] = dims[i] + random_.between(0, 3);
          attributes.slice_sizes.push_back(dims[i]);
          operands.push_back(parameter(Shape(DType::s32, {})));
        }
        operands[0] = source(Shape(dtype, from), depth);
        return graph_.op(Opcode::dynamic_slice, operands, std::move(attributes));
      }
    }
  }

  Graph graph_;
  Random random_;
};

}  // namespace

std::unique_ptr<ir::Module> random_fusion(const ir::Module& program, std::uint64_t seed) {
  auto module = program.clone();
  const ir::Computation& inner = *module->entry();
  const auto& root = *inner.root();
  const auto is_array = [](const Instruction* i) { return i->shape().is_array(); };
  const bool several = root.opcode() == Opcode::tuple;
  if (!std::all_of(inner.parameters().begin(), inner.parameters().end(), is_array) ||
      (several ? !std::all_of(root.operands().begin(), root.operands().end(), is_array)
               : !is_array(&root))) {
    return nullptr;
  }
  ir::Computation& body = *module->add_computation("around");
  Neighbours neighbours(body, seed);
  Random& random = neighbours.random();

  std::unordered_map<const Instruction*, Instruction*> copies;
  for (const auto& instruction : inner.instructions()) {
    if (instruction.get() == &root && several) continue;
    if (instruction->opcode() == Opcode::parameter) {
      copies[instruction.get()] =
          neighbours.source(instruction->shape(), static_cast<int>(random.below(3)));
      continue;
    }
    std::vector<Instruction*> operands;
    for (const Instruction* operand : instruction->operands()) operands.push_back(copies[operand]);
    copies[instruction.get()] = body.add_clone(*instruction, std::move(operands));
  }

  std::vector<Instruction*> roots;
  const auto results = several ? root.operands() : std::vector<Instruction*>{inner.root()};
  // Movements and reductions only where the one result decides the dims of the kernel.
  const bool alone = results.size() == 1;
  const bool moves = alone && random.chance(0.4), reduces = alone && random.chance(0.3);
  for (const Instruction* result : results) {
    Instruction* value = copies[result];
    for (std::uint64_t n = random.below(3); n > 0; --n) value = neighbours.elementwise(value);
    if (moves) value = neighbours.moved(value);
    if (moves && random.chance(0.5)) value = neighbours.elementwise(value);
    const bool keeps_input = reduces && random.chance(0.4);
    if (keeps_input || (!reduces && random.chance(0.3))) roots.push_back(value);
    if (reduces) value = neighbours.reduced(value);
    if (random.chance(0.4) || (!roots.empty() && roots.back() == value)) {
      value = neighbours.elementwise(value);
    }
    roots.push_back(value);
  }
  if (roots.empty()) return nullptr;
  if (roots.size() > 1) body.add_tuple(roots);
  if (roots.size() == 1) body.set_root(roots[0]);
  module->set_entry(&body);
  body.remove_dead();
  module->remove_unreachable();
  return module;
}

}  // namespace plimsoll::cases
