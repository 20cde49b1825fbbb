// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "jit/emit/phase_function.h"
#include "jit/graph/graph.h"
#include "jit/graph/index_space.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Writes the values of a graph's nodes at symbolic indices. The deepest level is the lane level:
// there a value covers `width` consecutive values of one loop variable (of which the first `active`
// exist in memory), and is a vector, or a scalar where all lanes agree. Values of outer levels are
// scalars and stand at their level's anchor, so each is computed once. Equal values at equal
// indices are written once.
class ValueEmitter {
 public:
  ValueEmitter(const KernelGraph& graph, IndexSpace& space, llvm::IRBuilder<>& builder,
               PhaseFunction& function, int lane_level);

  // From now on indices are i32, and what is bound is: every position and extent is below 2^31.
  void use_narrow_indices();
  // Every input and output begins at a multiple of `bytes`, so that whole vectors at multiples of
  // their width are accessed in pieces of that size.
  void align_buffers(std::int64_t bytes) { buffer_bytes_ = bytes; }
  // What changes in loop `level` goes before `anchor`.
  void anchor(int level, llvm::Instruction* anchor);
  // Nothing is known at loop `level` any more: its loops are bound anew.
  void forget(int level);
  // Starts another copy of the lane level's code at the builder's position.
  void open_lanes(int width, int active);
  // As `open_lanes` where only a run tells which lanes exist: those of `mask`. Then every access
  // must be the same in all lanes or side by side.
  void open_masked_lanes(int width, llvm::Value* mask);
  // The value of a loop symbol; `aligned`: a multiple of every width used.
  void bind(const Affine& loop, llvm::Value* value, bool aligned = false);
  // The lane variable, whose value in lane 0 is `value`.
  void bind_lane(const Affine& loop, llvm::Value* value);
  // The same for a loop whose value in each lane (i64, or i32 where narrow) is in `lanes`.
  void bind_lanes(const Affine& loop, llvm::Value* lanes);
  // Component `component` of `reduce` at `index` (of the result's dims) is `value`.
  void bind_reduce(const ir::Instruction* reduce, int component, Index index, llvm::Value* value);

  // Until the next call of `open_lanes`: what input `input` holds at `position` for all lanes was
  // put at `address`.
  void stage(int input, const Affine& position, llvm::Value* address);

  // Until the next call of `open_lanes`, `node` at `index` is `value`. Precondition: it changes
  // with the lanes or follows a reduce.
  void assume(const KernelNode& node, const Index& index, llvm::Value* value);

  // From now on, loads of whole vectors also ask for what they will read when `loop` is `steps`
  // further, but for those that move by `except` elements with it; `steps` 0: no more.
  void prefetch(const Affine& loop, std::int64_t steps, std::int64_t except = 0);

  llvm::Value* value(const KernelNode& node, const Index& index);
  // `value` as `width` lanes.
  llvm::Value* widen(llvm::Value* value);
  // `level`: where `base` is known; the load stands there or deeper.
  llvm::Value* load(llvm::Value* base, const Affine& position, ir::DType dtype, int level = 0);
  // `cached`: null, or an i64 (0 or 1, known at level 0); where it is 0, whole vectors at aligned
  // addresses are stored past the caches.
  void store(llvm::Value* base, const Affine& position, llvm::Value* value, ir::DType dtype,
             llvm::Value* cached = nullptr);
  // Whole vectors of several values, whose positions along the lanes alternate: the first one's are
  // those at `position`, which moves by as many elements as there are values.
  void store_by_turns(llvm::Value* base, const Affine& position,
                      const std::vector<llvm::Value*>& values, ir::DType dtype,
                      llvm::Value* cached);
  // The value of an expression in lane 0, as i64 (or i32, where indices are narrow).
  llvm::Value* first_lane(const Affine& x);

  // The results of a scalar computation on `arguments` (all of one width).
  std::vector<llvm::Value*> apply(const ir::Computation& computation,
                                  const std::vector<llvm::Value*>& arguments);

  int width() const { return width_; }
  // A mask of the lanes that exist.
  llvm::Value* active_mask() const;
  int active() const { return active_; }
  const Status& status() const { return status_; }

 private:
  // Lane l holds base + l * stride, or lanes[l].
  struct LaneIndex {
    llvm::Value* base = nullptr;
    std::int64_t stride = 0;
    llvm::Value* lanes = nullptr;
    bool aligned = false;
    bool is_uniform() const { return stride == 0 && lanes == nullptr; }
  };
  using Key = std::tuple<const ir::Instruction*, int, Index>;
  static Key key_of(const KernelNode& node, const Index& index) {
    return {node.is_input() ? nullptr : node.instruction,
            node.is_input() ? node.input : node.component, index};
  }
  struct Level {
    std::unique_ptr<llvm::IRBuilder<>> builder;  // null: the caller's
    std::map<Key, llvm::Value*> values;
    std::map<int, LaneIndex> symbols;
  };

  llvm::IRBuilder<>& at(int level);
  llvm::ConstantInt* index_number(std::int64_t n) const;
  llvm::Align alignment(ir::DType dtype, const LaneIndex& index) const;
  LaneIndex evaluate(const Affine& x);
  LaneIndex evaluate_symbol(int id);
  LaneIndex evaluate_division(const Symbol& symbol, llvm::IRBuilder<>& b);
  // All lanes as i32 where the range allows, else i64.
  llvm::Value* lanes_of(const LaneIndex& index, const Range& range, llvm::IRBuilder<>& b);
  llvm::Value* compute(const KernelNode& node, const Index& index, llvm::IRBuilder<>& b);
  llvm::Value* chosen(const ir::Instruction& instruction, const Index& index, llvm::IRBuilder<>& b);
  llvm::Value* resize(const ir::Instruction& instruction, const Index& index, llvm::IRBuilder<>& b);
  llvm::Value* test(const std::vector<Condition>& conditions, llvm::IRBuilder<>& b);
  // A value read, which the code generator must not read only where a mask says so: such a read
  // would wait for the mask.
  llvm::Value* read_whole(llvm::IRBuilder<>& b, llvm::Value* value);
  llvm::Value* select(llvm::IRBuilder<>& b, llvm::Value* condition, llvm::Value* yes,
                      llvm::Value* no);
  llvm::Value* iota(const ir::Instruction& instruction, const Index& index, llvm::IRBuilder<>& b);
  llvm::Value* fail(Status status, ir::DType dtype);

  const KernelGraph& graph_;
  IndexSpace& space_;
  llvm::IRBuilder<>& builder_;
  PhaseFunction& function_;
  int lane_level_;
  llvm::IntegerType* index_type_;
  std::int64_t buffer_bytes_ = 0;  // 0: as the element is
  int width_ = 1;
  int active_ = 1;
  llvm::Value* mask_ = nullptr;  // null: the first active_ lanes
  int emitted_ = 0;
  std::vector<Level> levels_;
  std::map<std::pair<const ir::Instruction*, int>, std::pair<Index, llvm::Value*>> reduces_;
  std::map<std::pair<int, Affine>, llvm::Value*> staged_;
  bool selects_ = false;  // the graph has a select
  int prefetch_symbol_ = -1;
  std::int64_t prefetch_steps_ = 0, prefetch_except_ = 0;
  Status status_;
};

}  // namespace plimsoll::jit
