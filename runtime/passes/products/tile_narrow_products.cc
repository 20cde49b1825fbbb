// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/products/narrow_weights.h"
#include "runtime/passes/rewriter.h"

// Weights of 8 bits that many rows meet are worth converting for a product, but not all at once: as
// floats they are four times their bytes, which have to be there, written and read again. In a
// loop over tiles of their columns a tile at a time becomes floats.
//
// Example: `y = dot(x, convert(w))` of x f32[32,k], w s8[k,n] becomes a loop that begins with zeros
// for y and in round i puts dot(x, convert(dynamic-slice(w, 0, i * tile))) at column i * tile of
// it. The last tile ends where the columns do, and computes some again where the tile does not
// divide them: both slices are clamped alike.

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Instructions = std::vector<Instruction*>;

// Where more rows meet them the product takes the time, and is slower in parts.
constexpr std::int64_t kMostTiledRows = 256;
constexpr std::int64_t kLeastTile = 64, kTileMultiple = 16;
// Fewer tiles save little.
constexpr std::int64_t kLeastTiles = 4;

// Columns of a tile, of `most_bytes` about; 0: they are not worth cutting.
std::int64_t tile_of(std::int64_t columns, std::int64_t column_bytes, std::int64_t most_bytes) {
  const std::int64_t most =
      std::max(kLeastTile, most_bytes / column_bytes / kTileMultiple * kTileMultiple);
  const std::int64_t tiles = (columns + most - 1) / most;
  if (tiles < kLeastTiles) return 0;
  for (std::int64_t tile = most; 2 * tile > most; tile -= kTileMultiple) {
    if (tile >= kLeastTile && columns % tile == 0) return tile;
  }
  const std::int64_t even = (columns + tiles - 1) / tiles;
  return (even + kTileMultiple - 1) / kTileMultiple * kTileMultiple;
}

// What a tile of the weights is computed from: values with the dim along which they have the
// columns; -1: none, and a tile takes all of it.
struct Leaf {
  Instruction* value;
  int dim;
};

// The operand's dim that a reshape hands on as its own `dim`; -1: none.
int dim_before_reshape(const Shape& from, const Shape& to, int dim) {
  std::int64_t before = 1, there = 1;
  for (int d = 0; d < dim; ++d) before *= to.dim(d);
  int found = -1;
  for (int d = 0; d < from.rank(); ++d) {
    if (there == before && from.dim(d) == to.dim(dim)) found = d;
    there *= from.dim(d);
  }
  return found;
}

// The dim of its operand number `i` along which that has what `value` has along `dim`: -1 where it
// is the same everywhere along it, nothing where it lies otherwise.
std::optional<int> dim_of_operand(const Instruction& value, int i, int dim) {
  const Shape& from = value.operand(i)->shape();
  if (dim < 0 || from.rank() == 0) return -1;
  switch (value.opcode()) {
    case Opcode::broadcast: {
      const auto& dims = value.attributes().dimensions;
      const auto at = std::find(dims.begin(), dims.end(), dim);
      return at == dims.end() ? -1 : static_cast<int>(at - dims.begin());
    }
    case Opcode::reshape: {
      const int before = dim_before_reshape(from, value.shape(), dim);
      return before < 0 ? std::nullopt : std::optional(before);
    }
    case Opcode::concatenate:
      return value.attributes().dimensions.at(0) == dim ? std::nullopt : std::optional(dim);
    default:  // a bitcast-convert changes the last dim alone, where that is too short to be cut
      return dim;
  }
}

// The leaves of `value`, as many as it reads, in the order of a walk; false where one has no dim of
// columns of its own.
bool find_leaves(Instruction& value, int dim, std::vector<Leaf>& leaves) {
  for (int i = 0; i < std::ssize(value.operands()); ++i) {
    Instruction& operand = *value.operand(i);
    const std::optional<int> at = dim_of_operand(value, i, dim);
    if (!at.has_value()) return false;
    if (*at >= 0 && is_on_the_way(operand, OnTheWay::joined)) {
      if (!find_leaves(operand, *at, leaves)) return false;
    } else {
      leaves.push_back({&operand, *at});
    }
  }
  return true;
}

