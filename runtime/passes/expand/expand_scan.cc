// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/expand/expansions.h"
#include "runtime/passes/expand/numbers.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Instructions = std::vector<Instruction*>;

Instruction* number(Computation& computation, std::int64_t value) {
  return add_number(computation, Shape(DType::s32, {}), static_cast<double>(value));
}

// The state of the loop is a tuple: the round, the carries, the inputs, the outputs.
class Scan {
 public:
  explicit Scan(Instruction& scan) : scan_(scan), module_(*scan.parent()->module()) {}

  Status read();
  Expansion expand();

 private:
  Status wrong(std::string_view what) const {
    return invalid_argument("'" + scan_.name() + "': scan " + std::string(what));
  }
  Shape without_dim(const Shape& shape) const;
  Shape output_shape(std::size_t i) const {
    return scan_.shape().is_tuple() ? scan_.shape().elements()[i] : scan_.shape();
  }
  std::size_t result_count() const {
    return scan_.shape().is_tuple() ? scan_.shape().elements().size() : 1;
  }
  Computation* condition(const Shape& state) const;
  Result<Computation*> body(const Shape& state) const;
  Instructions starts(Computation& to, Instruction* place, int rank) const;

  Instruction& scan_;
  ir::Module& module_;
  int dim_ = 0;
  bool is_reverse_ = false;
  std::size_t carries_ = 0, inputs_ = 0, outputs_ = 0;
  std::int64_t rounds_ = 0;
};

Shape Scan::without_dim(const Shape& shape) const {
  std::vector<std::int64_t> dims = shape.dims().to_vector();
  dims.erase(dims.begin() + dim_);
  return Shape(shape.dtype(), ir::Dims(dims));
}

Status Scan::read() {
  const Attributes& attributes = scan_.attributes();
  if (attributes.dimensions.size() != 1) return wrong("must name one dim");
  dim_ = static_cast<int>(attributes.dimensions[0]);
  is_reverse_ = attributes.find_extra("is_reverse") == "true";
  const std::string_view carries = attributes.find_extra("num_carries");
  const auto [end, failed] =
      std::from_chars(carries.data(), carries.data() + carries.size(), carries_);
  if (!carries.empty() && (failed != std::errc() || end != carries.data() + carries.size())) {
    return wrong("must say the number of its carries");
  }
  const std::size_t operands = scan_.operands().size();
  if (carries_ > operands || carries_ > result_count()) {
    return wrong("has more carries than operands or results");
  }
  inputs_ = operands - carries_;
  outputs_ = result_count() - carries_;
  if (inputs_ + outputs_ == 0) return wrong("goes over nothing");
  const Shape& first = inputs_ > 0 ? scan_.operand(0)->shape() : output_shape(0);
  if (dim_ >= first.rank()) return wrong("names a dim that its arrays don't have");
  rounds_ = first.dim(dim_);
  if (scan_.called_computations().size() != 1) return wrong("must call one computation");
  // What its computation takes and gives, a round.
  std::vector<Shape> parameters, results;
  for (std::size_t i = 0; i < operands; ++i) {
    const Shape& shape = scan_.operands()[i]->shape();
    if (i < inputs_ && (dim_ >= shape.rank() || shape.dim(dim_) != rounds_)) {
      return wrong("goes over arrays of different lengths");
    }
    parameters.push_back(i < inputs_ ? without_dim(shape) : shape);
  }
  for (std::size_t i = 0; i < result_count(); ++i) {
    const Shape shape = output_shape(i);
    if (!shape.is_array() ||
        (i < outputs_ && (dim_ >= shape.rank() || shape.dim(dim_) != rounds_))) {
      return wrong("gives arrays of other lengths than it goes over");
    }
    if (i >= outputs_ && !(shape == parameters[inputs_ + i - outputs_])) {
      return wrong("must give its carries as it takes them");
    }
    results.push_back(i < outputs_ ? without_dim(shape) : shape);
  }
  const Computation& called = *scan_.called_computations()[0];
  const Shape result = scan_.shape().is_tuple() ? Shape::tuple(results) : results[0];
  bool fits = called.parameters().size() == parameters.size() && called.root()->shape() == result;
  for (std::size_t i = 0; fits && i < parameters.size(); ++i) {
    fits = called.parameters()[i]->shape() == parameters[i];
  }
  return fits ? ok_status()
              : wrong("calls '" + called.name() +
                      "', which must take an element of each input and "
                      "the carries, and give " +
                      result.to_string());
}

