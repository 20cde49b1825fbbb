// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/passes.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/passes/complex/parts.h"

namespace plimsoll::passes {
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

bool has_complex(const Shape& shape) {
  if (shape.is_tuple()) {
    return std::any_of(shape.elements().begin(), shape.elements().end(), has_complex);
  }
  return shape.is_array() && ir::is_complex(shape.dtype());
}

bool has_complex(const Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (has_complex(instruction->shape())) return true;
    }
  }
  return false;
}

bool is_complex(const Instruction* instruction) {
  return instruction->shape().is_array() && ir::is_complex(instruction->shape().dtype());
}

Shape part_shape(const Shape& shape) { return Shape(ir::part_dtype(shape.dtype()), shape.dims()); }

// Within computations: a complex array is a tuple of its parts.
Shape expanded(const Shape& shape) {
  if (shape.is_tuple()) {
    std::vector<Shape> elements;
    for (const Shape& element : shape.elements()) elements.push_back(expanded(element));
    return Shape::tuple(std::move(elements));
  }
  if (!has_complex(shape)) return shape;
  return Shape::tuple({part_shape(shape), part_shape(shape)});
}

// At the entry: an array with a last dim of its parts, the same bytes.
Result<Shape> interleaved(const Shape& shape) {
  if (shape.is_tuple()) {
    std::vector<Shape> elements;
    for (const Shape& element : shape.elements()) {
      PLIMSOLL_ASSIGN_OR_RETURN(Shape one, interleaved(element));
      elements.push_back(std::move(one));
    }
    return Shape::tuple(std::move(elements));
  }
  if (!has_complex(shape)) return shape;
  if (shape.rank() >= ir::kMaxRank) {
    return unimplemented("a complex parameter or result of rank " + std::to_string(shape.rank()) +
                         " (at most " + std::to_string(ir::kMaxRank - 1) + ")");
  }
  std::vector<std::int64_t> dims = shape.dims().to_vector();
  dims.push_back(2);
  return Shape(ir::part_dtype(shape.dtype()), dims);
}

Instruction* element(Instruction* tuple, std::int64_t index) {
  if (tuple->opcode() == Opcode::tuple) return tuple->operand(static_cast<int>(index));
  return tuple->parent()->add_get_tuple_element(tuple, index);
}

Parts parts_of(Instruction* expanded) { return {element(expanded, 0), element(expanded, 1)}; }

Instruction* tuple_of(Parts parts) {
  return parts.real->parent()->add_tuple({parts.real, parts.imaginary});
}

// From the entry's form to the other, and back.
Instruction* take_apart(Instruction* value, const Shape& original) {
  Computation& computation = *value->parent();
  if (!has_complex(original)) return value;
  if (original.is_tuple()) {
    Instructions elements;
    for (std::size_t i = 0; i < original.elements().size(); ++i) {
      elements.push_back(
          take_apart(element(value, static_cast<std::int64_t>(i)), original.elements()[i]));
    }
    return computation.add_tuple(std::move(elements));
  }
  const int rank = original.rank();
  const auto part = [&](std::int64_t index) {
    Attributes attributes;
    std::vector<std::int64_t> dims;
    for (int i = 0; i <= rank; ++i) {
      attributes.slice_starts.push_back(i == rank ? index : 0);
      attributes.slice_limits.push_back(i == rank ? index + 1 : original.dim(i));
      attributes.slice_strides.push_back(1);
      dims.push_back(i == rank ? 1 : original.dim(i));
    }
    const Shape sliced(value->shape().dtype(), dims);
    Instruction* const slice =
        computation.add(Opcode::slice, sliced, {value}, {}, std::move(attributes));
    return computation.add(Opcode::reshape, part_shape(original), {slice});
  };
  return tuple_of({part(0), part(1)});
}

