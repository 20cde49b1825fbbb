// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/record/emit.h"

#include <utility>

#include "runtime/base/index.h"
#include "runtime/trace/record/attribute_words.h"

namespace plimsoll::trace {
namespace {

using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

using Instructions = std::vector<Instruction*>;

Instruction* integer(Computation& computation, std::int64_t value) {
  return computation.add_constant(ir::Literal::scalar(static_cast<std::int32_t>(value)));
}

Shape with_first_dim(const Shape& shape, std::int64_t size) {
  ir::Dims dims = {size};
  for (const std::int64_t dim : shape.dims()) dims.push_back(dim);
  return Shape(shape.dtype(), dims);
}

Shape without_first_dim(const Shape& shape) {
  return Shape(shape.dtype(), ir::Dims(shape.dims().begin() + 1, shape.dims().end()));
}

Instruction* zeros(Computation& computation, const Shape& shape) {
  Instruction* zero = computation.add_constant(ir::Literal(Shape(shape.dtype(), {})));
  return computation.add(Opcode::broadcast, shape, {zero});
}

// Slice `index` along the first dimension and its place in the array: operands from the array on.
Instructions slice_operands(Instruction* array, Instructions first, Instruction* index) {
  first.push_back(index);
  Computation& computation = *array->parent();
  for (int d = 1; d < array->shape().rank(); ++d) first.push_back(integer(computation, 0));
  return first;
}

Instruction* take_slice(Instruction* array, Instruction* index) {
  Computation& computation = *array->parent();
  const Shape rest = without_first_dim(array->shape());
  const Shape slice = with_first_dim(rest, 1);
  ir::Attributes attributes;
  attributes.slice_sizes = slice.dims().to_vector();
  Instruction* taken =
      computation.add(Opcode::dynamic_slice, slice, slice_operands(array, {array}, index), {},
                      std::move(attributes));
  return computation.add(Opcode::reshape, rest, {taken});
}

Instruction* put_slice(Instruction* array, Instruction* value, Instruction* index) {
  Computation& computation = *array->parent();
  Instruction* update =
      computation.add(Opcode::reshape, with_first_dim(value->shape(), 1), {value});
  return computation.add(Opcode::dynamic_update_slice, array->shape(),
                         slice_operands(array, {array, update}, index));
}

Instruction* compare_less(Computation& computation, Instruction* a, Instruction* b) {
  ir::Attributes attributes;
  attributes.comparison_direction = ir::ComparisonDirection::lt;
  return computation.add(Opcode::compare, Shape(DType::pred, {}), {a, b}, {},
                         std::move(attributes));
}

// Elements of a computation's only parameter, each made when it is first asked for.
class Elements {
 public:
  Elements(Computation& computation, const Shape& tuple, std::string_view name)
      : computation_(computation),
        tuple_(computation.add_parameter(0, tuple, name)),
        made_(tuple.elements().size()) {}
  Instruction* operator()(std::size_t i) {
    if (made_[i] == nullptr) {
      made_[i] = computation_.add_get_tuple_element(tuple_, static_cast<std::int64_t>(i));
    }
    return made_[i];
  }

