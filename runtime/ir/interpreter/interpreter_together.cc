// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/interpreter/interpreter_scalar_program.h"
#include "runtime/ir/participants.h"

// Collectives among several participants: each shows its operands, and makes its own result of
// everybody's, element by element.
namespace plimsoll::ir::interpreter {
namespace {

using Values = std::vector<const Literal*>;  // of one operand, by members of the group

// The number of elements of an array that come before index i + 1 of `dimension` counts up.
struct Along {
  std::int64_t outer = 1, size = 1, inner = 1;
};
Along along(const Shape& shape, int dimension) {
  Along made;
  for (int i = 0; i < shape.rank(); ++i) {
    (i < dimension ? made.outer : i == dimension ? made.size : made.inner) *= shape.dim(i);
  }
  return made;
}

void copy_element(const Literal& from, std::int64_t at_from, Literal& to, std::int64_t at_to) {
  const std::int64_t bytes = dtype_bytes(to.shape().dtype());
  std::memcpy(to.mutable_bytes().data() + at_to * bytes, from.bytes().data() + at_from * bytes,
              static_cast<std::size_t>(bytes));
}

// Element `at(i)` of every member, reduced in order, for each element i of `shape`.
template <typename F>
Result<Literal> reduced(Context& context, const Instruction& instruction, const Values& values,
                        const Shape& shape, F&& at) {
  const Computation& computation = *instruction.to_apply();
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarFunction function,
                            ScalarFunction::make(context, computation, widening_for(computation)));
  const DType first = function.parameters()[0], second = function.parameters()[1];
  const DType returned = function.results()[0], dtype = shape.dtype();
  Literal result(shape);
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    const auto element = [&](std::size_t m, DType wanted, std::uint64_t& bits) {
      const DType from = values[m]->shape().dtype();
      convert_elements({from, values[m]->bytes().data() + at(i) * dtype_bytes(from)}, wanted,
                       reinterpret_cast<std::byte*>(&bits), 1);
    };
    std::uint64_t running = 0, next = 0, made = 0;
    element(0, first, running);
    for (std::size_t m = 1; m < values.size(); ++m) {
      element(m, second, next);
      const std::byte* const arguments[] = {reinterpret_cast<const std::byte*>(&running),
                                            reinterpret_cast<const std::byte*>(&next)};
      std::byte* const results[] = {reinterpret_cast<std::byte*>(&made)};
      PLIMSOLL_RETURN_IF_ERROR(function.call(arguments, results));
      convert_elements({returned, reinterpret_cast<const std::byte*>(&made)}, first,
                       reinterpret_cast<std::byte*>(&running), 1);
    }
    convert_elements({first, reinterpret_cast<const std::byte*>(&running)}, dtype,
                     result.mutable_bytes().data() + i * dtype_bytes(dtype), 1);
  }
  return result;
}

Result<Literal> evaluate_one(Context& context, const Instruction& instruction, const Values& values,
                             std::size_t self, const Shape& shape) {
  const auto members = static_cast<std::int64_t>(values.size());
  const auto position = static_cast<std::int64_t>(self);
  const auto& dimensions = instruction.attributes().dimensions;
  const int dimension = dimensions.empty() ? 0 : static_cast<int>(dimensions[0]);
  const Along large = shape.is_array() ? along(shape, dimension) : Along();
  switch (instruction.opcode()) {
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
      return reduced(context, instruction, values, shape, [](std::int64_t i) { return i; });
    case Opcode::reduce_scatter:
      return reduced(context, instruction, values, shape, [&](std::int64_t i) {
        const std::int64_t inner = i % large.inner, middle = i / large.inner % large.size,
                           outer = i / (large.inner * large.size);
        return ((outer * members + position) * large.size + middle) * large.inner + inner;
      });
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::all_to_all: {
      // Where the dimension stands at piece m, that is member m's: what it has there for this one,
      // or all that it has.
      const bool gathers = instruction.opcode() != Opcode::all_to_all;
      const std::int64_t piece = large.size / members;
      Literal result(shape);
      for (std::int64_t i = 0; i < shape.element_count(); ++i) {
        const std::int64_t inner = i % large.inner, middle = i / large.inner % large.size,
                           outer = i / (large.inner * large.size);
        const std::int64_t member = middle / piece, rest = middle % piece;
        const std::int64_t from =
            gathers ? outer * piece + rest : outer * large.size + position * piece + rest;
        copy_element(*values[at(member)], from * large.inner + inner, result, i);
      }
      return result;
    }
    case Opcode::collective_broadcast:
      return *values[0];
    default:
      return unsupported(instruction, "with several participants");
  }
}