Result<Instruction*> put_together(Instruction* value, const Shape& original) {
  Computation& computation = *value->parent();
  if (!has_complex(original)) return value;
  if (original.is_tuple()) {
    Instructions elements;
    for (std::size_t i = 0; i < original.elements().size(); ++i) {
      PLIMSOLL_ASSIGN_OR_RETURN(
          Instruction* const one,
          put_together(element(value, static_cast<std::int64_t>(i)), original.elements()[i]));
      elements.push_back(one);
    }
    return computation.add_tuple(std::move(elements));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Shape whole, interleaved(original));
  std::vector<std::int64_t> dims = original.dims().to_vector();
  dims.push_back(1);
  const Shape half(whole.dtype(), dims);
  const Parts parts = parts_of(value);
  Attributes attributes;
  attributes.dimensions = {original.rank()};
  return computation.add(Opcode::concatenate, whole,
                         {computation.add(Opcode::reshape, half, {parts.real}),
                          computation.add(Opcode::reshape, half, {parts.imaginary})},
                         {}, std::move(attributes));
}

// Makes the module anew.
class Expander {
 public:
  explicit Expander(const Module& from) : from_(from) {}

  Result<std::unique_ptr<Module>> expand();

 private:
  // What is called by name gets a computation of one kind or the other.
  enum class Form : std::uint8_t {
    whole,        // the same parameters, complex ones as tuples
    parts,        // a parameter for each part, in order; the result's parts as one flat tuple
    sort,         // of a comparator: per operand two real parts, then two imaginary ones
    interleaved,  // the entry
  };
  Result<Computation*> computation(const Computation& from, Form form);
  Status add_parameters(const Computation& from, Form form, Computation& to);
  Status add_scalars(const Computation& from, bool in_pairs, Computation& to);
  Status finish(const Computation& from, Form form, Computation& to);

  Result<Instruction*> expand(const Instruction& instruction, Computation& to);
  Result<Instruction*> expand_complex_result(const Instruction& instruction, Computation& to);
  Result<Instruction*> expand_real_result(const Instruction& instruction, Computation& to);
  Result<Instruction*> keep(const Instruction& instruction, Computation& to, Form form);
  Result<Instruction*> product(const Instruction& instruction, Computation& to);
  Result<Instruction*> library_call(const Instruction& instruction, Computation& to);
  Result<Instruction*> variadic(const Instruction& instruction, Computation& to);
  Instruction* constant(const Instruction& instruction, Computation& to);
  Instruction* convert(const Instruction& instruction, Computation& to);
  Instruction* compare(const Instruction& instruction, Computation& to);

  // The same operation on the real, or the imaginary, parts of its complex operands.
  Instruction* on_part(const Instruction& instruction, Computation& to, bool imaginary,
                       Computation* called = nullptr);
  Instruction* mapped(const Instruction& instruction, int operand) const {
    return values_.at(instruction.operand(operand));
  }
  Parts parts(const Instruction& instruction, int operand) const {
    return parts_of(mapped(instruction, operand));
  }
  Instruction* zeros(Instruction* like) const;
  static Status refuse(const Instruction& instruction) {
    return unimplemented("'" + instruction.name() +
                         "': " + std::string(ir::to_string(instruction.opcode())) +
                         " of complex numbers is not supported");
  }

  const Module& from_;
  std::unique_ptr<Module> made_;
  std::unordered_map<const Instruction*, Instruction*> values_;
  std::unordered_map<const Computation*, Computation*> known_[4];
};