Instruction* number(Computation& computation, std::int64_t value) {
  return computation.add_constant(ir::Literal::scalar(static_cast<std::int32_t>(value)));
}

Shape with_dim(const Shape& shape, int dim, std::int64_t size) {
  std::vector<std::int64_t> dims = shape.dims().to_vector();
  dims[at(dim)] = size;
  return Shape(shape.dtype(), ir::Dims(dims));
}

Instructions starts(Computation& to, int rank, int dim, Instruction* start) {
  Instructions all(at(rank), number(to, 0));
  all[at(dim)] = start;
  return all;
}

// A product, the dim of its weights that is cut, and how.
struct Cut {
  ProductSides sides;
  int weights_dim = 0, result_dim = 0;
  std::int64_t tile = 0;
  std::vector<Leaf> leaves;
};

// The state of the loop is a tuple: the round, the result, the rows, the leaves.
class Tiles {
 public:
  Tiles(Rewriter& rewriter, Instruction& dot, const Cut& cut)
      : rewriter_(rewriter), module_(*dot.parent()->module()), dot_(dot), cut_(cut) {}

  Instruction* make() {
    Instruction* const zero =
        rewriter_.add_splat(dot_.shape(), ir::Literal(Shape(dot_.shape().dtype(), {})));
    Instructions state = {rewriter_.add_constant(ir::Literal::scalar(std::int32_t{0})), zero,
                          dot_.operand(cut_.sides.rows)};
    for (const Leaf& leaf : cut_.leaves) {
      places_.push_back(place_of(leaf, state));
    }
    std::vector<Shape> shapes;
    for (const Instruction* one : state) shapes.push_back(one->shape());
    const Shape shape = Shape::tuple(shapes);
    Instruction* const first = rewriter_.add(Opcode::tuple, shape, std::move(state));
    Instruction* const loop = rewriter_.add(Opcode::while_, shape, {first});
    loop->set_called_computations({condition(shape), body(shape)});
    Attributes result;
    result.tuple_index = kResult;
    return rewriter_.add(Opcode::get_tuple_element, dot_.shape(), {loop}, std::move(result));
  }

 private:
  static constexpr std::int64_t kRound = 0, kResult = 1, kRows = 2;

  // Numbers that are the same everywhere stand in the body; equal leaves are one.
  std::int64_t place_of(const Leaf& leaf, Instructions& state) const {
    if (leaf.value->opcode() == Opcode::constant && leaf.value->shape().rank() == 0) return -1;
    const auto there = std::find(state.begin() + kRows, state.end(), leaf.value);
    if (there != state.end()) return there - state.begin();
    state.push_back(leaf.value);
    return std::ssize(state) - 1;
  }

  Computation* condition(const Shape& state) {
    Computation* const made = module_.add_computation("tiles.condition");
    Instruction* const round = made->add_get_tuple_element(made->add_parameter(0, state), kRound);
    const std::int64_t columns = dot_.shape().dim(cut_.result_dim);
    Attributes less;
    less.comparison_direction = ir::ComparisonDirection::lt;
    made->set_root(made->add(Opcode::compare, Shape(DType::pred, {}),
                             {round, number(*made, (columns + cut_.tile - 1) / cut_.tile)}, {},
                             std::move(less)));
    return made;
  }

  Computation* body(const Shape& state) {
    Computation* const made = module_.add_computation("tiles.body");
    Instruction* const all = made->add_parameter(0, state);
    Instructions now;
    for (std::int64_t i = 0; i < std::ssize(state.elements()); ++i) {
      now.push_back(made->add_get_tuple_element(all, i));
    }
    const Shape scalar(DType::s32, {});
    Instruction* const start =
        made->add(Opcode::multiply, scalar, {now[kRound], number(*made, cut_.tile)});
    Instructions parts;
    for (std::size_t i = 0; i < cut_.leaves.size(); ++i) {
      parts.push_back(part(*made, cut_.leaves[i], places_[i], now, start));
    }
    std::size_t next_part = 0;
    Instruction* const weights =
        tile(*made, dot_.operand(1 - cut_.sides.rows), cut_.weights_dim, parts, next_part);
    const bool rows_first = cut_.sides.rows == 0;
    Instruction* const product = made->add(
        Opcode::dot, with_dim(dot_.shape(), cut_.result_dim, cut_.tile),
        rows_first ? Instructions{now[kRows], weights} : Instructions{weights, now[kRows]}, {},
        dot_.attributes());
    Instructions update = starts(*made, dot_.shape().rank(), cut_.result_dim, start);
    update.insert(update.begin(), {now[kResult], product});
    now[kResult] = made->add(Opcode::dynamic_update_slice, dot_.shape(), std::move(update));
    now[kRound] = made->add(Opcode::add, scalar, {now[kRound], number(*made, 1)});
    made->set_root(made->add_tuple(std::move(now)));
    return made;
  }

