// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::passes {

// The value that loops on the way only hand on: of element 2 of a loop whose body returns its own
// element 2, that is what the loop was given there. So two leaves that started from the same value
// are seen to be the same, even when one of them came through another loop.
const ir::Instruction* handed_on(const ir::Instruction* value);

// Offers `change` the loops with a flat state (has_flat_state), the outermost first, so that what
// moves into one may move further, and again from the start whenever it has changed one, with what
// died removed. Whether it changed any.
Result<bool> change_loops(ir::Module& module, const std::function<bool(ir::Instruction&)>& change);

// A copy of a while with a flat state (has_flat_state) that is given more leaves and operations,
// and takes the place of the original. The original stays, unused, until it is removed.
class LoopState {
 public:
  explicit LoopState(ir::Instruction& loop);

  // What stands in the copied body for `original`, of the original body.
  ir::Instruction* copy_of(const ir::Instruction& original) const { return copies_.at(&original); }

  // In front of the loop.
  ir::Instruction* add_to_parent(ir::Opcode opcode, ir::Shape shape,
                                 std::vector<ir::Instruction*> operands,
                                 ir::Attributes attributes = {});
  // A leaf more, which starts as `start` and stays so unless it is given a result. Returns its
  // number.
  int add_leaf(ir::Instruction* start);
  // A leaf that is `start` in every round: one that there is, or one more.
  int add_invariant(ir::Instruction* start);
  // The leaf in the body.
  ir::Instruction* element(int leaf);
  void set_result(int leaf, ir::Instruction* result) { results_[at(leaf)] = result; }

  // Where in the body the next operations are added: right before one of it, or behind all.
  void insert_before(const ir::Instruction& copy) { position_ = &copy; }
  void insert_at_end() { position_ = nullptr; }
  ir::Instruction* add(ir::Opcode opcode, ir::Shape shape, std::vector<ir::Instruction*> operands,
                       ir::Attributes attributes = {});
  ir::Instruction* add_clone(const ir::Instruction& original,
                             std::vector<ir::Instruction*> operands);
  ir::Instruction* add_integer(ir::DType dtype, std::int64_t value);

  // A leaf more, into which each round writes `value`, an array of the body in row-major order, as
  // slice `index` of `slices` along a first dimension that is added. Behind all of the body.
  int stack(ir::Instruction* value, ir::Instruction* index, std::int64_t slices);
  // Each round writes `value` as slice `index` of the leaf. Behind all of the body.
  void write_slice(int leaf, ir::Instruction* value, ir::Instruction* index);
  // Slice `index` of such a leaf, as an array of `shape`.
  ir::Instruction* slice_of(int leaf, ir::Instruction* index, const ir::Shape& shape);

  // The new loop, which everything that read the original reads.
  ir::Instruction* finish();

 private:
  ir::Instruction* placed(ir::Instruction* added);

  ir::Instruction& loop_;
  ir::Computation& parent_;
  ir::Computation* const condition_;
  ir::Computation* const body_;
  std::unordered_map<const ir::Instruction*, ir::Instruction*> copies_;
  std::vector<ir::Shape> shapes_;
  std::vector<ir::Instruction*> starts_, results_;  // per leaf; null: what comes in
  std::unordered_map<int, ir::Instruction*> elements_;
  std::vector<ir::Instruction*> in_parent_, first_in_body_;
  const ir::Instruction* position_ = nullptr;
  std::unordered_map<const ir::Instruction*, std::vector<ir::Instruction*>> before_;
};

}  // namespace plimsoll::passes
