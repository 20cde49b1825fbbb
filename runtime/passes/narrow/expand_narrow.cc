// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/narrow.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/passes/narrow/codes.h"
#include "runtime/passes/narrow/storage.h"
#include "runtime/passes/passes.h"

namespace plimsoll::passes {
namespace narrow_types {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Literal;
using ir::Module;
using ir::Opcode;
using ir::Shape;
using Instructions = std::vector<Instruction*>;

bool has_narrow(const Shape& shape) {
  if (shape.is_tuple()) {
    return std::any_of(shape.elements().begin(), shape.elements().end(), has_narrow);
  }
  return shape.is_array() && ir::is_narrow(shape.dtype());
}

bool has_narrow(const Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (has_narrow(instruction->shape())) return true;
    }
  }
  return false;
}

bool is_narrow(const Instruction* instruction) {
  return instruction->shape().is_array() && ir::is_narrow(instruction->shape().dtype());
}

bool is_narrow_float(DType dtype) { return ir::is_narrow(dtype) && ir::is_floating(dtype); }

// What holds the values of a computation.
enum class Form : std::uint8_t {
  codes,    // floats as their codes; every result is rounded or wrapped
  numbers,  // floats as f32; of computations that combine values, whose caller rounds the outcome
  packed,   // the entry: as `codes`, its parameters and results as the program has them
};

DType held_dtype(DType dtype, Form form) {
  if (!ir::is_narrow(dtype)) return dtype;
  return form == Form::numbers && ir::is_floating(dtype) ? DType::f32 : code_dtype(dtype);
}

Shape held(const Shape& shape, Form form) {
  if (shape.is_tuple()) {
    std::vector<Shape> elements;
    for (const Shape& element : shape.elements()) elements.push_back(held(element, form));
    return Shape::tuple(std::move(elements));
  }
  if (!has_narrow(shape)) return shape;
  return Shape(held_dtype(shape.dtype(), form), shape.dims());
}

Instruction* element(Instruction* tuple, std::int64_t index) {
  if (tuple->opcode() == Opcode::tuple) return tuple->operand(static_cast<int>(index));
  return tuple->parent()->add_get_tuple_element(tuple, index);
}

// On every narrow array of a tuple of any depth.
template <typename F>
Instruction* on_arrays(Instruction* value, const Shape& original, const F& f) {
  if (!has_narrow(original)) return value;
  if (!original.is_tuple()) return f(value, original);
  Instructions elements;
  for (std::size_t i = 0; i < original.elements().size(); ++i) {
    elements.push_back(
        on_arrays(element(value, static_cast<std::int64_t>(i)), original.elements()[i], f));
  }
  return value->parent()->add_tuple(std::move(elements));
}

// Whether values only pass through.
bool only_moves(const Computation& computation) {
  return std::all_of(computation.instructions().begin(), computation.instructions().end(),
                     [](const auto& instruction) {
                       return instruction->opcode() == Opcode::parameter ||
                              instruction->opcode() == Opcode::tuple;
                     });
}

// Whether wrapping what it combines in the end is as good as wrapping each combination.
bool wraps_late(const Computation& computation) {
  return ir::is_binary_computation(computation, Opcode::add) ||
         ir::is_binary_computation(computation, Opcode::multiply);
}

// Results that lie in their operands' range, of integers.
bool stays_in_range(Opcode opcode) {
  switch (opcode) {
    case Opcode::maximum:
    case Opcode::minimum:
    case Opcode::clamp:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::sign:
    case Opcode::remainder:
      return true;
    default:
      return false;
  }
}

// Makes the module anew.
class Expander {
 public:
  explicit Expander(const Module& from) : from_(from) {}

  Result<std::unique_ptr<Module>> expand();

