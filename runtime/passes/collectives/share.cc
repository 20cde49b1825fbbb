// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/share.h"

#include <algorithm>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Groups;
using ir::Instruction;
using ir::Literal;
using ir::Opcode;
using ir::Shape;

namespace {

Instruction* insert_constant(Instruction& before, Literal literal) {
  Attributes attributes;
  Shape shape = literal.shape();
  attributes.literal = std::make_shared<const Literal>(std::move(literal));
  return before.parent()->insert_before(&before, Opcode::constant, std::move(shape), {}, {},
                                        std::move(attributes));
}

Instruction* insert_scalar(Instruction& before, DType dtype, double value) {
  Literal literal(Shape(dtype, {}));
  literal.set(0, value);
  return insert_constant(before, std::move(literal));
}

Instruction* insert_spread(Instruction& before, Instruction* scalar, const Shape& like) {
  if (like.is_scalar()) return scalar;
  return before.parent()->insert_before(&before, Opcode::broadcast,
                                        Shape(scalar->shape().dtype(), like.dims()), {scalar});
}

Instruction* insert_quotient(Instruction& before, Instruction& value, std::int64_t count) {
  Instruction* const divisor = insert_spread(
      before, insert_scalar(before, value.shape().dtype(), static_cast<double>(count)),
      value.shape());
  return before.parent()->insert_before(&before, Opcode::divide, value.shape(), {&value, divisor});
}

// Whether the participant that runs this is the first of its group: pred[].
Instruction* insert_is_first(Instruction& before, const Groups& groups) {
  Computation& computation = *before.parent();
  const ir::Topology topology = ir::topology_of(before);
  std::vector<bool> is_first(at(topology.participants()), false);
  for (const auto& group : groups) is_first[at(group[0])] = true;
  const Shape u32(DType::u32, {});
  const auto partition = [&] {
    return computation.insert_before(&before, Opcode::partition_id, u32, {});
  };
  // Mostly partition 0 of every replica.
  bool is_partition_zero = true;
  for (std::size_t i = 0; i < is_first.size(); ++i) {
    is_partition_zero = is_partition_zero &&
                        is_first[i] == (static_cast<std::int64_t>(i) % topology.partitions == 0);
  }
  if (is_partition_zero) {
    Instruction* const zero = insert_scalar(before, DType::u32, 0);
    Instruction* const own = partition();
    return computation.insert_before(&before, Opcode::compare, Shape(DType::pred, {}), {own, zero});
  }
  Literal table(Shape(DType::pred, {topology.participants()}));
  for (std::size_t i = 0; i < is_first.size(); ++i) {
    table.set(static_cast<std::int64_t>(i), is_first[i] ? 1 : 0);
  }
  Instruction* const firsts = insert_constant(before, std::move(table));
  Instruction* const replica = computation.insert_before(&before, Opcode::replica_id, u32, {});
  Instruction* const partitions =
      insert_scalar(before, DType::u32, static_cast<double>(topology.partitions));
  Instruction* const row =
      computation.insert_before(&before, Opcode::multiply, u32, {replica, partitions});
  Instruction* const number =
      computation.insert_before(&before, Opcode::add, u32, {row, partition()});
  Attributes one;
  one.slice_sizes = {1};
  Instruction* const found = computation.insert_before(
      &before, Opcode::dynamic_slice, Shape(DType::pred, {1}), {firsts, number}, {}, one);
  return computation.insert_before(&before, Opcode::reshape, Shape(DType::pred, {}), {found});
}

}  // namespace

bool shares_by_division(DType dtype, std::int64_t count) {
  if (!is_floating(dtype) || ir::is_narrow(dtype)) return false;
  Literal number(Shape(dtype, {}));
  number.set(0, static_cast<double>(count));
  return number.at(0) == static_cast<double>(count);
}

Instruction* add_share(Instruction& before, Instruction& value, const Groups& groups) {
  const std::size_t members = groups[0].size();
  const bool equal = std::all_of(groups.begin(), groups.end(),
                                 [&](const auto& group) { return group.size() == members; });
  if (equal && shares_by_division(value.shape().dtype(), static_cast<std::int64_t>(members))) {
    return insert_quotient(before, value, static_cast<std::int64_t>(members));
  }
  Instruction* const is_first =
      insert_spread(before, insert_is_first(before, groups), value.shape());
  Instruction* const zeros =
      insert_spread(before, insert_scalar(before, value.shape().dtype(), 0), value.shape());
  return before.parent()->insert_before(&before, Opcode::select, value.shape(),
                                        {is_first, &value, zeros});
}

Instruction* add_share_of_program(Instruction& before, Instruction& value, std::int64_t programs,
                                  std::int64_t number) {
  if (shares_by_division(value.shape().dtype(), programs)) {
    return insert_quotient(before, value, programs);
  }
  if (number == 0) return &value;
  return insert_spread(before, insert_scalar(before, value.shape().dtype(), 0), value.shape());
}

}  // namespace plimsoll::passes
