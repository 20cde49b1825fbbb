// SPDX-License-Identifier: Apache-2.0
// Loops, branches and calls inside each other, on several values at once.
#include <algorithm>
#include <functional>

#include "tests/cases/random_steps.h"

namespace plimsoll::cases {
namespace {

using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// Values of the same dims, at most 2 in magnitude; how many there are does not change.
using Values = std::vector<Instruction*>;

Shape shape_of(const Values& values) {
  std::vector<Shape> shapes;
  for (const Instruction* value : values) shapes.push_back(value->shape());
  return Shape::tuple(shapes);
}

Values parts_of(Graph& graph, Instruction* tuple, std::size_t first, std::size_t count) {
  Values parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.push_back(
        graph.computation().add_get_tuple_element(tuple, static_cast<std::int64_t>(first + i)));
  }
  return parts;
}

class Regions {
 public:
  // `exact` is a scalar in [-2, 2] that every implementation computes with the same bits.
  Regions(Random& random, Instruction* exact) : random_(random), exact_(exact) {}

  // What becomes of the values: some operations on them, and regions in which there are `depth`
  // levels more.
  Values region(Graph& graph, Values values, int depth) {
    for (std::int64_t i = random_.between(1, 2); i > 0; --i) {
      switch (depth > 0 ? random_.below(5) : 0) {
        case 0:
          compute(graph, values);
          break;
        case 1:
          values = call(graph, values, depth - 1);
          break;
        case 2:
        case 3:
          values = loop(graph, values, depth - 1);
          break;
        default:
          values = branches(graph, values, depth - 1);
      }
    }
    return values;
  }

 private:
  // One value from two; or all that there are in other places, or one of them twice.
  void compute(Graph& graph, Values& values) {
    if (random_.chance(0.2)) {
      std::rotate(values.begin(), values.begin() + 1, values.end());
      return;
    }
    Instruction*& changed = values[random_.below(values.size())];
    if (random_.chance(0.1)) {
      changed = values[random_.below(values.size())];
      return;
    }
    if (random_.chance(0.1)) {
      changed = graph.constant(0.5, changed->shape().dims()).at;
      return;
    }
    const Value other{values[random_.below(values.size())]};
    changed = graph.tamed(body_of(graph, random_, {changed}, other)).at;
  }

  Values call(Graph& graph, const Values& values, int depth) {
    Computation* callee = graph.module().add_computation("inner");
    Graph inner(*callee);
    Values parameters;
    for (std::size_t i = 0; i < values.size(); ++i) {
      parameters.push_back(callee->add_parameter(static_cast<std::int64_t>(i), values[i]->shape()));
    }
    callee->add_tuple(region(inner, parameters, depth));
    return parts_of(graph, graph.op(Opcode::call, values, {}, {callee}), 0, values.size());
  }

  // A computation of all values as one tuple, whose root is a tuple of them.
  Computation* branch(Graph& graph, const Values& values, int depth) {
    Computation* made = graph.module().add_computation("branch");
    Instruction* argument = made->add_parameter(0, shape_of(values));
    Graph inner(*made);
    Values results = parts_of(inner, argument, 0, values.size());
    // At times it gives back what it got.
    if (!random_.chance(0.2)) results = region(inner, results, depth);
    made->add_tuple(results);
    return made;
  }

  // In [-limit, limit]. In the entry it follows from the data, elsewhere from the seed: values
  // there have other bits in other implementations, and a step more or less is a large difference.
  Instruction* number(Graph& graph, std::int64_t limit) {
    if (&graph.computation() != exact_->parent()) {
      return graph.scalar(static_cast<std::int32_t>(random_.between(-1, limit)));
    }
    const Value key{exact_, 2, true};
    return graph.convert(graph.scaled(key, 0.5 * static_cast<double>(limit)).at, DType::s32);
  }

  Values branches(Graph& graph, const Values& values, int depth) {
    const std::int64_t count = random_.between(1, 6);
    std::vector<Computation*> made;
    std::vector<Instruction*> operands{number(graph, count)};
    Instruction* same = random_.chance(0.5) ? graph.computation().add_tuple(values) : nullptr;
    for (std::int64_t i = 0; i < count; ++i) {
      made.push_back(branch(graph, values, depth));
      Values other = values;
      if (same == nullptr) std::rotate(other.begin(), other.begin() + 1, other.end());
      operands.push_back(same != nullptr ? same : graph.computation().add_tuple(other));
    }
    return parts_of(graph, graph.op(Opcode::conditional, operands, {}, made), 0, values.size());
  }