Result<std::unique_ptr<Module>> Expander::expand() {
  made_ = std::make_unique<Module>(from_.name());
  PLIMSOLL_ASSIGN_OR_RETURN(Computation* const entry,
                            computation(*from_.entry(), Form::interleaved));
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

// Values of called computations are mapped apart from each other: none refers to another's.
Result<Computation*> Expander::computation(const Computation& from, Form form) {
  Computation*& known = known_[static_cast<int>(form)][&from];
  if (known != nullptr) return known;
  Computation* const to = made_->add_computation(from.name());
  PLIMSOLL_RETURN_IF_ERROR(add_parameters(from, form, *to));
  for (const auto& instruction : from.instructions()) {
    if (instruction->opcode() == Opcode::parameter) continue;
    auto made = expand(*instruction, *to);
    if (!made.ok()) return made.status();
    values_[instruction.get()] = *made;
  }
  PLIMSOLL_RETURN_IF_ERROR(finish(from, form, *to));
  known_[static_cast<int>(form)][&from] = to;
  return to;
}

Status Expander::add_parameters(const Computation& from, Form form, Computation& to) {
  if (form == Form::parts || form == Form::sort) {
    return add_scalars(from, form == Form::sort, to);
  }
  for (const Instruction* const parameter : from.parameters()) {
    const std::int64_t number = parameter->attributes().parameter_number;
    if (form == Form::whole) {
      values_[parameter] =
          to.add_parameter(number, expanded(parameter->shape()), parameter->name());
      continue;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const Shape shape, interleaved(parameter->shape()));
    values_[parameter] =
        take_apart(to.add_parameter(number, shape, parameter->name()), parameter->shape());
  }
  return ok_status();
}

// Example: (c64 a, s32 b) becomes (f32 a, f32 a', s32 b); of a comparator, (c64 a, c64 b) becomes
// (f32 a, f32 b, f32 a', f32 b').
Status Expander::add_scalars(const Computation& from, bool in_pairs, Computation& to) {
  const auto& parameters = from.parameters();
  const std::size_t step = in_pairs ? 2 : 1;
  std::int64_t number = 0;
  for (std::size_t first = 0; first + step <= parameters.size(); first += step) {
    const bool is_pair = is_complex(parameters[first]);
    std::vector<Instructions> made(step);
    for (int part = 0; part < (is_pair ? 2 : 1); ++part) {
      for (std::size_t i = 0; i < step; ++i) {
        const Shape shape = part_shape(parameters[first + i]->shape());
        made[i].push_back(to.add_parameter(number++, shape));
      }
    }
    for (std::size_t i = 0; i < step; ++i) {
      values_[parameters[first + i]] = is_pair ? tuple_of({made[i][0], made[i][1]}) : made[i][0];
    }
  }
  return ok_status();
}

Status Expander::finish(const Computation& from, Form form, Computation& to) {
  Instruction* root = values_.at(from.root());
  const Shape& shape = from.root()->shape();
  if (form == Form::interleaved) {
    PLIMSOLL_ASSIGN_OR_RETURN(root, put_together(root, shape));
  } else if (form == Form::parts && shape.is_tuple()) {
    Instructions flat;
    for (std::size_t i = 0; i < shape.elements().size(); ++i) {
      Instruction* const one = element(root, static_cast<std::int64_t>(i));
      if (!has_complex(shape.elements()[i])) {
        flat.push_back(one);
        continue;
      }
      const Parts pair = parts_of(one);
      flat.insert(flat.end(), {pair.real, pair.imaginary});
    }
    root = to.add_tuple(std::move(flat));
  }
  to.set_root(root);
  return ok_status();
}

Instruction* Expander::zeros(Instruction* like) const {
  Computation& to = *like->parent();
  Instruction* const zero = to.add_constant(Literal(Shape(like->shape().dtype(), {})));
  return like->shape().rank() == 0 ? zero : to.add(Opcode::broadcast, like->shape(), {zero});
}

Instruction* Expander::on_part(const Instruction& instruction, Computation& to, bool imaginary,
                               Computation* called) {
  Instructions operands;
  for (int i = 0; i < instruction.operand_count(); ++i) {
    Instruction* const operand = mapped(instruction, i);
    operands.push_back(is_complex(instruction.operand(i)) ? element(operand, imaginary ? 1 : 0)
                                                          : operand);
  }
  Instruction* const made =
      to.add(instruction.opcode(), part_shape(instruction.shape()), std::move(operands),
             instruction.name(), instruction.attributes());
  if (called != nullptr) made->set_called_computations({called});
  return made;
}

Result<Instruction*> Expander::expand(const Instruction& instruction, Computation& to) {
  const auto& operands = instruction.operands();
  const bool reads = std::any_of(operands.begin(), operands.end(), [](const Instruction* operand) {
    return has_complex(operand->shape());
  });
  switch (instruction.opcode()) {
    case Opcode::tuple:
    case Opcode::get_tuple_element:
    case Opcode::opt_barrier:
    case Opcode::call:
    case Opcode::while_:
    case Opcode::conditional:
    case Opcode::fusion:
      return keep(instruction, to, Form::whole);
    default:
      break;
  }
  if (!reads && !has_complex(instruction.shape())) return keep(instruction, to, Form::whole);
  switch (instruction.opcode()) {
    case Opcode::reduce:
    case Opcode::reduce_window:
    case Opcode::scatter:
    case Opcode::sort:
      return variadic(instruction, to);
    case Opcode::custom_call:
      return library_call(instruction, to);
    default:
      break;
  }
  if (is_complex(&instruction)) return expand_complex_result(instruction, to);
  if (instruction.shape().is_array()) return expand_real_result(instruction, to);
  return refuse(instruction);
}

// As it is, with the expanded shapes. What is fused is called: fusions have no tuples in them.
Result<Instruction*> Expander::keep(const Instruction& instruction, Computation& to, Form form) {
  Instructions operands;
  for (const Instruction* const operand : instruction.operands()) {
    operands.push_back(values_.at(operand));
  }
  if (instruction.opcode() == Opcode::get_tuple_element) {
    return element(operands[0], instruction.attributes().tuple_index);
  }
  std::vector<Computation*> called;
  for (const Computation* const one : instruction.called_computations()) {
    PLIMSOLL_ASSIGN_OR_RETURN(Computation* const made, computation(*one, form));
    called.push_back(made);
  }
  const bool is_fused =
      instruction.opcode() == Opcode::fusion &&
      (has_complex(instruction.shape()) ||
       std::any_of(instruction.operands().begin(), instruction.operands().end(),
                   [](const Instruction* operand) { return has_complex(operand->shape()); }));
  Instruction* const made = to.add(
      is_fused ? Opcode::call : instruction.opcode(), expanded(instruction.shape()),
      std::move(operands), instruction.name(), is_fused ? Attributes() : instruction.attributes());
  made->set_called_computations(std::move(called));
  return made;
}

Instruction* Expander::constant(const Instruction& instruction, Computation& to) {
  const Literal& value = *instruction.attributes().literal;
  const Shape shape = part_shape(instruction.shape());
  if (value.is_elided()) {
    return tuple_of(
        {to.add_constant(Literal::elided(shape)), to.add_constant(Literal::elided(shape))});
  }
  Literal real(shape), imaginary(shape);
  const auto size = at(ir::dtype_bytes(shape.dtype()));
  const std::span<const std::byte> from = value.bytes();
  const std::span<std::byte> first = real.mutable_bytes(), second = imaginary.mutable_bytes();
  for (std::size_t i = 0; i < first.size(); i += size) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(2 * i), size,
                first.begin() + static_cast<std::ptrdiff_t>(i));
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(2 * i + size), size,
                second.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return tuple_of({to.add_constant(std::move(real)), to.add_constant(std::move(imaginary))});
}

