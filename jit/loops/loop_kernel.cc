// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/loop_kernel.h"

#include <algorithm>
#include <bit>

#include "jit/emit/elementwise.h"
#include "jit/emit/kernel_code.h"
#include "jit/emit/kernel_traits.h"
#include "jit/emit/strided_vectors.h"
#include "jit/emit/value_emitter.h"
#include "jit/loops/loop_nest.h"
#include "jit/loops/loop_units.h"
#include "jit/loops/nest_boxes.h"
#include "jit/loops/placed_roots.h"
#include "jit/loops/transpose_tile.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

// Lanes of values that are worth to be stored by turns.
constexpr int kFewestByTurns = 4;
// Elements by which reads of short rows are ahead.
constexpr std::int64_t kAhead = 1024;
// The code of one nest: a function f(inputs, outputs, begin, end) over units, which the executor
// cuts among workers as it likes.
//
//   for unit in begin .. end                    units are rows, or chunks of long rows
//     the outer counters, by division of `unit` once a unit, level 1
//     for lane = first .. last step width       vectors, level 2
//       value of each root at (counters, lane)  ValueEmitter
//       store
//     the rest of the row, masked               the same code with fewer active lanes
//
// With a tiled loop there is a loop over tiles between, and reads that lie side by side along it
// are transposed into a buffer on the stack first (fill_buffers): then the code of the values finds
// them as if they were side by side along the lanes.
class LoopWriter {
 public:
  LoopWriter(const KernelGraph& graph, const LoopNest& nest, int max_width,
             const KernelTarget& target, llvm::Module& module, const std::string& name)
      : graph_(graph),
        nest_(nest),
        target_(target),
        extents_(choose_extents(graph, nest)),
        builder_(module.getContext()),
        function_(PhaseFunction::create(module, name, builder_)),
        emitter_(graph, space_, builder_, function_, 2) {
    inner_ = extents_.back();
    width_ = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(max_width), std::bit_ceil(static_cast<std::uint64_t>(inner_))));
    units_ = choose_units(graph, nest, extents_, width_);
  }

  const LoopUnits& units() const { return units_; }
  // As Phase has them; after `write`.
  std::int64_t run_elements() const {
    return units_.are_runs(nest_, extents_) ? units_.elements() : 0;
  }
  std::uint64_t own_inputs() const { return units_.are_runs(nest_, extents_) ? own_inputs_ : 0; }

  Status write() {
    for (std::size_t i = 0; i + 1 < extents_.size(); ++i) {
      loops_.push_back(space_.add_loop(extents_[i], static_cast<int>(i) == units_.tiled ? 2 : 1));
    }
    lane_ = space_.add_loop(inner_, 2);
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      position_ = space_.add(space_.scale(position_, extents_[i]), loops_[i]);
    }
    position_ = space_.add(space_.scale(position_, inner_), lane_);

    choose_staged();
    choose_streamed();
    find_own_inputs();

    llvm::IRBuilder<>& b = builder_;
    Loop units = Loop::open(b, function_.begin, function_.end, 1);
    llvm::Value* row = units.variable;
    llvm::Value* first = b.getInt64(0);
    if (units_.chunks > 1) {
      llvm::Value* count = b.getInt64(static_cast<std::uint64_t>(units_.chunks));
      llvm::Value* part = b.CreateURem(row, count);
      row = b.CreateUDiv(row, count);
      first = b.CreateMul(part, b.getInt64(static_cast<std::uint64_t>(units_.chunk)));
    }
    for (std::size_t i = loops_.size(); i-- > 0;) {
      llvm::Value* count = b.getInt64(static_cast<std::uint64_t>(units_.steps[i]));
      llvm::Value* step = i == 0 ? row : b.CreateURem(row, count);
      if (static_cast<int>(i) == units_.group) {
        group_begin_ = b.CreateMul(step, b.getInt64(static_cast<std::uint64_t>(units_.group_rows)));
        group_end_ = end_of(group_begin_, units_.group_rows, extents_[i]);
      } else if (static_cast<int>(i) == units_.block) {
        block_begin_ = b.CreateMul(step, b.getInt64(static_cast<std::uint64_t>(units_.block_rows)));
        block_end_ = end_of(block_begin_, units_.block_rows, extents_[i]);
      } else {
        emitter_.bind(loops_[i], step);
      }
      if (i > 0) row = b.CreateUDiv(row, count);
    }
    Loop block, group;
    if (units_.block >= 0) {
      block = Loop::open(b, block_begin_, block_end_, 1);
      emitter_.bind(loops_[at(units_.block)], block.variable);
    }
    if (units_.group >= 0 && units_.group != units_.tiled) {
      // Where the next row lies elsewhere, it is asked for ahead.
      if (!cached_.empty())
        emitter_.prefetch(loops_[at(units_.group)], kAhead / inner_ + 1, inner_);
      group = Loop::open(b, group_begin_, group_end_, 1);
      emitter_.bind(loops_[at(units_.group)], group.variable);
    }
    auto* lanes = llvm::BasicBlock::Create(b.getContext(), "lanes", function_.function);
    emitter_.anchor(1, b.CreateBr(lanes));
    b.SetInsertPoint(lanes);
    write_row(first);
    if (group.variable != nullptr) group.close(b);
    if (block.variable != nullptr) block.close(b);
    units.close(b);
    function_.finish(b, !cached_.empty());
    return emitter_.status();
  }

 private:
  llvm::Value* end_of(llvm::Value* begin, std::int64_t rows, std::int64_t extent) {
    return builder_.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin,
        builder_.CreateAdd(begin, builder_.getInt64(static_cast<std::uint64_t>(rows))),
        builder_.getInt64(static_cast<std::uint64_t>(extent)));
  }

  void find_own_inputs() {
    std::uint64_t others = 0;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      if (load.input >= 64) continue;
      (load.position == position_ ? own_inputs_ : others) |= std::uint64_t{1} << load.input;
    }
    own_inputs_ &= ~others;
  }

  void write_row(llvm::Value* first) {
    llvm::IRBuilder<>& b = builder_;
    const std::int64_t whole = inner_ / width_ * width_;
    const auto constant = [&](std::int64_t n) { return b.getInt64(static_cast<std::uint64_t>(n)); };
    if (whole > 0) {
      llvm::Value* last = constant(whole);
      if (units_.chunks > 1) {
        last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last,
                                       b.CreateAdd(first, constant(units_.chunk)));
      }
      Loop loop = Loop::open(b, first, last, width_);
      write_lanes(loop.variable, width_);
      loop.close(b);
    }
    const auto rest = static_cast<int>(inner_ - whole);
    if (rest == 0) return;
    if (units_.chunks == 1) {
      write_lanes(constant(whole), rest);
      return;
    }
    auto* tail = llvm::BasicBlock::Create(b.getContext(), "tail", function_.function);
    auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function_.function);
    b.CreateCondBr(b.CreateICmpEQ(first, constant((units_.chunks - 1) * units_.chunk)), tail, done);
    b.SetInsertPoint(tail);
    write_lanes(constant(whole), rest);
    b.CreateBr(done);
    b.SetInsertPoint(done);
  }

  void write_lanes(llvm::Value* first, int active) {
    llvm::IRBuilder<>& b = builder_;
    if (units_.tiled < 0) {
      emitter_.open_lanes(width_, active);
      write_values(first, active);
      return;
    }
    // Tiles side by side in the operand, one after the other.
    Loop tiles = Loop::open(b, group_begin_, group_end_, width_);
    tile_begin_ = tiles.variable;
    tile_end_ = b.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin, group_end_,
        b.CreateAdd(tile_begin_, b.getInt64(static_cast<std::uint64_t>(width_))));
    write_tiles(first, active);
    tiles.close(b);
  }

  void write_tiles(llvm::Value* first, int active) {
    llvm::IRBuilder<>& b = builder_;
    if (staged_.empty() || active < width_) {
      write_tile(first, active, false);
      return;
    }
    if (extents_[at(units_.tiled)] % width_ == 0) {
      write_tile(first, active, true);
      return;
    }
    auto* full = llvm::BasicBlock::Create(b.getContext(), "full", function_.function);
    auto* partial = llvm::BasicBlock::Create(b.getContext(), "partial", function_.function);
    auto* next = llvm::BasicBlock::Create(b.getContext(), "next", function_.function);
    b.CreateCondBr(b.CreateICmpEQ(b.CreateSub(tile_end_, tile_begin_),
                                  b.getInt64(static_cast<std::uint64_t>(width_))),
                   full, partial);
    b.SetInsertPoint(full);
    write_tile(first, active, true);
    b.CreateBr(next);
    b.SetInsertPoint(partial);
    write_tile(first, active, false);
    b.CreateBr(next);
    b.SetInsertPoint(next);
  }

  void write_tile(llvm::Value* first, int active, bool staged) {
    if (staged) fill_buffers(first);
    llvm::Value* end = tile_end_;
    if (staged) {
      end =
          builder_.CreateNSWAdd(tile_begin_, builder_.getInt64(static_cast<std::uint64_t>(width_)));
    }
    Loop tile = Loop::open(builder_, tile_begin_, end, 1);
    emitter_.open_lanes(width_, active);
    emitter_.bind(loops_[at(units_.tiled)], tile.variable);
    for (std::size_t i = 0; staged && i < staged_.size(); ++i) {
      llvm::Type* row = memory_type(builder_.getContext(), staged_[i].dtype, width_);
      emitter_.stage(staged_[i].input, staged_[i].position,
                     builder_.CreateInBoundsGEP(row, buffers_[i],
                                                builder_.CreateSub(tile.variable, tile_begin_)));
    }
    write_values(first, active);
    tile.close(builder_);
  }

  // Loads that are side by side along the tiled loop: transposed in registers.
  void fill_buffers(llvm::Value* first) {
    llvm::IRBuilder<>& b = builder_;
    emitter_.open_lanes(width_, width_);
    emitter_.bind(loops_[at(units_.tiled)], tile_begin_);
    emitter_.bind_lane(lane_, first);
    const int lane_symbol = lane_.terms[0].first;
    for (std::size_t i = 0; i < staged_.size(); ++i) {
      const Load& load = staged_[i];
      llvm::Type* element = memory_type(b.getContext(), load.dtype, 1);
      auto* row =
          llvm::cast<llvm::FixedVectorType>(memory_type(b.getContext(), load.dtype, width_));
      const llvm::Align alignment(static_cast<std::uint64_t>(ir::dtype_bytes(load.dtype)));
      llvm::Value* base = b.CreateInBoundsGEP(element, function_.input(load.input),
                                              emitter_.first_lane(load.position));
      const std::int64_t stride = load.position.coefficient(lane_symbol);
      const std::int64_t step = load.position.coefficient(loops_[at(units_.tiled)].terms[0].first);
      std::vector<llvm::Value*> rows;
      for (int lane = 0; lane < width_; ++lane) {
        llvm::Value* address =
            b.CreateConstInBoundsGEP1_64(element, base, static_cast<std::uint64_t>(lane * stride));
        rows.push_back(step == 1 ? b.CreateAlignedLoad(row, address, alignment)
                                 : load_apart(b, row, address, step, alignment));
      }
      rows = transpose_tile(b, std::move(rows));
      for (int r = 0; r < width_; ++r) {
        b.CreateStore(rows[at(r)], b.CreateConstInBoundsGEP1_64(row, buffers_[i],
                                                                static_cast<std::uint64_t>(r)));
      }
    }
  }

  void choose_staged() {
    if (units_.tiled < 0 || width_ < 4) return;
    const int lane = lane_.terms[0].first;
    const int tile = loops_[at(units_.tiled)].terms[0].first;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      const auto& terms = load.position.terms;
      const bool plain = std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
        const Symbol& symbol = space_.symbol(term.first);
        return symbol.level < 2 || symbol.kind == SymbolKind::loop;
      });
      const std::int64_t stride = load.position.coefficient(lane);
      const std::int64_t step = load.position.coefficient(tile);
      if (!plain || step < 1 || step > kMostApart || stride == 0 || stride == 1) continue;
      llvm::IRBuilder<> entry(function_.entry_anchor);
      staged_.push_back(load);
      buffers_.push_back(entry.CreateAlloca(memory_type(entry.getContext(), load.dtype, width_),
                                            entry.getInt64(static_cast<std::uint64_t>(width_))));
    }
  }

  // The stores bypass the caches where all that the nest reads and writes would not fit into them,
  // except into the buffer of an input: its lines are in the caches by then. Not where lines are
  // finished bit by bit.
  void choose_streamed() {
    if (units_.block >= 0) return;
    std::int64_t count = 1;
    for (const std::int64_t extent : nest_.dims) count *= extent;
    std::vector<int> read;
    std::int64_t bytes = 0;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      if (std::find(read.begin(), read.end(), load.input) != read.end()) continue;
      read.push_back(load.input);
      std::int64_t size = count * ir::dtype_bytes(load.dtype);
      if (at(load.input) < graph_.inputs().size()) {  // not a table
        size = std::min(size, graph_.inputs()[at(load.input)]->byte_size());
      }
      bytes += size;
    }
    for (const Store& store : nest_.stores) bytes += count * ir::dtype_bytes(store.value.dtype());
    if (bytes < target_.streaming_bytes) return;
    for (const Store& store : nest_.stores) {
      cached_.push_back(function_.is_in_place(store.output, read));
    }
  }

  // All values before any store, so that an output may be the buffer of an input.
  void write_values(llvm::Value* first, int active) {
    emitter_.bind_lane(lane_, first);
    std::vector<llvm::Value*> values;
    for (const Store& store : nest_.stores) {
      values.push_back(emitter_.value(store.value, value_index(space_, nest_, store, position_)));
    }
    if (nest_.takes_turns && active == width_ && width_ >= kFewestByTurns) {
      const Store& store = nest_.stores[0];
      emitter_.store_by_turns(function_.output(store.output),
                              store_position(space_, graph_, nest_, store, position_), values,
                              store.value.dtype(), cached_.empty() ? nullptr : cached_[0]);
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Store& store = nest_.stores[i];
      emitter_.store(function_.output(store.output),
                     store_position(space_, graph_, nest_, store, position_), values[i],
                     store.value.dtype(), cached_.empty() ? nullptr : cached_[i]);
    }
  }

  const KernelGraph& graph_;
  const LoopNest& nest_;
  const KernelTarget& target_;
  std::vector<std::int64_t> extents_;
  std::vector<Load> staged_;
  std::vector<llvm::Value*> buffers_;
  std::vector<llvm::Value*> cached_;  // per store, where they are streamed
  LoopUnits units_;
  // The steps of its loops that a unit takes.
  llvm::Value* group_begin_ = nullptr;
  llvm::Value* group_end_ = nullptr;
  llvm::Value* block_begin_ = nullptr;
  llvm::Value* block_end_ = nullptr;
  llvm::Value* tile_begin_ = nullptr;
  llvm::Value* tile_end_ = nullptr;
  std::int64_t inner_ = 1;
  std::uint64_t own_inputs_ = 0;
  int width_ = 1;
  llvm::IRBuilder<> builder_;
  PhaseFunction function_;
  IndexSpace space_;
  ValueEmitter emitter_;
  std::vector<Affine> loops_;
  Affine lane_, position_;
};

}  // namespace

Status write_loop_kernel(const KernelGraph& graph, const KernelTarget& target, KernelCode& code) {
  const int max_width = vector_lanes(graph, target);
  const double seconds = seconds_per_element(graph);
  for (const PhaseNest& phase : cut_into_boxes(graph, plan_nests(graph))) {
    std::int64_t count = 1;
    for (const std::int64_t extent : phase.nest.dims) count *= extent;
    if (count == 0) continue;
    Phase result;
    result.function = "phase" + std::to_string(code.phases.size());
    LoopWriter writer(graph, phase.nest, max_width, target, *code.module, result.function);
    PLIMSOLL_RETURN_IF_ERROR(writer.write());
    result.units = writer.units().count();
    result.unit_seconds = seconds * static_cast<double>(writer.units().elements()) + 2e-9;
    result.unless_input = phase.unless_input;
    result.unless_output = phase.unless_output;
    result.run_elements = writer.run_elements();
    result.own_inputs = writer.own_inputs();
    code.phases.push_back(std::move(result));
  }
  return ok_status();
}

}  // namespace plimsoll::jit