 private:
  Result<Computation*> computation(const Computation& from, Form form);
  Result<Instruction*> expand(const Instruction& instruction, Computation& to, Form form);
  Result<Instruction*> keep(const Instruction& instruction, Computation& to, Form form,
                            Form called_form);
  Result<Instruction*> combine(const Instruction& instruction, Computation& to, Form form);
  Instruction* compute(const Instruction& instruction, Computation& to, Form form);
  Instruction* constant(const Instruction& instruction, Computation& to, Form form);
  Instruction* convert(const Instruction& instruction, Form form);
  Instruction* count_or_shift(const Instruction& instruction, Computation& to, Form form);
  Instruction* product(const Instruction& instruction, Computation& to, Form form);
  Result<Instruction*> bitcast(const Instruction& instruction, Form form);

  Instruction* mapped(const Instruction& instruction, int operand) const {
    return values_.at(instruction.operand(operand));
  }
  // An operand as what is computed with: f32, s8, u8 or what it is.
  Instruction* number(const Instruction* original, Form form);
  // The value of `dtype` nearest to a number, as the form holds it.
  static Instruction* rounded(Instruction* number, DType dtype, Form form);

  const Module& from_;
  std::unique_ptr<Module> made_;
  std::unordered_map<const Instruction*, Instruction*> values_;
  std::unordered_map<const Instruction*, Instruction*> decoded_;  // of values_
  std::unordered_map<const Computation*, Computation*> known_[3];
  const Computation* current_ = nullptr;
};

Status refuse(const Instruction& instruction) {
  return unimplemented("'" + instruction.name() +
                       "': " + std::string(ir::to_string(instruction.opcode())) +
                       " of integers of less than a byte or floats of a byte is not supported");
}

Result<std::unique_ptr<Module>> Expander::expand() {
  made_ = std::make_unique<Module>(from_.name());
  PLIMSOLL_ASSIGN_OR_RETURN(Computation* const entry, computation(*from_.entry(), Form::packed));
  made_->set_entry(entry);
  made_->is_scheduled = false;
  made_->input_output_alias = from_.input_output_alias;
  made_->buffer_donor = from_.buffer_donor;
  made_->replica_count = from_.replica_count;
  made_->num_partitions = from_.num_partitions;
  (void)made_->remove_unreachable();
  PLIMSOLL_RETURN_IF_ERROR(ir::verify(*made_));
  return std::move(made_);
}

Result<Computation*> Expander::computation(const Computation& from, Form form) {
  if (Computation* const known = known_[at(form)][&from]; known != nullptr) return known;
  const Computation* const outer = std::exchange(current_, &from);
  Computation* const to = made_->add_computation(from.name());
  for (const Instruction* const parameter : from.parameters()) {
    const Shape& shape = parameter->shape();
    const bool is_packed = form == Form::packed;
    Instruction* const taken =
        to->add_parameter(parameter->attributes().parameter_number,
                          is_packed ? stored(shape) : held(shape, form), parameter->name());
    values_[parameter] = is_packed ? on_arrays(taken, shape, unpack) : taken;
    decoded_.erase(parameter);
  }
  for (const auto& instruction : from.instructions()) {
    if (instruction->opcode() == Opcode::parameter) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const value, expand(*instruction, *to, form));
    values_[instruction.get()] = value;
    decoded_.erase(instruction.get());
  }
  Instruction* const root = values_.at(from.root());
  to->set_root(form == Form::packed ? on_arrays(root, from.root()->shape(), pack) : root);
  known_[at(form)][&from] = to;
  current_ = outer;
  return to;
}

Instruction* Expander::number(const Instruction* original, Form form) {
  Instruction* const value = values_.at(original);
  if (!original->shape().is_array() || !is_narrow_float(original->shape().dtype()) ||
      form == Form::numbers) {
    return value;
  }
  Instruction*& known = decoded_[original];
  if (known == nullptr) known = decode(value, original->shape().dtype());
  return known;
}

Instruction* Expander::rounded(Instruction* number, DType dtype, Form form) {
  if (!ir::is_floating(dtype)) return wrap(number, dtype);
  return form == Form::numbers ? number : encode(number, dtype);
}

