// SPDX-License-Identifier: Apache-2.0
// Row kernels whose vectors lie along the row: a loop over the row for every sweep, with what is
// worth it kept in memory.
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "jit/emit/elementwise.h"
#include "jit/emit/kernel_traits.h"
#include "jit/emit/when.h"
#include "jit/reductions/column_sums.h"
#include "jit/reductions/row_accumulators.h"
#include "jit/reductions/row_group.h"
#include "jit/reductions/row_memory.h"
#include "jit/reductions/row_writer.h"
#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr std::int64_t kUnroll = 4;  // vectors, where the reduction has not more accumulators
// What there is once a row of some rows that are computed together: vectors with a lane for each
// row, in order, filled up to a power of two.
struct RowGroup {
  RowGroup(RowPlan& plan, llvm::IRBuilder<>& builder, PhaseFunction& function, llvm::Value* first,
           int count)
      : once(plan.graph, plan.space, builder, function, 1),
        stages(plan, builder, once, builder.getContext()) {
    once.open_lanes(static_cast<int>(std::bit_ceil(static_cast<unsigned>(count))), count);
    once.bind_lane(plan.row, first);
  }

  ValueEmitter once;
  RowStages stages;
};

// Example: softmax over rows of 1,000, two rows together. Sweep 0 goes over the first row, then
// over the second one, and leaves a vector of each. The last steps of a reduction are a chain of
// dependent shuffles: both vectors take them together, and what there is once a row is computed for
// both rows at once. Sweep 1 sums exp(x - max) of either row and keeps it (row_sweeps.cc), sweep 2
// divides it.
class LongRows {
 public:
  LongRows(RowPlan& plan, const ReductionPlan* columns, const KernelTarget& target,
           llvm::Module& module, const std::string& name)
      : plan_(plan),
        b_(module.getContext()),
        function_(PhaseFunction::create(module, name, b_)),
        minor_(plan.shape.minor),
        width_(static_cast<int>(std::min<std::int64_t>(plan.cut.lanes, kRowWidth))),
        slots_(plan.cut.lanes / width_),
        vectors_((minor_ + width_ - 1) / width_) {
    plan.streams = bytes_moved_by_rows(plan.graph) >= target.streaming_bytes;
    plan_row_sweeps(plan);
    together_ = rows_together(plan);
    choose_streamed();
    element_ = plan.space.add(plan.space.scale(plan.row, minor_), plan.lane);
    if (columns == nullptr) return;
    columns_.emplace(*columns, b_, function_, width_);
    block_rows_ = columns->shape.block_rows;
  }

  std::int64_t units() const { return divide_up(plan_.shape.rows, rows_per_unit()); }
  std::int64_t rows_per_unit() const { return columns_ ? block_rows_ : together_; }

