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
#include "jit/loops/nest_boxes.h"
#include "jit/loops/placed_roots.h"
#include "jit/loops/transpose_tile.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

// Elements of one unit of work when rows are long.
constexpr std::int64_t kChunk = 2048;
// Of short rows that lie side by side in an operand and far apart in what is written, a unit takes
// so many side by side: as many lines of memory are finished at the same time, which the first
// cache holds also where they are a power of two apart. Rows of kLongRow bytes are lines of their
// own.
constexpr std::int64_t kBlockRows = 8, kLongRow = 256;
// Lanes of values that are worth to be stored by turns.
constexpr int kFewestByTurns = 4;
// Elements by which reads of short rows are ahead.
constexpr std::int64_t kAhead = 1024;
// A unit of tiles takes so many elements, in runs of at most kTileRun along the operand: memory
// reads long runs fastest, while it does not matter where whole lines are written. Where other
// operands are read there, too, a unit is a square block.
constexpr std::int64_t kTileRun = 2048, kTileElements = 32768, kTileBlock = 128;

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
    tiled_ = choose_tiled_loop(graph, nest, extents_, kMostApart);
    choose_units();
  }

  std::int64_t units() const { return rows_ * chunks_; }
  std::int64_t elements_per_unit() const { return chunk_ * group_rows_ * block_rows_; }
  // As Phase has them; after `write`.
  std::int64_t run_elements() const { return units_are_runs() ? elements_per_unit() : 0; }
  std::uint64_t own_inputs() const { return units_are_runs() ? own_inputs_ : 0; }

  Status write() {
    for (std::size_t i = 0; i + 1 < extents_.size(); ++i) {
      loops_.push_back(space_.add_loop(extents_[i], static_cast<int>(i) == tiled_ ? 2 : 1));
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
    if (chunks_ > 1) {
      llvm::Value* count = b.getInt64(static_cast<std::uint64_t>(chunks_));
      llvm::Value* part = b.CreateURem(row, count);
      row = b.CreateUDiv(row, count);
      first = b.CreateMul(part, b.getInt64(static_cast<std::uint64_t>(chunk_)));
    }
    for (std::size_t i = loops_.size(); i-- > 0;) {
      llvm::Value* count = b.getInt64(static_cast<std::uint64_t>(steps_[i]));
      llvm::Value* step = i == 0 ? row : b.CreateURem(row, count);
      if (static_cast<int>(i) == group_) {
        group_begin_ = b.CreateMul(step, b.getInt64(static_cast<std::uint64_t>(group_rows_)));
        group_end_ = end_of(group_begin_, group_rows_, extents_[i]);
      } else if (static_cast<int>(i) == block_) {
        block_begin_ = b.CreateMul(step, b.getInt64(static_cast<std::uint64_t>(block_rows_)));
        block_end_ = end_of(block_begin_, block_rows_, extents_[i]);
      } else {
        emitter_.bind(loops_[i], step);
      }
      if (i > 0) row = b.CreateUDiv(row, count);
    }
    Loop block, group;
    if (block_ >= 0) {
      block = Loop::open(b, block_begin_, block_end_, 1);
      emitter_.bind(loops_[at(block_)], block.variable);
    }
    if (group_ >= 0 && group_ != tiled_) {
      // Where the next row lies elsewhere, it is asked for ahead.
      if (!cached_.empty()) emitter_.prefetch(loops_[at(group_)], kAhead / inner_ + 1, inner_);
      group = Loop::open(b, group_begin_, group_end_, 1);
      emitter_.bind(loops_[at(group_)], group.variable);
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

  // A unit is a chunk of the innermost loop for some steps of another one: of the tiled loop, or of
  // the next one where rows are short, so that finding out where a unit lies costs little. Where it
  // is yet another one, along which an operand's rows lie side by side, a unit is a block of both.
  void choose_units() {
    tile_rows_ = width_;
    if (tiled_ >= 0) {
      group_ = tiled_;
      group_rows_ = std::min(reads_others() ? kTileBlock : kTileRun,
                             (extents_[at(group_)] + tile_rows_ - 1) / tile_rows_ * tile_rows_);
    } else if (extents_.size() > 1 && inner_ < kChunk) {
      group_ = choose_group_loop(graph_, nest_, extents_);
      group_rows_ = std::min(extents_[at(group_)], kChunk / inner_);
      const int next = static_cast<int>(extents_.size()) - 2;
      const std::int64_t bytes = inner_ * ir::dtype_bytes(nest_.stores[0].value.dtype());
      if (group_ != next && group_rows_ > kBlockRows && bytes < kLongRow) {
        block_ = next;
        group_rows_ = kBlockRows;
        block_rows_ = std::min(extents_[at(next)],
                               std::max<std::int64_t>(1, kChunk / (inner_ * group_rows_)));
      }
    }
    for (int i = 0; i + 1 < static_cast<int>(extents_.size()); ++i) {
      const std::int64_t rows = i == group_ ? group_rows_ : i == block_ ? block_rows_ : 1;
      steps_.push_back((extents_[at(i)] + rows - 1) / rows);
      rows_ *= steps_.back();
    }
    chunk_ = inner_;
    if (tiled_ >= 0) {
      const std::int64_t elements = reads_others() ? kTileBlock * kTileBlock : kTileElements;
      const std::int64_t most = std::max<std::int64_t>(elements / group_rows_ / width_, 1) * width_;
      if (inner_ > most) chunk_ = most;
    } else if (inner_ > 2 * kChunk && rows_ < 256) {
      chunk_ = kChunk;  // rows are cut only where there are too few of them to share out
    }
    chunks_ = (inner_ + chunk_ - 1) / chunk_;
  }

  // Units are numbered in the order of what they write: a row, a chunk of one, or neighbouring
  // rows.
  bool units_are_runs() const {
    if (!nest_.origin.empty()) return false;
    if (tiled_ >= 0 || (rows_ > 1 && chunks_ > 1 && inner_ % chunk_ != 0)) return false;
    if (group_ >= 0) {
      const bool is_last = group_ + 2 == static_cast<int>(extents_.size());
      const bool is_whole = extents_.size() == 2 || extents_[at(group_)] % group_rows_ == 0;
      if (!is_last || !is_whole) return false;
    }
    return std::all_of(nest_.stores.begin(), nest_.stores.end(),
                       [](const Store& store) { return store.placement == nullptr; });
  }

  void find_own_inputs() {
    std::uint64_t others = 0;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      if (load.input >= 64) continue;
      (load.position == position_ ? own_inputs_ : others) |= std::uint64_t{1} << load.input;
    }
    own_inputs_ &= ~others;
  }

  // More than one operand has as many elements as the loops.
  bool reads_others() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : nest_.dims) count *= extent;
    return std::count_if(graph_.inputs().begin(), graph_.inputs().end(),
                         [&](const ir::Shape* input) { return input->element_count() == count; }) >
           1;
  }

  void write_row(llvm::Value* first) {
    llvm::IRBuilder<>& b = builder_;
    const std::int64_t whole = inner_ / width_ * width_;
    const auto constant = [&](std::int64_t n) { return b.getInt64(static_cast<std::uint64_t>(n)); };
    if (whole > 0) {
      llvm::Value* last = constant(whole);
      if (chunks_ > 1) {
        last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last,
                                       b.CreateAdd(first, constant(chunk_)));
      }
      Loop loop = Loop::open(b, first, last, width_);
      write_lanes(loop.variable, width_);
      loop.close(b);
    }
    const auto rest = static_cast<int>(inner_ - whole);
    if (rest == 0) return;
    if (chunks_ == 1) {
      write_lanes(constant(whole), rest);
      return;
    }
    auto* tail = llvm::BasicBlock::Create(b.getContext(), "tail", function_.function);
    auto* done = llvm::BasicBlock::Create(b.getContext(), "done", function_.function);
    b.CreateCondBr(b.CreateICmpEQ(first, constant((chunks_ - 1) * chunk_)), tail, done);
    b.SetInsertPoint(tail);
    write_lanes(constant(whole), rest);
    b.CreateBr(done);
    b.SetInsertPoint(done);
  }

  void write_lanes(llvm::Value* first, int active) {
    llvm::IRBuilder<>& b = builder_;
    if (tiled_ < 0) {
      emitter_.open_lanes(width_, active);
      write_values(first, active);
      return;
    }
    // Tiles side by side in the operand, one after the other.
    Loop tiles = Loop::open(b, group_begin_, group_end_, tile_rows_);
    tile_begin_ = tiles.variable;
    tile_end_ = b.CreateBinaryIntrinsic(
        llvm::Intrinsic::smin, group_end_,
        b.CreateAdd(tile_begin_, b.getInt64(static_cast<std::uint64_t>(tile_rows_))));
    write_tiles(first, active);
    tiles.close(b);
  }

  void write_tiles(llvm::Value* first, int active) {
    llvm::IRBuilder<>& b = builder_;
    if (staged_.empty() || active < width_) {
      write_tile(first, active, false);
      return;
    }
    if (extents_[at(tiled_)] % tile_rows_ == 0) {
      write_tile(first, active, true);
      return;
    }
    auto* full = llvm::BasicBlock::Create(b.getContext(), "full", function_.function);
    auto* partial = llvm::BasicBlock::Create(b.getContext(), "partial", function_.function);
    auto* next = llvm::BasicBlock::Create(b.getContext(), "next", function_.function);
    b.CreateCondBr(b.CreateICmpEQ(b.CreateSub(tile_end_, tile_begin_),
                                  b.getInt64(static_cast<std::uint64_t>(tile_rows_))),
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
      end = builder_.CreateNSWAdd(tile_begin_,
                                  builder_.getInt64(static_cast<std::uint64_t>(tile_rows_)));
    }
    Loop tile = Loop::open(builder_, tile_begin_, end, 1);
    emitter_.open_lanes(width_, active);
    emitter_.bind(loops_[at(tiled_)], tile.variable);
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
    emitter_.bind(loops_[at(tiled_)], tile_begin_);
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
      const std::int64_t step = load.position.coefficient(loops_[at(tiled_)].terms[0].first);
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
    if (tiled_ < 0 || width_ < 4) return;
    const int lane = lane_.terms[0].first;
    const int tile = loops_[at(tiled_)].terms[0].first;
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
    if (block_ >= 0) return;
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
  std::vector<std::int64_t> steps_;  // of the outer loops, in units
  int tiled_ = -1;
  std::int64_t tile_rows_ = 1;
  std::vector<Load> staged_;
  std::vector<llvm::Value*> buffers_;
  std::vector<llvm::Value*> cached_;  // per store, where they are streamed
  int group_ = -1;  // the loop whose steps [group_begin_, group_end_) a unit takes
  std::int64_t group_rows_ = 1;
  llvm::Value* group_begin_ = nullptr;
  llvm::Value* group_end_ = nullptr;
  int block_ = -1;  // the loop around it, of whose steps it takes [block_begin_, block_end_)
  std::int64_t block_rows_ = 1;
  llvm::Value* block_begin_ = nullptr;
  llvm::Value* block_end_ = nullptr;
  llvm::Value* tile_begin_ = nullptr;
  llvm::Value* tile_end_ = nullptr;
  std::int64_t rows_ = 1, inner_ = 1, chunk_ = 1, chunks_ = 1;
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
    result.units = writer.units();
    result.unit_seconds = seconds * static_cast<double>(writer.elements_per_unit()) + 2e-9;
    result.unless_input = phase.unless_input;
    result.unless_output = phase.unless_output;
    result.run_elements = writer.run_elements();
    result.own_inputs = writer.own_inputs();
    code.phases.push_back(std::move(result));
  }
  return ok_status();
}

}  // namespace plimsoll::jit