// Whether a group of so many can cut `operand` up as the operation does.
Status check_pieces(const Instruction& instruction, const Shape& operand, const Shape& result,
                    std::size_t members) {
  const Opcode opcode = instruction.opcode();
  const auto& dimensions = instruction.attributes().dimensions;
  const bool gathers = opcode == Opcode::all_gather || opcode == Opcode::all_gather_start;
  const bool scatters = opcode == Opcode::reduce_scatter;
  const bool trades = opcode == Opcode::all_to_all && !dimensions.empty();
  if (!gathers && !scatters && !trades) return ok_status();
  const auto count = static_cast<std::int64_t>(members);
  const std::int64_t in = operand.dim(static_cast<int>(dimensions[0])),
                     out = result.dim(static_cast<int>(dimensions[0]));
  if (gathers ? out == in * count : scatters ? in == out * count : in % count == 0) {
    return ok_status();
  }
  return invalid_argument(fmt::format("{} {}: {} and {} in a group of {} participants",
                                      to_string(opcode), instruction.name(), operand.to_string(),
                                      result.to_string(), members));
}

}  // namespace

Result<Literal> together(Context& context, const Instruction& instruction, Operands operands,
                         const Shape& shape) {
  if (context.participation.place == nullptr) {
    return unsupported(instruction, "several participants (interpret_together runs them all)");
  }
  const std::int64_t participant = context.participation.participant;
  const bool permutes = instruction.opcode() == Opcode::collective_permute ||
                        instruction.opcode() == Opcode::collective_permute_start;
  std::vector<std::int64_t> group;
  std::int64_t source = -1;
  if (permutes) {
    PLIMSOLL_ASSIGN_OR_RETURN(const Pairs pairs, permuted_participants(instruction));
    for (const auto& [from, to] : pairs) {
      if (to == participant) source = from;
    }
    group.resize(at(topology_of(instruction).participants()));
    std::iota(group.begin(), group.end(), 0);
  } else {
    PLIMSOLL_ASSIGN_OR_RETURN(const Groups groups, collective_groups(instruction));
    group = *std::find_if(groups.begin(), groups.end(), [&](const auto& one) {
      return std::find(one.begin(), one.end(), participant) != one.end();
    });
  }
  const auto self =
      static_cast<std::size_t>(std::find(group.begin(), group.end(), participant) - group.begin());
  const std::size_t results = shape.is_tuple() ? shape.elements().size() : 1;
  const bool swaps =
      instruction.opcode() == Opcode::all_to_all && instruction.attributes().dimensions.empty();
  if (results != operands.size() || (swaps && results != group.size())) {
    return unsupported(instruction, fmt::format("{} operands, {} results, {} participants",
                                                operands.size(), results, group.size()));
  }
  for (std::size_t i = 0; i < results; ++i) {
    PLIMSOLL_RETURN_IF_ERROR(check_pieces(instruction, operands[i]->shape(),
                                          shape.is_tuple() ? shape.elements()[i] : shape,
                                          group.size()));
  }
  std::vector<Literal> made;
  const auto work = [&](std::span<const void* const> shown) -> Status {
    const auto value = [&](std::size_t member, std::size_t operand) {
      return (*static_cast<const Operands*>(shown[member]))[operand];
    };
    for (std::size_t i = 0; i < results; ++i) {
      const Shape& of = shape.is_tuple() ? shape.elements()[i] : shape;
      if (permutes) {
        made.push_back(source < 0 ? Literal(of) : *value(at(source), i));
      } else if (swaps) {
        made.push_back(*value(i, self));
      } else {
        Values values;
        for (std::size_t m = 0; m < group.size(); ++m) values.push_back(value(m, i));
        PLIMSOLL_ASSIGN_OR_RETURN(Literal one,
                                  evaluate_one(context, instruction, values, self, of));
        made.push_back(std::move(one));
      }
    }
    return ok_status();
  };
  const std::string what =
      fmt::format("{} '{}'", to_string(instruction.opcode()), instruction.name());
  PLIMSOLL_RETURN_IF_ERROR(context.participation.place->meet({group, self, what}, &operands, work));
  return shape.is_tuple() ? Literal::tuple(std::move(made)) : std::move(made[0]);
}

}  // namespace plimsoll::ir::interpreter
