// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/look_ups.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/partition/retile.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

// Numbers in one shape, and what compares them.
class Numbers {
 public:
  Numbers(ir::Computation& computation, const ir::Dims& dims)
      : computation_(computation), wide_(DType::s64, dims), truths_(DType::pred, dims) {}

  Instruction* number(std::int64_t value) {
    return spread(computation_.add_constant(ir::Literal::scalar(value)));
  }
  Instruction* spread(Instruction* scalar) {
    return computation_.add(Opcode::broadcast, wide_, {scalar});
  }
  Instruction* apply(Opcode opcode, std::vector<Instruction*> operands) {
    return computation_.add(opcode, wide_, std::move(operands));
  }
  Instruction* compare(ir::ComparisonDirection direction, Instruction* a, Instruction* b) {
    Attributes attributes;
    attributes.comparison_direction = direction;
    return computation_.add(Opcode::compare, truths_, {a, b}, {}, std::move(attributes));
  }
  Instruction* both(Instruction* a, Instruction* b) {
    return computation_.add(Opcode::and_, truths_, {a, b});
  }

 private:
  ir::Computation& computation_;
  const Shape wide_, truths_;
};

// Of truths about each number of the index vectors, those about one number.
Instruction* of_number(Instruction* truths, int vectors, std::int64_t number) {
  ir::Computation& computation = *truths->parent();
  Attributes slices;
  ir::Dims dims = truths->shape().dims(), left;
  slices.slice_starts.assign(at(dims.size()), 0);
  slices.slice_strides.assign(at(dims.size()), 1);
  slices.slice_starts[at(vectors)] = number;
  dims[vectors] = 1;
  slices.slice_limits = dims.to_vector();
  slices.slice_limits[at(vectors)] = number + 1;
  for (int i = 0; i < dims.size(); ++i) {
    if (i != vectors) left.push_back(dims[i]);
  }
  Instruction* const one =
      computation.add(Opcode::slice, Shape(DType::pred, dims), {truths}, {}, std::move(slices));
  return computation.add(Opcode::reshape, Shape(DType::pred, left), {one});
}

}  // namespace

Instruction* look_up_inside(const Instruction& gather, const ir::Sharding& table, int dimension,
                            Instruction*& indices) {
  ir::Computation& computation = *indices->parent();
  const ir::GatherDimensions& d = *gather.attributes().gather;
  const auto mapped = std::find(d.start_index_map.begin(), d.start_index_map.end(), dimension);
  const std::int64_t number = mapped - d.start_index_map.begin();
  const std::int64_t size = gather.operand(0)->shape().dim(dimension);
  const std::int64_t tiles = table.tiles[at(dimension)], most = (size + tiles - 1) / tiles;
  std::vector<std::int64_t> starts;
  for (const std::int64_t tile : table.tile_of_partition(computation.module()->num_partitions)) {
    starts.push_back(table.place_of_tile(tile)[at(dimension)] * most);
  }
  Instruction* const start =
      computation.add(Opcode::convert, Shape(DType::s64, {}),
                      {add_look_up(computation, add_partition(computation), starts)});
  Numbers numbers(computation, indices->shape().dims());
  Instruction* const given = numbers.apply(Opcode::convert, {indices});
  // As the whole gather takes them, which moves what lies outside to the nearest place.
  Instruction* const in_whole =
      numbers.apply(Opcode::clamp, {numbers.number(0), given, numbers.number(size - 1)});
  Instruction* const in_tile = numbers.apply(Opcode::subtract, {in_whole, numbers.spread(start)});
  Instruction* const is_inside =
      numbers.both(numbers.compare(ir::ComparisonDirection::ge, in_tile, numbers.number(0)),
                   numbers.compare(ir::ComparisonDirection::lt, in_tile, numbers.number(most)));
  const auto vectors = static_cast<int>(d.index_vector_dim);
  if (vectors == indices->shape().rank()) {
    indices = in_tile;
    return is_inside;
  }
  Attributes along;
  along.dimensions = {vectors};
  Instruction* const which =
      computation.add(Opcode::iota, in_tile->shape(), {}, {}, std::move(along));
  Instruction* const is_it =
      numbers.compare(ir::ComparisonDirection::eq, which, numbers.number(number));
  indices = numbers.apply(Opcode::select, {is_it, in_tile, given});
  return of_number(is_inside, vectors, number);
}

Instruction* add_where_looked_up(const Instruction& gather, Instruction* made,
                                 Instruction* is_inside) {
  ir::Computation& computation = *made->parent();
  Attributes along;
  const auto& offsets = gather.attributes().gather->offset_dims;
  for (int i = 0; i < made->shape().rank(); ++i) {
    const bool is_offset = std::find(offsets.begin(), offsets.end(), i) != offsets.end();
    if (!is_offset) along.dimensions.push_back(i);
  }
  const Shape truths(DType::pred, made->shape().dims());
  Instruction* const inside =
      computation.add(Opcode::broadcast, truths, {is_inside}, {}, std::move(along));
  Instruction* const zero = computation.add_constant(ir::Literal(Shape(made->shape().dtype(), {})));
  Instruction* const nothing = computation.add(Opcode::broadcast, made->shape(), {zero});
  return computation.add(Opcode::select, made->shape(), {inside, made, nothing});
}

}  // namespace plimsoll::passes