  // The counter stands anywhere in the state, counts up by one or two in any integer dtype, and the
  // end is a constant or part of the state; a mask or narrower values go around with the others.
  Values loop(Graph& graph, const Values& values, int depth) {
    const DType dtypes[] = {DType::s32, DType::s32, DType::s64, DType::u32, DType::s16};
    const DType dtype = dtypes[random_.below(5)];
    const auto integer = [&](Graph& in, std::int64_t number) {
      Instruction* made = in.scalar(static_cast<std::int32_t>(number));
      return dtype == DType::s32 ? made : in.convert(made, dtype);
    };
    const std::int64_t rounds = random_.between(0, 3), stride = random_.between(1, 2);
    const bool carries_end = random_.chance(0.4), carries_more = random_.chance(0.3);
    Values start = values;
    if (carries_more) {
      // What only waits or is narrower: it is the same in every round.
      start.push_back(graph.compare(values[0], values[0], ir::ComparisonDirection::eq));
      start.push_back(
          graph.convert(graph.constant(0.75, values[0]->shape().dims()).at, DType::bf16));
    }
    if (carries_end) {
      // Below 0 an unsigned number would be a large one.
      Instruction* end =
          graph.op(Opcode::maximum, {number(graph, rounds), graph.scalar(std::int32_t{0})});
      start.push_back(dtype == DType::s32 ? end : graph.convert(end, dtype));
    }
    const std::size_t place = random_.below(start.size() + 1);
    start.insert(start.begin() + static_cast<std::ptrdiff_t>(place), integer(graph, 0));
    const Shape state = shape_of(start);
    const auto split = [&](Graph& in, Instruction* argument) {
      Values parts = parts_of(in, argument, 0, start.size());
      Instruction* counter = parts[place];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(place));
      return std::pair(counter, parts);
    };
    Computation* condition = graph.module().add_computation("goes_on");
    {
      Instruction* argument = condition->add_parameter(0, state);
      Graph inner(*condition);
      const auto [counter, parts] = split(inner, argument);
      inner.compare(counter, carries_end ? parts.back() : integer(inner, rounds * stride),
                    ir::ComparisonDirection::lt);
    }
    Computation* body = graph.module().add_computation("round");
    {
      Instruction* argument = body->add_parameter(0, state);
      Graph inner(*body);
      auto [counter, parts] = split(inner, argument);
      Values changing(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(values.size()));
      if (carries_more) {
        Instruction* mask = parts[values.size()];
        Instruction* wide = inner.convert(parts[values.size() + 1], DType::f32);
        changing[0] = inner.op(Opcode::select, {mask, changing[0], wide});
      }
      changing = region(inner, changing, depth);
      std::copy(changing.begin(), changing.end(), parts.begin());
      Instruction* next = inner.op(Opcode::add, {counter, integer(inner, stride)});
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(place), next);
      body->add_tuple(parts);
    }
    Instruction* made =
        graph.op(Opcode::while_, {graph.computation().add_tuple(start)}, {}, {condition, body});
    Values results = split(graph, made).second;
    results.resize(values.size());
    return results;
  }

  Random& random_;
  Instruction* exact_;
};

void nested(Builder& b) {
  const Value first = b.graph.tamed(b.any_matrix());
  Values values{first.at};
  for (std::int64_t i = b.random.between(1, 3); i > 0; --i) {
    values.push_back(b.graph.tamed(b.graph.fitted(b.any(), first.dims())).at);
  }
  Regions regions(b.random, b.graph.reshaped(b.graph.fitted(b.any_exact(), {1}), {}).at);
  values = regions.region(b.graph, values, static_cast<int>(b.random.between(1, 3)));
  const std::size_t read = 1 + b.random.below(values.size());
  for (std::size_t i = 0; i < read; ++i) b.push({values[i], 2, false});
}

// A call of a call of a computation that two others call, too.
void called_again(Builder& b) {
  const Value x = b.graph.tamed(b.any_matrix());
  const Shape shape = x.at->shape();
  Computation* inner = b.graph.module().add_computation("shared");
  {
    Graph graph(*inner);
    const Value argument{inner->add_parameter(0, shape)};
    inner->set_root(graph.tamed(body_of(graph, b.random, argument, argument)).at);
  }
  Instruction* value = x.at;
  for (int i = 0; i < 2; ++i) {
    Computation* outer = b.graph.module().add_computation("outer");
    Graph graph(*outer);
    Instruction* made = graph.op(Opcode::call, {outer->add_parameter(0, shape)}, {}, {inner});
    outer->set_root(graph.unary(Opcode::sine, {made}, 1).at);
    value = b.graph.op(Opcode::call, {value}, {}, {outer});
    b.push({value, 2, false});
  }
}

}  // namespace

std::vector<Step> nested_steps() { return {nested, nested, nested, called_again}; }

}  // namespace plimsoll::cases