Instruction* Expander::convert(const Instruction& instruction, Computation& to) {
  const Shape shape = part_shape(instruction.shape());
  const auto converted = [&](Instruction* value) {
    return value->shape() == shape ? value : to.add(Opcode::convert, shape, {value});
  };
  if (!is_complex(instruction.operand(0))) {
    Instruction* const real = converted(mapped(instruction, 0));
    return tuple_of({real, zeros(real)});
  }
  const Parts from = parts(instruction, 0);
  return tuple_of({converted(from.real), converted(from.imaginary)});
}

// Equal where both parts are.
Instruction* Expander::compare(const Instruction& instruction, Computation& to) {
  Instruction* const real = on_part(instruction, to, false);
  Instruction* const imaginary = on_part(instruction, to, true);
  real->set_shape(instruction.shape());
  imaginary->set_shape(instruction.shape());
  const bool is_equal =
      instruction.attributes().comparison_direction == ir::ComparisonDirection::eq;
  return to.add(is_equal ? Opcode::and_ : Opcode::or_, instruction.shape(), {real, imaginary});
}

Result<Instruction*> Expander::expand_complex_result(const Instruction& instruction,
                                                     Computation& to) {
  switch (instruction.opcode()) {
    case Opcode::constant:
      return constant(instruction, to);
    case Opcode::convert:
      return convert(instruction, to);
    case Opcode::complex:
      return tuple_of({mapped(instruction, 0), mapped(instruction, 1)});
    case Opcode::iota: {
      Instruction* const real = on_part(instruction, to, false);
      return tuple_of({real, zeros(real)});
    }
    case Opcode::dot:
    case Opcode::convolution:
      return product(instruction, to);
    case Opcode::copy:
    case Opcode::reshape:
    case Opcode::bitcast:
    case Opcode::broadcast:
    case Opcode::transpose:
    case Opcode::slice:
    case Opcode::dynamic_slice:
    case Opcode::dynamic_update_slice:
    case Opcode::pad:
    case Opcode::concatenate:
    case Opcode::reverse:
    case Opcode::gather:
    case Opcode::select:
    case Opcode::reduce_precision:
    case Opcode::all_gather:
    case Opcode::all_to_all:
    case Opcode::ragged_all_to_all:
    case Opcode::collective_permute:
    case Opcode::collective_broadcast:
      if (instruction.opcode() == Opcode::bitcast &&
          instruction.operand(0)->shape().dtype() != instruction.shape().dtype()) {
        return refuse(instruction);
      }
      return tuple_of({on_part(instruction, to, false), on_part(instruction, to, true)});
    case Opcode::all_reduce:
    case Opcode::reduce_scatter: {
      if (!ir::is_binary_computation(*instruction.to_apply(), Opcode::add)) {
        return refuse(instruction);
      }
      Computation* const sum =
          ir::scalar_computation(*made_, Opcode::add, ir::part_dtype(instruction.shape().dtype()));
      return tuple_of({on_part(instruction, to, false, sum), on_part(instruction, to, true, sum)});
    }
    default:
      break;
  }
  std::optional<Parts> made;
  if (instruction.operand_count() == 1 && is_complex(instruction.operand(0))) {
    made = complex_unary(instruction.opcode(), parts(instruction, 0));
  } else if (instruction.operand_count() == 2 && is_complex(instruction.operand(0)) &&
             is_complex(instruction.operand(1))) {
    made = complex_binary(instruction.opcode(), parts(instruction, 0), parts(instruction, 1));
  }
  if (!made.has_value()) return refuse(instruction);
  return tuple_of(*made);
}