  Status write() {
    if (columns_) return write_blocks();
    const std::int64_t whole = plan_.shape.rows / together_;
    const auto rest = static_cast<int>(plan_.shape.rows % together_);
    llvm::Value* end = function_.end;
    if (rest > 0) {
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, function_.end, number(whole));
    }
    Loop units = Loop::open(b_, function_.begin, end, 1);
    PLIMSOLL_RETURN_IF_ERROR(write_rows(b_.CreateNSWMul(units.variable, number(together_)),
                                        static_cast<int>(together_)));
    units.close(b_);
    if (rest > 0) {
      Status status;
      emit_when(b_, b_.CreateICmpSGT(function_.end, number(whole)),
                [&] { status = write_rows(number(whole * together_), rest); });
      PLIMSOLL_RETURN_IF_ERROR(status);
    }
    function_.finish(b_, !cached_.empty());
    return ok_status();
  }

 private:
  // Units of as many rows as a column's blocks are, a multiple of those that are computed together.
  Status write_blocks() {
    const std::int64_t rows = plan_.shape.rows, whole = rows / together_ * together_;
    const auto rest = static_cast<int>(rows - whole);
    Loop units = Loop::open(b_, function_.begin, function_.end, 1);
    columns_->clear();
    llvm::Value* first = b_.CreateNSWMul(units.variable, number(block_rows_));
    llvm::Value* last = b_.CreateNSWAdd(first, number(block_rows_));
    Loop groups = Loop::open(
        b_, first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, last, number(whole)), together_);
    PLIMSOLL_RETURN_IF_ERROR(write_rows(groups.variable, static_cast<int>(together_)));
    groups.close(b_);
    if (rest > 0) {
      Status status;
      emit_when(b_, b_.CreateICmpSGE(last, number(rows)),
                [&] { status = write_rows(number(whole), rest); });
      PLIMSOLL_RETURN_IF_ERROR(status);
    }
    columns_->finish_block(units.variable);
    units.close(b_);
    function_.finish(b_, !cached_.empty());
    return columns_->status();
  }

  // Where all that is read and written would not fit into the caches, stores of whole vectors
  // bypass them, except into the buffer of an input and into what a later sweep reads.
  void choose_streamed() {
    if (!plan_.streams) return;
    std::vector<int> inputs(plan_.graph.inputs().size());
    std::iota(inputs.begin(), inputs.end(), 0);
    for (int i = 0; i < static_cast<int>(plan_.graph.roots().size()); ++i) {
      const bool is_read = std::any_of(plan_.kept.begin(), plan_.kept.end(),
                                       [&](const KeptValue& kept) { return kept.output == i; });
      cached_.push_back(is_read ? nullptr : function_.is_in_place(i, inputs));
    }
  }

  llvm::Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  const KernelNode& root_node(int root) const { return plan_.graph.roots()[at(root)]; }
  const std::vector<int>& reduces(int s) const { return plan_.reduces[at(s)]; }
  const std::vector<int>& stores(int s) const { return plan_.stores[at(s)]; }

  // A place before what is computed once a row.
  llvm::Instruction* open_row() {
    auto* next = llvm::BasicBlock::Create(b_.getContext(), "row", function_.function);
    llvm::Instruction* anchor = b_.CreateBr(next);
    b_.SetInsertPoint(next);
    return anchor;
  }

  // The elements reduce `reduce` takes, with what changes nothing past the row.
  llvm::Value* elements(RowStages& stages, int reduce, ValueEmitter& emitter) {
    llvm::Value* value = stages.element(reduce, emitter);
    if (emitter.active() == width_) return value;
    llvm::Value* nothing =
        b_.CreateVectorSplat(static_cast<unsigned>(width_), stages.identity(reduce));
    return b_.CreateSelect(emitter.active_mask(), value, nothing);
  }

  Status write_rows(llvm::Value* first, int count) {
    RowGroup group(plan_, b_, function_, first, count);
    ValueEmitter emitter(plan_.graph, plan_.space, b_, function_, 2);
    RowAccumulators accumulators(group.stages, b_, function_.entry_anchor, width_,
                                 slots_of_reduces(), count);
    RowMemory memory(plan_, group.stages, b_, function_.entry_anchor, vectors_ * width_, count);
    group_ = &group;
    emitter_ = &emitter;
    accumulators_ = &accumulators;
    memory_ = &memory;
    first_ = first;
    count_ = count;
    const int last = plan_.sweeps() - 1;
    for (int s = 0; s < last; ++s) {
      ask_ahead(s);
      for_rows([&](llvm::Value* row) { reduce_row(s, row); });
      group.stages.finish_sweep(s, totals(s));
      memory.remember();
    }
    ask_ahead(last);
    if (!stores(last).empty() || columns_) {
      for_rows([&](llvm::Value* row) {
        for_vectors(number(0), minor_, 1, [&](llvm::Value* j, int active, std::int64_t) {
          open(j, active, last);
          Values elements;
          for (const int column : plan_.columns) {
            elements.push_back(emitter.widen(group.stages.element(column, emitter)));
          }
          store_values(last);
          if (columns_) columns_->add(b_.CreateNSWAdd(first, row), j, elements);
        });
      });
    }
    store_row_results(group);
    PLIMSOLL_RETURN_IF_ERROR(emitter.status());
    return group.once.status();
  }

  // The first sweep reads from memory and the last one writes to it; those between, which have all
  // in the cache, ask for the next rows.
  void ask_ahead(int s) {
    const bool is_between = s > 0 && s + 1 < plan_.sweeps();
    emitter_->prefetch(plan_.row, plan_.streams && is_between ? together_ : 0);
  }

  // f(number in the group) for every row.
  template <typename F>
  void for_rows(F f) {
    Loop rows = Loop::open(b_, number(0), number(count_), 1);
    emitter_->forget(1);
    llvm::Value* row = b_.CreateNSWAdd(first_, rows.variable);
    llvm::Instruction* anchor = open_row();
    emitter_->anchor(1, anchor);
    emitter_->bind(plan_.row, row);
    memory_->open_row(rows.variable, anchor);
    f(rows.variable);
    rows.close(b_);
  }

  std::vector<std::int64_t> slots_of_reduces() const {
    std::vector<std::int64_t> slots(plan_.graph.reduces().size());
    for (int s = 0; s + 1 < plan_.sweeps(); ++s) {
      for (const int reduce : reduces(s)) slots[at(reduce)] = slots_in_sweep(plan_, s, slots_);
    }
    return slots;
  }

  // f(first element, elements, accumulator) for the vectors of a part of the row.
  template <typename F>
  void for_vectors(llvm::Value* begin, std::int64_t length, std::int64_t slots, F f) {
    const std::int64_t together = std::max(kUnroll, slots);
    const std::int64_t step = together * width_;
    const std::int64_t whole = length / step * step;
    if (whole > 0) {
      Loop loop = Loop::open(b_, begin, b_.CreateAdd(begin, number(whole)), step);
      for (std::int64_t k = 0; k < together; ++k) {
        f(b_.CreateNSWAdd(loop.variable, number(k * width_)), width_, k % slots);
      }
      loop.close(b_);
    }
    for (std::int64_t at = whole; at < length; at += width_) {
      f(b_.CreateAdd(begin, number(at)),
        static_cast<int>(std::min<std::int64_t>(width_, length - at)), at / width_ % slots);
    }
  }

  // The lanes from element `j` on in sweep `s`, with what is known there.
  void open(llvm::Value* j, int active, int s) {
    ValueEmitter& emitter = *emitter_;
    emitter.open_lanes(width_, active);
    emitter.bind_lane(plan_.lane, j);
    memory_->tell(emitter);
    position_ = j;
    for (std::size_t k = 0; k < plan_.kept.size(); ++k) {
      const KeptValue& kept = plan_.kept[k];
      if (kept.sweep >= s) continue;
      const ir::DType dtype = kept.node.dtype();
      llvm::Value* value =
          kept.output >= 0 ? emitter.load(function_.output(kept.output), element_, dtype)
                           : to_register(b_,
                                         b_.CreateLoad(memory_type(b_.getContext(), dtype, width_),
                                                       memory_->kept_at(k, j)),
                                         dtype);
      emitter.assume(kept.node, plan_.own_index(kept.node.dims()), value);
    }
  }

  // What sweep `s` leaves in memory; all values before any store.
  void store_values(int s) {
    ValueEmitter& emitter = *emitter_;
    Values values;
    for (const KeptValue& kept : plan_.kept) {
      const bool here = kept.sweep == s && !is_stored_as_root(kept);
      values.push_back(
          here ? emitter.widen(emitter.value(kept.node, plan_.own_index(kept.node.dims())))
               : nullptr);
    }
    store_roots(emitter, stores(s));
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] == nullptr) continue;
      const KeptValue& kept = plan_.kept[k];
      if (kept.output >= 0) {
        emitter.store(function_.output(kept.output), element_, values[k], kept.node.dtype());
      } else {
        b_.CreateStore(to_memory(b_, values[k], kept.node.dtype()), memory_->kept_at(k, position_));
      }
    }
  }

  bool is_stored_as_root(const KeptValue& kept) const {
    return std::any_of(stores(kept.sweep).begin(), stores(kept.sweep).end(),
                       [&](int root) { return root == kept.output; });
  }

  // Rows that are cut in blocks are one to a group, and leave their totals; of others each leaves a
  // vector.
  bool is_cut() const { return plan_.cut.blocks() > 1; }

  void reduce_row(int s, llvm::Value* row) {
    RowAccumulators& sums = *accumulators_;
    if (!is_cut()) {
      sweep_block(s, number(0), minor_);
      for (const int reduce : reduces(s)) sums.finish_row(reduce, row);
      return;
    }
    for (const int reduce : reduces(s)) sums.start_total(reduce);
    const std::int64_t block = plan_.cut.block_minor;
    const std::int64_t whole = minor_ / block * block;
    Loop blocks = Loop::open(b_, number(0), number(whole), block);
    sweep_block(s, blocks.variable, block);
    for (const int reduce : reduces(s)) sums.finish_block(reduce);
    blocks.close(b_);
    if (whole == minor_) return;
    sweep_block(s, number(whole), minor_ - whole);
    for (const int reduce : reduces(s)) sums.finish_block(reduce);
  }

  Values totals(int s) {
    Values all;
    for (const int reduce : reduces(s)) {
      all.push_back(is_cut() ? accumulators_->total_of_blocks(reduce)
                             : accumulators_->total_of_rows(reduce));
    }
    return all;
  }

  // Leaves what one block of a row adds up to in the slots.
  void sweep_block(int s, llvm::Value* begin, std::int64_t length) {
    for (const int reduce : reduces(s)) accumulators_->clear(reduce);
    for_vectors(begin, length, slots_in_sweep(plan_, s, slots_),
                [&](llvm::Value* j, int active, std::int64_t slot) {
                  open(j, active, s);
                  Values values;
                  for (const int reduce : reduces(s)) {
                    values.push_back(elements(group_->stages, reduce, *emitter_));
                  }
                  store_values(s);
                  for (std::size_t i = 0; i < values.size(); ++i) {
                    accumulators_->add(reduces(s)[i], slot, values[i]);
                  }
                });
  }

  void store_roots(ValueEmitter& emitter, const std::vector<int>& roots) {
    Values values;
    for (const int root : roots) {
      const KernelNode& node = root_node(root);
      values.push_back(emitter.value(node, plan_.own_index(node.dims())));
    }
    for (std::size_t i = 0; i < roots.size(); ++i) {
      emitter.store(function_.output(roots[i]), element_, values[i], root_node(roots[i]).dtype(),
                    cached_.empty() ? nullptr : cached_[at(roots[i])]);
    }
  }

  void store_row_results(RowGroup& group) {
    for (const auto& [root, value] : group.stages.row_results()) {
      group.once.store(function_.output(root), plan_.row, value, root_node(root).dtype());
    }
  }

  RowPlan& plan_;
  llvm::IRBuilder<> b_;
  PhaseFunction function_;
  const std::int64_t minor_;
  const int width_;
  const std::int64_t slots_;    // accumulators of a reduce
  const std::int64_t vectors_;  // of a row
  std::int64_t together_ = 1;   // rows
  std::optional<ColumnSums> columns_;
  std::int64_t block_rows_ = 0;  // where there are columns
  Affine element_;
  Values cached_;  // of each root, where stores are streamed
  // Of the rows that are being written:
  RowGroup* group_ = nullptr;
  ValueEmitter* emitter_ = nullptr;  // of vectors
  RowAccumulators* accumulators_ = nullptr;
  RowMemory* memory_ = nullptr;
  llvm::Value* first_ = nullptr;
  int count_ = 1;
  llvm::Value* position_ = nullptr;
};

}  // namespace

Result<Phase> write_long_rows(RowPlan& plan, const ReductionPlan* columns,
                              const KernelTarget& target, llvm::Module& module,
                              const std::string& name) {
  LongRows writer(plan, columns, target, module, name);
  PLIMSOLL_RETURN_IF_ERROR(writer.write());
  Phase phase;
  phase.function = name;
  phase.units = writer.units();
  phase.unit_seconds =
      (seconds_per_element(plan.graph) * static_cast<double>(plan.shape.minor) + 5e-9) *
      static_cast<double>(writer.rows_per_unit());
  return phase;
}

}  // namespace plimsoll::jit