Result<Instruction*> Expander::expand(const Instruction& instruction, Computation& to, Form form) {
  const auto& operands = instruction.operands();
  const bool reads = std::any_of(operands.begin(), operands.end(), [](const Instruction* operand) {
    return has_narrow(operand->shape());
  });
  const Form within = form == Form::packed ? Form::codes : form;
  switch (instruction.opcode()) {
    case Opcode::tuple:
    case Opcode::get_tuple_element:
    case Opcode::opt_barrier:
    case Opcode::call:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::fusion:
      return keep(instruction, to, within, within);
    default:
      break;
  }
  if (!reads && !has_narrow(instruction.shape())) return keep(instruction, to, within, within);
  switch (instruction.opcode()) {
    case Opcode::constant:
      return constant(instruction, to, within);
    case Opcode::convert:
      return convert(instruction, within);
    case Opcode::bitcast_convert:
      return bitcast(instruction, within);
    case Opcode::dot:
    case Opcode::convolution:
      return product(instruction, to, within);
    case Opcode::popcnt:
    case Opcode::count_leading_zeros:
    case Opcode::shift_right_logical:
    case Opcode::shift_right_arithmetic:
      return count_or_shift(instruction, to, within);
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::scatter:
    case Opcode::select_and_scatter:
    case Opcode::all_reduce:
    case Opcode::reduce_scatter:
      return combine(instruction, to, within);
    case Opcode::bitcast:
      if (instruction.operand(0)->shape().dtype() != instruction.shape().dtype()) {
        return refuse(instruction);
      }
      break;
    case Opcode::iota:
    case Opcode::rng:
      return compute(instruction, to, within);
    case Opcode::select:
    case Opcode::copy:
    case Opcode::gather:
    case Opcode::add_dependency:
    case Opcode::after_all:
    case Opcode::domain:
    case Opcode::all_gather:
    case Opcode::all_to_all:
    case Opcode::ragged_all_to_all:
    case Opcode::collective_permute:
    case Opcode::collective_broadcast:
      return keep(instruction, to, within, within);
    case Opcode::sort:
    case Opcode::map:
      return keep(instruction, to, within, within);
    default:
      break;
  }
  switch (ir::op_info(instruction.opcode()).op_class) {
    case ir::OpClass::unary:
    case ir::OpClass::binary:
    case ir::OpClass::ternary:
      return compute(instruction, to, within);
    case ir::OpClass::movement:
      return keep(instruction, to, within, within);
    default:
      return refuse(instruction);
  }
}

// As it is, on what holds the values.
Result<Instruction*> Expander::keep(const Instruction& instruction, Computation& to, Form form,
                                    Form called_form) {
  Instructions operands;
  for (const Instruction* const operand : instruction.operands()) {
    operands.push_back(values_.at(operand));
  }
  if (instruction.opcode() == Opcode::get_tuple_element) {
    return element(operands[0], instruction.attributes().tuple_index);
  }
  std::vector<Computation*> called;
  for (const Computation* const one : instruction.called_computations()) {
    PLIMSOLL_ASSIGN_OR_RETURN(Computation* const changed, computation(*one, called_form));
    called.push_back(changed);
  }
  Instruction* const kept =
      to.add(instruction.opcode(), held(instruction.shape(), form), std::move(operands),
             instruction.name(), instruction.attributes());
  kept->set_called_computations(std::move(called));
  return kept;
}

Instruction* Expander::compute(const Instruction& instruction, Computation& to, Form form) {
  Instructions operands;
  for (const Instruction* const operand : instruction.operands()) {
    operands.push_back(number(operand, form));
  }
  const Shape shape = held(instruction.shape(), Form::numbers);
  Instruction* const result = to.add(instruction.opcode(), shape, std::move(operands),
                                     instruction.name(), instruction.attributes());
  if (!is_narrow(&instruction)) return result;
  const DType dtype = instruction.shape().dtype();
  if (!ir::is_floating(dtype) && stays_in_range(instruction.opcode())) return result;
  const bool later =
      form == Form::numbers && &instruction == current_->root() && wraps_late(*current_);
  return later ? result : rounded(result, dtype, form);
}