Result<Instruction*> Expander::expand_real_result(const Instruction& instruction, Computation& to) {
  switch (instruction.opcode()) {
    case Opcode::real:
    case Opcode::convert: {
      Instruction* const real = parts(instruction, 0).real;
      if (real->shape() == instruction.shape()) return real;
      return to.add(Opcode::convert, instruction.shape(), {real});
    }
    case Opcode::imag:
      return parts(instruction, 0).imaginary;
    case Opcode::abs:
      return complex_abs(parts(instruction, 0));
    case Opcode::compare:
      return compare(instruction, to);
    default:
      return refuse(instruction);
  }
}

// (a + ib)(c + id) = (ac - bd) + i(ad + bc), of sums of products too. A real factor has two terms.
Result<Instruction*> Expander::product(const Instruction& instruction, Computation& to) {
  const Shape shape = part_shape(instruction.shape());
  const auto multiply = [&](Instruction* a, Instruction* b) {
    return to.add(instruction.opcode(), shape, {a, b}, instruction.name(),
                  instruction.attributes());
  };
  const bool first = is_complex(instruction.operand(0));
  const bool second = is_complex(instruction.operand(1));
  Instruction* const a = mapped(instruction, 0);
  Instruction* const b = mapped(instruction, 1);
  if (!first) return tuple_of({multiply(a, element(b, 0)), multiply(a, element(b, 1))});
  if (!second) return tuple_of({multiply(element(a, 0), b), multiply(element(a, 1), b)});
  const Parts x = parts_of(a), y = parts_of(b);
  return tuple_of(
      {to.add(Opcode::subtract, shape,
              {multiply(x.real, y.real), multiply(x.imaginary, y.imaginary)}),
       to.add(Opcode::add, shape, {multiply(x.real, y.imaginary), multiply(x.imaginary, y.real)})});
}

