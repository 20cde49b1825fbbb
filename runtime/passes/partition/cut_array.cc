// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/cut_array.h"

#include <utility>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/partition/retile.h"
#include "runtime/passes/partition/tile_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using ir::Sharding;

Instruction* add_slice_along(Instruction* value, int dimension, std::int64_t start,
                             std::int64_t size, std::int64_t stride) {
  const Dims& dims = value->shape().dims();
  Dims made = dims;
  Attributes attributes;
  attributes.slice_starts.assign(at(dims.size()), 0);
  attributes.slice_strides.assign(at(dims.size()), 1);
  attributes.slice_limits = dims.to_vector();
  attributes.slice_starts[at(dimension)] = start;
  attributes.slice_limits[at(dimension)] = start + size;
  attributes.slice_strides[at(dimension)] = stride;
  made[dimension] = (size + stride - 1) / stride;
  if (made == dims) return value;
  return value->parent()->add(Opcode::slice, Shape(value->shape().dtype(), made), {value}, {},
                              std::move(attributes));
}

Instruction* add_padded_along(Instruction* value, int dimension, std::int64_t low,
                              std::int64_t high) {
  Dims dims = value->shape().dims();
  Attributes attributes;
  attributes.padding.assign(at(dims.size()), {0, 0, 0});
  attributes.padding[at(dimension)] = {low, high, 0};
  dims[dimension] += low + high;
  ir::Computation& computation = *value->parent();
  const DType dtype = value->shape().dtype();
  Instruction* const zero = computation.add_constant(ir::Literal(Shape(dtype, {})));
  return computation.add(Opcode::pad, Shape(dtype, dims), {value, zero}, {}, std::move(attributes));
}

Attributes without_sharding(const Instruction& instruction) {
  Attributes attributes = instruction.attributes();
  std::erase_if(attributes.extra, [](const auto& one) { return one.first == "sharding"; });
  return attributes;
}

CutArray::CutArray(Instruction& instruction, KnownTiles& tiles)
    : at_(instruction),
      tiles_(tiles),
      computation_(*instruction.parent()),
      partitions_(computation_.module()->num_partitions) {}

bool CutArray::find_tile() {
  if (at_.operands().empty() || !at_.shape().is_array()) return false;
  const KnownTiles::Tile* const known = tiles_.find(at_.operand(0));
  if (known == nullptr) return false;
  seen_ = known->sharding;
  tile_ = known->at;
  return true;
}

Sharding CutArray::uncut(int dimension) const {
  Along along(seen_.tiles.size());
  for (std::size_t d = 0; d < along.size(); ++d) along[d] = static_cast<int>(d);
  along[at(dimension)] = -1;
  return carried(seen_, along, partitions_);
}

Instruction* CutArray::add_look_up_place(int dimension, const std::vector<std::int64_t>& by_place) {
  std::vector<std::int64_t> table;
  for (const std::int64_t tile : seen_.tile_of_partition(partitions_)) {
    table.push_back(by_place[at(seen_.place_of_tile(tile)[at(dimension)])]);
  }
  return add_look_up(computation_, add_partition(computation_), table);
}

Instruction* CutArray::add_dynamic_slice_along(Instruction* value, int dimension,
                                               Instruction* start, std::int64_t size) {
  std::vector<Instruction*> operands{value};
  Attributes attributes;
  attributes.slice_sizes = value->shape().dims().to_vector();
  attributes.slice_sizes[at(dimension)] = size;
  for (int d = 0; d < value->shape().rank(); ++d) {
    operands.push_back(d == dimension ? start : integer(start->shape().dtype(), 0));
  }
  const Shape shape(value->shape().dtype(), Dims(attributes.slice_sizes));
  return computation_.add(Opcode::dynamic_slice, shape, std::move(operands), {},
                          std::move(attributes));
}

Instruction* CutArray::integer(DType dtype, std::int64_t value) {
  ir::Literal literal(Shape(dtype, {}));
  literal.set(0, static_cast<double>(value));
  return computation_.add_constant(std::move(literal));
}

Result<Instruction*> CutArray::known_as(Instruction* made, const Sharding& held) {
  return tiles_.add_whole_of(made, at_.shape(), held);
}

}  // namespace plimsoll::passes