Instruction* Expander::constant(const Instruction& instruction, Computation& to, Form form) {
  const Literal& value = *instruction.attributes().literal;
  const Shape& from = instruction.shape();
  const Shape shape = held(from, form);
  if (value.is_elided()) return to.add_constant(Literal::elided(shape), instruction.name());
  const auto codes = ir::unpack_codes(from.dtype(), value.bytes(), from.element_count());
  if (shape.dtype() != DType::f32) {
    return to.add_constant(Literal::from_bytes(shape, codes), instruction.name());
  }
  Literal numbers(shape);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    numbers.mutable_data<float>()[i] =
        ir::narrow_number(from.dtype(), std::to_integer<std::uint8_t>(codes[i]));
  }
  return to.add_constant(std::move(numbers), instruction.name());
}

Instruction* Expander::convert(const Instruction& instruction, Form form) {
  const Instruction* const original = instruction.operand(0);
  const DType from = original->shape().dtype(), dtype = instruction.shape().dtype();
  if (from == dtype) return mapped(instruction, 0);
  Instruction* const value = number(original, form);
  if (!ir::is_narrow(dtype)) return converted(value, dtype);
  if (ir::is_floating(dtype)) {
    Instruction* const near =
        from == DType::f64 ? round_to_odd(value) : converted(value, DType::f32);
    Instruction* const code = encode(near, dtype);
    return form == Form::numbers ? decode(code, dtype) : code;
  }
  Instruction* const whole = converted(value, code_dtype(dtype));
  if (!ir::is_floating(from)) return wrap(whole, dtype);
  // Beyond the range floats saturate.
  const auto bound = [&](double number) {
    Literal literal(Shape(code_dtype(dtype), {}));
    literal.set(0, number);
    return whole->parent()->add_constant(std::move(literal));
  };
  constexpr double kBeyond = 1000;
  Instruction* const least = bound(ir::narrow_number(dtype, ir::narrow_code(dtype, -kBeyond)));
  Instruction* const most = bound(ir::narrow_number(dtype, ir::narrow_code(dtype, kBeyond)));
  return made(Opcode::clamp, whole->shape(), {least, whole, most});
}

// What looks at the bits from the top: a signed code's upper bits are not its own, an unsigned one
// has its sign further down.
Instruction* Expander::count_or_shift(const Instruction& instruction, Computation& to, Form form) {
  const DType dtype = instruction.shape().dtype();
  const int bits = ir::dtype_bits(dtype);
  const DType twin = bits == 2 ? DType::s2 : DType::s4;
  Instruction* value = number(instruction.operand(0), form);
  const bool as_signed = instruction.opcode() == Opcode::shift_right_arithmetic;
  if (as_signed) {
    value = code_of(low_bits(value, dtype), twin);
  } else {
    value = low_bits(value, dtype);
  }
  Instructions operands = {value};
  if (instruction.operand_count() == 2) {
    operands.push_back(converted(number(instruction.operand(1), form), value->shape().dtype()));
  }
  Instruction* result =
      to.add(instruction.opcode(), value->shape(), std::move(operands), instruction.name());
  if (instruction.opcode() == Opcode::count_leading_zeros) {
    Literal above(Shape(DType::u8, {}));
    above.set(0, 8 - bits);
    Instruction* unused = to.add_constant(std::move(above));
    if (result->shape().rank() > 0) unused = made(Opcode::broadcast, result->shape(), {unused});
    result = made(Opcode::subtract, result->shape(), {result, unused});
  }
  if (result->shape().dtype() != code_dtype(dtype)) {
    result =
        made(Opcode::bitcast_convert, Shape(code_dtype(dtype), result->shape().dims()), {result});
  }
  return wrap(result, dtype);
}