 private:
  Computation& computation_;
  Instruction* tuple_;
  Instructions made_;
};

std::vector<bool> read_parameters(const Region& region) {
  std::vector<bool> read(region.parameters.size(), false);
  const auto see = [&](int value) {
    if (at(value) < read.size()) read[at(value)] = true;
  };
  for (const Region::Step& step : region.steps) {
    for (const int operand : step.operands) see(operand);
  }
  for (const int output : region.outputs) see(output);
  return read;
}

}  // namespace

ir::Literal scalar_literal(DType dtype, std::span<const std::int64_t> words) {
  const auto bytes = static_cast<std::size_t>(ir::dtype_bytes(dtype));
  return ir::Literal::from_bytes(Shape(dtype, {}), std::as_bytes(words).first(bytes));
}

Instruction* Emitter::emit(Computation& computation, const Operation& operation,
                           const Instructions& operands, std::string_view name) {
  if (operation.control != nullptr) {
    switch (operation.control->form) {
      case ControlFlow::Form::loop:
        return emit_loop(computation, *operation.control, operands);
      case ControlFlow::Form::scan:
        return emit_scan(computation, *operation.control, operands);
      case ControlFlow::Form::branches:
        return emit_branches(computation, *operation.control, operands);
    }
  }
  if (operation.opcode == Opcode::constant) {
    return computation.add_constant(scalar_literal(operation.shape->dtype(), operation.words));
  }
  OpAttributes op = decode_words(operation.words);
  if (operation.opcode == Opcode::get_tuple_element) {
    const auto first = first_result_.find(operands[0]);
    if (first != first_result_.end()) op.attributes.tuple_index += first->second;
  }
  ir::set_hint(op.attributes, static_cast<ir::Hint>((operation.flags >> kHintShift) & 7));
  std::vector<DType> dtypes;
  if (op.callee.kind != Callee::Kind::none) {
    for (const Instruction* operand : operands) dtypes.push_back(operand->shape().dtype());
  }
  auto called = called_computations(module_, op.callee, dtypes);
  if (name.empty() && operation.name != 0 && operation.name < names_.size()) {
    name = names_[operation.name];
  }
  Instruction* instruction =
      computation.add(operation.opcode, *operation.shape, operands, name, std::move(op.attributes));
  instruction->set_called_computations(std::move(called));
  return instruction;
}

Instructions Emitter::emit_region(Computation& computation, const Region& region,
                                  const std::function<Instruction*(int)>& parameter) {
  const auto parameters = static_cast<int>(region.parameters.size());
  Instructions made;
  const auto value = [&](int i) {
    return i < parameters ? parameter(i) : made[at(i - parameters)];
  };
  for (const Region::Step& step : region.steps) {
    Instructions operands;
    for (const int operand : step.operands) operands.push_back(value(operand));
    if ((step.flags & kStopGradient) != 0) {
      made.push_back(operands[0]);
      continue;
    }
    made.push_back(
        emit(computation,
             {step.opcode, &step.shape, step.flags, step.name, step.words, step.control.get()},
             operands));
  }
  Instructions outputs;
  for (const int output : region.outputs) outputs.push_back(value(output));
  return outputs;
}

Instruction* Emitter::emit_loop(Computation& computation, const ControlFlow& loop,
                                const Instructions& operands) {
  Instruction* start = computation.add_tuple(operands);
  const Shape& state = start->shape();
  Computation* condition = module_.add_computation("condition");
  Elements of_condition(*condition, state, "state");
  condition->set_root(
      emit_region(*condition, *loop.regions[0], [&](int i) { return of_condition(at(i)); })[0]);
  Computation* body = module_.add_computation("body");
  Elements of_body(*body, state, "state");
  const auto element = [&](int i) { return of_body(at(i)); };
  Instructions next = emit_region(*body, *loop.regions[1], element);
  for (std::size_t i = next.size(); i < operands.size(); ++i) next.push_back(of_body(i));
  body->set_root(body->add_tuple(std::move(next)));
  Instruction* result = computation.add(Opcode::while_, state, {start});
  result->set_called_computations({condition, body});
  return result;
}

// As a loop over (counter, state, stacks, sliced arrays, captured).
Instruction* Emitter::emit_scan(Computation& computation, const ControlFlow& scan,
                                const Instructions& operands) {
  const std::size_t carried = at(scan.carried), scanned = at(scan.scanned);
  const std::size_t stacked = at(scan.stacked);
  const std::size_t first_stack = 1 + carried, first_sliced = first_stack + stacked;
  Instructions elements = {integer(computation, 0)};
  elements.insert(elements.end(), operands.begin(), operands.begin() + scan.carried);
  for (int i = 0; i < scan.stacked; ++i) {
    elements.push_back(zeros(computation, scan.result_shape(scan.carried + i)));
  }
  elements.insert(elements.end(), operands.begin() + scan.carried, operands.end());
  Instruction* start = computation.add_tuple(std::move(elements));
  const Shape& state = start->shape();

  Computation* condition = module_.add_computation("condition");
  Elements of_condition(*condition, state, "state");
  Instruction* counted = of_condition(0);
  condition->set_root(compare_less(*condition, counted, integer(*condition, scan.length)));

  Computation* body = module_.add_computation("body");
  Elements of_body(*body, state, "state");
  Instruction* round = of_body(0);
  Instruction* index = round;
  if (scan.reversed) {
    index = body->add(Opcode::subtract, round->shape(), {integer(*body, scan.length - 1), round});
  }
  Instructions slices(scanned, nullptr);
  const auto parameter = [&](int i) {
    const std::size_t p = at(i);
    if (p < carried) return of_body(1 + p);
    if (p >= carried + scanned) return of_body(first_sliced + p - carried);
    Instruction*& slice = slices[p - carried];
    if (slice == nullptr) slice = take_slice(of_body(first_sliced + p - carried), index);
    return slice;
  };
  const Instructions outputs = emit_region(*body, *scan.regions[0], parameter);
  Instructions next = {body->add(Opcode::add, round->shape(), {round, integer(*body, 1)})};
  next.insert(next.end(), outputs.begin(), outputs.begin() + scan.carried);
  for (std::size_t i = 0; i < stacked; ++i) {
    next.push_back(put_slice(of_body(first_stack + i), outputs[carried + i], index));
  }
  for (std::size_t i = first_sliced; i < state.elements().size(); ++i) next.push_back(of_body(i));
  body->set_root(body->add_tuple(std::move(next)));
  Instruction* result = computation.add(Opcode::while_, state, {start});
  result->set_called_computations({condition, body});
  first_result_.emplace(result, 1);
  return result;
}

// Each branch is given what it reads alone, so that the rest need not be kept for it.
Instruction* Emitter::emit_branches(Computation& computation, const ControlFlow& branches,
                                    const Instructions& operands) {
  Instructions arguments = {operands[0]};
  std::vector<Computation*> called;
  for (const auto& region : branches.regions) {
    const std::vector<bool> read = read_parameters(*region);
    std::vector<std::size_t> place(read.size());
    Instructions given;
    for (std::size_t i = 0; i < read.size(); ++i) {
      place[i] = given.size();
      if (read[i]) given.push_back(operands[1 + i]);
    }
    Instruction* argument = computation.add_tuple(std::move(given));
    Computation* branch = module_.add_computation("branch");
    Elements element(*branch, argument->shape(), "arguments");
    branch->set_root(branch->add_tuple(
        emit_region(*branch, *region, [&](int i) { return element(place[at(i)]); })));
    arguments.push_back(argument);
    called.push_back(branch);
  }
  const Shape result_shape = called[0]->root()->shape();
  Instruction* result = computation.add(Opcode::conditional, result_shape, std::move(arguments));
  result->set_called_computations(std::move(called));
  return result;
}

}  // namespace plimsoll::trace