// Functions of libraries take and give complex arrays as they lie in memory.
Result<Instruction*> Expander::library_call(const Instruction& instruction, Computation& to) {
  Instructions operands;
  for (int i = 0; i < instruction.operand_count(); ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(
        Instruction* const one,
        put_together(mapped(instruction, i), instruction.operand(i)->shape()));
    operands.push_back(one);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Shape shape, interleaved(instruction.shape()));
  Instruction* const made = to.add(Opcode::custom_call, std::move(shape), std::move(operands),
                                   instruction.name(), instruction.attributes());
  return take_apart(made, instruction.shape());
}

// An operand more for each complex one, and a result. Sums, and scatters that only replace, go part
// by part: as fast as real ones.
Result<Instruction*> Expander::variadic(const Instruction& instruction, Computation& to) {
  const bool sorts = instruction.opcode() == Opcode::sort;
  if (!sorts && is_complex(&instruction)) {
    const Computation& body = *instruction.to_apply();
    const bool replaces = body.root()->opcode() == Opcode::parameter &&
                          body.root()->attributes().parameter_number == 1;
    if (ir::is_binary_computation(body, Opcode::add)) {
      Computation* const sum =
          ir::scalar_computation(*made_, Opcode::add, ir::part_dtype(instruction.shape().dtype()));
      return tuple_of({on_part(instruction, to, false, sum), on_part(instruction, to, true, sum)});
    }
    if (instruction.opcode() == Opcode::scatter && replaces) {
      const DType dtype = ir::part_dtype(instruction.shape().dtype());
      Computation* const last = made_->add_computation("replace");
      (void)last->add_parameter(0, Shape(dtype, {}));
      last->set_root(last->add_parameter(1, Shape(dtype, {})));
      return tuple_of(
          {on_part(instruction, to, false, last), on_part(instruction, to, true, last)});
    }
  }
  Instructions operands;
  for (int i = 0; i < instruction.operand_count(); ++i) {
    Instruction* const operand = mapped(instruction, i);
    if (!is_complex(instruction.operand(i))) {
      operands.push_back(operand);
      continue;
    }
    const Parts pair = parts_of(operand);
    operands.insert(operands.end(), {pair.real, pair.imaginary});
  }
  PLIMSOLL_ASSIGN_OR_RETURN(Computation* const called,
                            computation(*instruction.to_apply(), sorts ? Form::sort : Form::parts));
  const bool has_one = instruction.shape().is_array();
  const std::vector<Shape> results =
      has_one ? std::vector<Shape>{instruction.shape()} : instruction.shape().elements();
  std::vector<Shape> flat;
  for (const Shape& shape : results) {
    const std::size_t count = has_complex(shape) ? 2 : 1;
    flat.insert(flat.end(), count, part_shape(shape));
  }
  const Shape shape = flat.size() == 1 ? flat[0] : Shape::tuple(flat);
  Instruction* const made = to.add(instruction.opcode(), shape, std::move(operands),
                                   instruction.name(), instruction.attributes());
  made->set_called_computations({called});
  if (flat.size() == 1) return made;
  Instructions elements;
  std::int64_t next = 0;
  for (const Shape& result : results) {
    if (!has_complex(result)) {
      elements.push_back(element(made, next++));
      continue;
    }
    Instruction* const real = element(made, next++);
    elements.push_back(tuple_of({real, element(made, next++)}));
  }
  return has_one ? elements[0] : to.add_tuple(std::move(elements));
}

}  // namespace

Result<std::unique_ptr<Module>> expand_complex(std::unique_ptr<Module> module) {
  if (!has_complex(*module)) return module;
  Expander expander(*module);
  return expander.expand();
}

}  // namespace plimsoll::passes
