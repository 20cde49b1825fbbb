// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/passes/partition/tiles.h"

namespace plimsoll::passes {

// Elements start, start + stride, ... of `size` along a dimension; the value itself where that is
// all of it.
ir::Instruction* add_slice_along(ir::Instruction* value, int dimension, std::int64_t start,
                                 std::int64_t size, std::int64_t stride = 1);

// With so many zeros in front and behind along a dimension.
ir::Instruction* add_padded_along(ir::Instruction* value, int dimension, std::int64_t low,
                                  std::int64_t high);

ir::Attributes without_sharding(const ir::Instruction& instruction);

// An instruction whose first operand is known by tiles: what is computed of this partition's tile,
// appended in front of it.
class CutArray {
 public:
  CutArray(ir::Instruction& instruction, KnownTiles& tiles);

 protected:
  // Whether the first operand is known by tiles, which are then the ones seen here.
  bool find_tile();

  bool is_cut(int dimension) const { return seen_.tiles[at(dimension)] > 1; }
  const ir::Dims& whole() const { return at_.operand(0)->shape().dims(); }

  // The sharding without the cut of a dimension.
  ir::Sharding uncut(int dimension) const;

  // The entry of this partition's place along a dimension.
  ir::Instruction* add_look_up_place(int dimension, const std::vector<std::int64_t>& by_place);

  ir::Instruction* add_dynamic_slice_along(ir::Instruction* value, int dimension,
                                           ir::Instruction* start, std::int64_t size);

  ir::Instruction* integer(ir::DType dtype, std::int64_t value);

  // The instruction's whole array, known by the tiles made.
  Result<ir::Instruction*> known_as(ir::Instruction* made, const ir::Sharding& held);

  static Result<ir::Instruction*> none() { return static_cast<ir::Instruction*>(nullptr); }

  ir::Instruction& at_;
  KnownTiles& tiles_;
  ir::Computation& computation_;
  const std::int64_t partitions_;
  ir::Sharding seen_;
  ir::Instruction* tile_ = nullptr;
};

}  // namespace plimsoll::passes