Computation* Scan::condition(const Shape& state) const {
  Computation* const made = module_.add_computation("scan.condition");
  Instruction* const round = made->add_get_tuple_element(made->add_parameter(0, state), 0);
  Attributes less;
  less.comparison_direction = ir::ComparisonDirection::lt;
  made->set_root(made->add(Opcode::compare, Shape(DType::pred, {}), {round, number(*made, rounds_)},
                           {}, std::move(less)));
  return made;
}

Instructions Scan::starts(Computation& to, Instruction* place, int rank) const {
  Instructions all(at(rank), number(to, 0));
  all[at(dim_)] = place;
  return all;
}

Result<Computation*> Scan::body(const Shape& state) const {
  Computation* const made = module_.add_computation("scan.body");
  Instruction* const all = made->add_parameter(0, state);
  const auto element = [&](std::size_t i) {
    return made->add_get_tuple_element(all, static_cast<std::int64_t>(i));
  };
  Instruction* const round = element(0);
  const Shape scalar(DType::s32, {});
  Instruction* const place =
      is_reverse_ ? made->add(Opcode::subtract, scalar, {number(*made, rounds_ - 1), round})
                  : round;
  Instructions arguments, next = {made->add(Opcode::add, scalar, {round, number(*made, 1)})};
  Instructions inputs;
  for (std::size_t i = 0; i < inputs_; ++i) {
    Instruction* const input = element(1 + carries_ + i);
    inputs.push_back(input);
    Attributes slice;
    slice.slice_sizes = input->shape().dims().to_vector();
    slice.slice_sizes[at(dim_)] = 1;
    Instructions operands = starts(*made, place, input->shape().rank());
    operands.insert(operands.begin(), input);
    PLIMSOLL_ASSIGN_OR_RETURN(
        Instruction* const part,
        ir::build(*made, Opcode::dynamic_slice, std::move(operands), std::move(slice)));
    arguments.push_back(made->add(Opcode::reshape, without_dim(input->shape()), {part}));
  }
  for (std::size_t i = 0; i < carries_; ++i) arguments.push_back(element(1 + i));
  PLIMSOLL_ASSIGN_OR_RETURN(
      Instruction* const call,
      ir::build(*made, Opcode::call, std::move(arguments), {}, {scan_.called_computations()[0]}));
  const auto result = [&](std::size_t i) {
    return call->shape().is_tuple()
               ? made->add_get_tuple_element(call, static_cast<std::int64_t>(i))
               : call;
  };
  for (std::size_t i = 0; i < carries_; ++i) next.push_back(result(outputs_ + i));
  next.insert(next.end(), inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < outputs_; ++i) {
    Instruction* const stack = element(1 + carries_ + inputs_ + i);
    std::vector<std::int64_t> dims = stack->shape().dims().to_vector();
    dims[at(dim_)] = 1;
    Instruction* const row =
        made->add(Opcode::reshape, Shape(stack->shape().dtype(), ir::Dims(dims)), {result(i)});
    Instructions operands = starts(*made, place, stack->shape().rank());
    operands.insert(operands.begin(), {stack, row});
    next.push_back(made->add(Opcode::dynamic_update_slice, stack->shape(), std::move(operands)));
  }
  made->set_root(made->add_tuple(std::move(next)));
  return made;
}

Expansion Scan::expand() {
  Computation& to = *scan_.parent();
  const Instructions& operands = scan_.operands();
  Instructions state = {number(to, 0)};
  state.insert(state.end(), operands.begin() + static_cast<std::ptrdiff_t>(inputs_),
               operands.end());
  state.insert(state.end(), operands.begin(),
               operands.begin() + static_cast<std::ptrdiff_t>(inputs_));
  for (std::size_t i = 0; i < outputs_; ++i) {
    const Shape shape = output_shape(i);
    state.push_back(add_number(to, shape, 0));
  }
  Instruction* const first = to.add_tuple(std::move(state));
  Computation* const condition = this->condition(first->shape());
  PLIMSOLL_ASSIGN_OR_RETURN(Computation* const body, this->body(first->shape()));
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const loop,
                            ir::build(to, Opcode::while_, {first}, {}, {condition, body}));
  Instructions results;
  for (std::size_t i = 0; i < outputs_ + carries_; ++i) {
    const std::size_t from = i < outputs_ ? 1 + carries_ + inputs_ + i : 1 + i - outputs_;
    results.push_back(to.add_get_tuple_element(loop, static_cast<std::int64_t>(from)));
  }
  return scan_.shape().is_tuple() ? to.add_tuple(std::move(results)) : results[0];
}

}  // namespace

Expansion expand_scan(Instruction& instruction) {
  Scan scan(instruction);
  PLIMSOLL_RETURN_IF_ERROR(scan.read());
  return scan.expand();
}

}  // namespace plimsoll::passes
