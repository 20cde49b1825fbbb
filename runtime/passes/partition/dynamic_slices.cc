// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/partition/dynamic_slices.h"

#include <map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/partition/cut_array.h"
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

namespace {

// What takes no room.
constexpr std::int64_t kSmallBytes = 64 << 10;

class DynamicSlices : public CutArray {
 public:
  using CutArray::CutArray;

  Result<Instruction*> run() {
    const bool is_slice = at_.opcode() == Opcode::dynamic_slice;
    if (!is_slice && at_.opcode() != Opcode::dynamic_update_slice) return none();
    if (!find_tile()) return none();
    return is_slice ? dynamic_slice() : dynamic_update_slice();
  }

 private:
  // The only dimension that is cut and along which less than all is taken; -1: there are others.
  int moved_dimension(const Dims& part) const {
    int found = -1;
    for (int d = 0; d < part.size(); ++d) {
      if (!is_cut(d) || part[d] == whole()[d]) continue;
      if (found >= 0) return -1;
      found = d;
    }
    return found;
  }

  Instruction* as_number(Instruction* start) {
    return computation_.add(Opcode::convert, Shape(DType::s64, {}), {start});
  }

  // Where the part of `size` elements begins in a tile that has as many more on both sides; before
  // it or behind it where the tile has nothing of the part.
  Instruction* add_start_in(Instruction* given, int d, std::int64_t size) {
    const std::int64_t most = tile_->shape().dim(d);
    const Shape number(DType::s64, {});
    Instruction* const start = as_number(given);
    Instruction* const in_whole =
        computation_.add(Opcode::clamp, number,
                         {integer(DType::s64, 0), start, integer(DType::s64, whole()[d] - size)});
    std::vector<std::int64_t> shifts;
    for (std::int64_t q = 0; q < seen_.tiles[at(d)]; ++q) shifts.push_back(size - q * most);
    Instruction* const shift =
        computation_.add(Opcode::convert, number, {add_look_up_place(d, shifts)});
    Instruction* const in_tile = computation_.add(Opcode::add, number, {in_whole, shift});
    return computation_.add(Opcode::clamp, number,
                            {integer(DType::s64, 0), in_tile, integer(DType::s64, most + size)});
  }

  Result<Instruction*> dynamic_slice() {
    const Dims& dims = at_.shape().dims();
    const int d = moved_dimension(dims);
    if (d < 0 || !starts_are_numbers(1)) return none();
    const std::int64_t size = dims[d];
    // The parts are summed by all, which takes twice the slice, every time; what is small is
    // gathered, in front of a loop.
    const bool is_small = at_.operand(0)->shape().byte_size() < kSmallBytes;
    if (is_small || 2 * size > whole()[d] - tile_->shape().dim(d)) return none();
    Instruction* const padded = add_padded_along(without_beyond(d), d, size, size);
    std::vector<Instruction*> operands = {padded};
    Attributes attributes = without_sharding(at_);
    Dims part = dims;
    for (int e = 0; e < dims.size(); ++e) {
      Instruction* const start = at_.operand(e + 1);
      operands.push_back(e == d ? add_start_in(start, d, size) : as_number(start));
      if (is_cut(e) && e != d) part[e] = tile_->shape().dim(e);
      attributes.slice_sizes[at(e)] = part[e];
    }
    Instruction* const own =
        computation_.add(Opcode::dynamic_slice, Shape(at_.shape().dtype(), part),
                         std::move(operands), {}, std::move(attributes));
    Sharding summed = uncut(d);
    const Sharding held = summed;
    if (summed.tiles.empty()) summed.tiles.assign(at(dims.size()), 1);
    summed.summands = seen_.tiles[at(d)];
    summed.copies = seen_.copies * summed.summands;
    summed.holders.clear();
    // By tile, by place along the dimension, by copy.
    std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> holders;
    const std::vector<std::int64_t> tiles = seen_.tile_of_partition(partitions_);
    const std::vector<std::int64_t> copies = seen_.copy_of_partition(partitions_);
    for (std::int64_t p = 0; p < partitions_; ++p) {
      std::vector<std::int64_t> key = seen_.place_of_tile(tiles[at(p)]);
      const std::int64_t place = std::exchange(key[at(d)], 0);
      key.push_back(place);
      key.push_back(copies[at(p)]);
      holders[key].push_back(p);
    }
    for (const auto& [key, one] : holders) {
      summed.holders.insert(summed.holders.end(), one.begin(), one.end());
    }
    std::int64_t channel = tiles_.take_channel();
    return known_as(add_sum(own, summed, channel), held);
  }

  // Zeros in place of what lies beyond the array.
  Instruction* without_beyond(int d) {
    if (ir::is_even(whole()[d], seen_, d)) return tile_;
    Instruction* const zero =
        computation_.add_constant(ir::Literal(Shape(tile_->shape().dtype(), {})));
    return add_masked(tile_, d, whole()[d], seen_, zero);
  }

  bool starts_are_numbers(int first) const {
    for (int i = first; i < at_.operand_count(); ++i) {
      if (!at_.operand(i)->shape().is_scalar()) return false;
    }
    return at_.operand_count() - first == at_.operand(0)->shape().rank();
  }

  Result<Instruction*> dynamic_update_slice() {
    const Dims& part = at_.operand(1)->shape().dims();
    const int d = moved_dimension(part);
    if (d < 0 || !starts_are_numbers(2)) return none();
    const std::int64_t size = part[d], most = tile_->shape().dim(d);
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const update, tiles_.tile_of(at_.operand(1), uncut(d)));
    Instruction* const padded = add_padded_along(tile_, d, size, size);
    std::vector<Instruction*> operands{padded, update};
    for (int e = 0; e < part.size(); ++e) {
      Instruction* const start = at_.operand(e + 2);
      operands.push_back(e == d ? add_start_in(start, d, size) : as_number(start));
    }
    Instruction* const updated = computation_.add(Opcode::dynamic_update_slice, padded->shape(),
                                                  std::move(operands), {}, without_sharding(at_));
    return known_as(add_slice_along(updated, d, size, most), seen_);
  }
};

}  // namespace

Result<Instruction*> computed_on_dynamic_slices(Instruction& at, KnownTiles& tiles) {
  return DynamicSlices(at, tiles).run();
}

}  // namespace plimsoll::passes