  // Of a leaf, what the round's tile reads.
  Instruction* part(Computation& to, const Leaf& leaf, std::int64_t place, const Instructions& now,
                    Instruction* start) const {
    if (place < 0) return to.add_clone(*leaf.value, {});
    Instruction* const whole = now[at(place)];
    if (leaf.dim < 0) return whole;
    const Shape shape = with_dim(whole->shape(), leaf.dim, cut_.tile);
    Attributes slice;
    slice.slice_sizes = shape.dims().to_vector();
    Instructions operands = starts(to, shape.rank(), leaf.dim, start);
    operands.insert(operands.begin(), whole);
    return to.add(Opcode::dynamic_slice, shape, std::move(operands), {}, std::move(slice));
  }

  // The round's tile of `value`, as find_leaves walks.
  Instruction* tile(Computation& to, Instruction* value, int dim, const Instructions& parts,
                    std::size_t& next_part) const {
    Instructions operands;
    for (int i = 0; i < std::ssize(value->operands()); ++i) {
      Instruction* const operand = value->operand(i);
      const int at_operand = *dim_of_operand(*value, i, dim);
      operands.push_back(at_operand >= 0 && is_on_the_way(*operand, OnTheWay::joined)
                             ? tile(to, operand, at_operand, parts, next_part)
                             : parts[next_part++]);
    }
    return to.add(value->opcode(), with_dim(value->shape(), dim, cut_.tile), std::move(operands),
                  {}, value->attributes());
  }

  Rewriter& rewriter_;
  ir::Module& module_;
  Instruction& dot_;
  const Cut& cut_;
  std::vector<std::int64_t> places_;  // of the leaves in the state
};

// Null: it is no product by weights that are worth cutting.
std::optional<Cut> cut_of(Instruction& dot, std::int64_t tile_bytes) {
  for (const ProductSides& sides : sides_of(dot)) {
    Instruction& weights = *dot.operand(1 - sides.rows);
    const Shape &shape = weights.shape(), &rows = sides.rows_of(dot).shape();
    if (sides.row_count > kMostTiledRows || !is_widened(weights, OnTheWay::joined)) continue;
    // The longest dim of columns.
    int longest = -1;
    for (int d = 0; d < shape.rank(); ++d) {
      if (d != sides.weights_depth && (longest < 0 || shape.dim(d) > shape.dim(longest))) {
        longest = d;
      }
    }
    if (longest < 0) continue;
    Cut cut{.sides = sides, .weights_dim = longest};
    const std::int64_t columns = shape.dim(longest);
    if (columns == 0 || shape.byte_size() == 0) continue;
    // Each round reads the rows again.
    cut.tile =
        tile_of(columns, shape.byte_size() / columns, std::max(tile_bytes, 2 * rows.byte_size()));
    if (cut.tile == 0 || !find_leaves(weights, longest, cut.leaves)) continue;
    const int free = longest - (longest > sides.weights_depth ? 1 : 0);
    cut.result_dim = sides.rows == 0 ? rows.rank() - 1 + free : free;
    return cut;
  }
  return std::nullopt;
}

}  // namespace

Result<bool> tile_narrow_products(ir::Module& module, std::int64_t tile_bytes) {
  return sweep_programs(module, [tile_bytes](Rewriter& rewriter, Instruction& at) -> Instruction* {
    const std::optional<Cut> cut = cut_of(at, tile_bytes);
    return cut.has_value() ? Tiles(rewriter, at, *cut).make() : nullptr;
  });
}

}  // namespace plimsoll::passes