// Sums of products in f32 or in the integers asked for (s32 where those are narrow), rounded once.
Instruction* Expander::product(const Instruction& instruction, Computation& to, Form form) {
  const DType dtype = instruction.shape().dtype();
  Instruction* a = number(instruction.operand(0), form);
  Instruction* b = number(instruction.operand(1), form);
  const bool is_floating = ir::is_floating(dtype);
  DType summed = is_floating ? DType::f32 : dtype;
  if (dtype == DType::f64) summed = dtype;
  if (!is_floating && ir::is_narrow(dtype)) summed = DType::s32;
  if (a->shape().dtype() != b->shape().dtype()) {
    a = converted(a, summed);
    b = converted(b, summed);
  }
  Instruction* const sum = to.add(instruction.opcode(), Shape(summed, instruction.shape().dims()),
                                  {a, b}, instruction.name(), instruction.attributes());
  if (!ir::is_narrow(dtype)) return converted(sum, dtype);
  return rounded(is_floating ? sum : converted(sum, code_dtype(dtype)), dtype, form);
}

// Combinations are made of f32 and rounded once, as those of f16 are; what replaces values only
// stays on codes.
Result<Instruction*> Expander::combine(const Instruction& instruction, Computation& to, Form form) {
  const auto& called = instruction.called_computations();
  if (std::all_of(called.begin(), called.end(),
                  [](const Computation* one) { return only_moves(*one); })) {
    return keep(instruction, to, form, form);
  }
  Instructions operands;
  for (const Instruction* const operand : instruction.operands()) {
    operands.push_back(number(operand, form));
  }
  std::vector<Computation*> changed;
  for (const Computation* const one : called) {
    PLIMSOLL_ASSIGN_OR_RETURN(Computation* const combiner, computation(*one, Form::numbers));
    changed.push_back(combiner);
  }
  Instruction* const combined =
      to.add(instruction.opcode(), held(instruction.shape(), Form::numbers), std::move(operands),
             instruction.name(), instruction.attributes());
  combined->set_called_computations(std::move(changed));
  return on_arrays(combined, instruction.shape(), [&](Instruction* value, const Shape& original) {
    return rounded(value, original.dtype(), form);
  });
}

// By way of bytes: [.., n] wide ones, or elements of less than a byte, n to one.
Result<Instruction*> Expander::bitcast(const Instruction& instruction, Form form) {
  const Shape& original = instruction.operand(0)->shape();
  const Shape& shape = instruction.shape();
  const int from = ir::dtype_bits(original.dtype()), to = ir::dtype_bits(shape.dtype());
  if (form == Form::numbers || original.rank() + 2 > ir::kMaxRank) return refuse(instruction);
  Instruction* value = mapped(instruction, 0);
  if (ir::is_narrow(original.dtype())) {
    value = low_bits(value, original.dtype());
  } else if (original.dtype() != DType::u8) {
    ir::Dims dims = original.dims();
    if (from > 8) dims.push_back(from / 8);
    value = made(Opcode::bitcast_convert, Shape(DType::u8, dims), {value});
  }
  if (to < std::min(from, 8)) {
    value = reshaped(split_bytes(value, to, std::min(from, 8) / to), shape.dims());
  } else if (from < std::min(to, 8)) {
    ir::Dims dims = original.dims();
    if (to > 8) {
      dims[dims.size() - 1] = to / 8;
      dims.push_back(8 / from);
    }
    value = join_bytes(reshaped(value, dims), from);
  }
  if (ir::is_narrow(shape.dtype())) return code_of(value, shape.dtype());
  if (shape.dtype() == DType::u8) return value;
  return made(Opcode::bitcast_convert, shape, {value});
}

}  // namespace
}  // namespace narrow_types

Result<std::unique_ptr<ir::Module>> expand_narrow(std::unique_ptr<ir::Module> module) {
  if (!narrow_types::has_narrow(*module)) return module;
  narrow_types::Expander expander(*module);
  return expander.expand();
}

}  // namespace plimsoll::passes
