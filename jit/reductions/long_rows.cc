// SPDX-License-Identifier: Apache-2.0
// Row kernels whose vectors lie along the row: in registers from sweep to sweep where the row is a
// few vectors, else in loops over the row.
#include <algorithm>
#include <memory>
#include <numeric>

#include "jit/emit/elementwise.h"
#include "jit/emit/kernel_traits.h"
#include "jit/reductions/row_writer.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr std::int64_t kUnroll = 4;  // vectors, where the reduction has not more accumulators
// Rows of a few vectors are computed several at a time, sweep by sweep: the last steps of a
// reduction wait for each other, and other rows fill the gaps.
constexpr std::int64_t kVectorsTogether = 8, kRowsTogether = 4;

// What writes the code of one row.
struct RowCode {
  RowCode(RowPlan& plan, llvm::IRBuilder<>& builder, PhaseFunction& function, std::int64_t emitters)
      : once(plan.graph, plan.space, builder, function, 1),
        stages(plan, builder, once, builder.getContext()) {
    for (std::int64_t i = 0; i < emitters; ++i) {
      lanes.push_back(std::make_unique<ValueEmitter>(plan.graph, plan.space, builder, function, 2));
    }
  }

  void open(const RowPlan& plan, llvm::Value* row, llvm::Instruction* anchor) {
    once.open_lanes(1, 1);
    once.bind_lane(plan.row, row);
    for (const auto& emitter : lanes) {
      emitter->anchor(1, anchor);
      emitter->bind(plan.row, row);
    }
  }

  Status status() const {
    PLIMSOLL_RETURN_IF_ERROR(once.status());
    for (const auto& emitter : lanes) PLIMSOLL_RETURN_IF_ERROR(emitter->status());
    return ok_status();
  }

  ValueEmitter once;  // a row at a time
  RowStages stages;
  std::vector<std::unique_ptr<ValueEmitter>> lanes;
};

// Example: softmax over rows of 100. Sweep 0 takes the maximum of the row, sweep 1 the sum of exp(x
// - max), sweep 2 stores exp(x - max) / sum. Rows of at most kRowVectors vectors stay in registers:
// each of the 7 vectors has an emitter of its own, which remembers exp(x - max) from sweep 1 for
// sweep 2. Longer rows are loops over the row, once per sweep; what is worth it is kept in memory
// from sweep to sweep (row_sweeps.cc).
//
// The last steps of a reduction are a chain of dependent shuffles. Several short rows are therefore
// written side by side, sweep by sweep: while one waits, the others' instructions fill the
// pipeline.
class LongRows {
 public:
  LongRows(RowPlan& plan, const KernelTarget& target, llvm::Module& module, const std::string& name)
      : plan_(plan),
        b_(module.getContext()),
        function_(PhaseFunction::create(module, name, b_)),
        minor_(plan.shape.minor),
        width_(static_cast<int>(std::min<std::int64_t>(plan.cut.lanes, kRowWidth))),
        slots_(plan.cut.lanes / width_),
        vectors_((minor_ + width_ - 1) / width_),
        unrolled_(vectors_ <= kRowVectors && plan.cut.blocks() == 1) {
    plan.streams = bytes_of(plan.graph) >= target.streaming_bytes;
    if (!unrolled_) plan_row_sweeps(plan);
    if (plan.streams) choose_streamed();
    element_ = plan.space.add(plan.space.scale(plan.row, minor_), plan.lane);
  }

  Status write() {
    if (!unrolled_) {
      Loop rows = Loop::open(b_, function_.begin, function_.end, 1);
      PLIMSOLL_RETURN_IF_ERROR(write_row(rows.variable));
      rows.close(b_);
      function_.finish(b_, !cached_.empty());
      return ok_status();
    }
    llvm::Value* begin = function_.begin;
    const std::int64_t together =
        std::min(kRowsTogether, std::max<std::int64_t>(kVectorsTogether / vectors_, 1));
    if (together > 1 && plan_.shape.rows >= together) {
      llvm::Value* count = b_.CreateSub(function_.end, begin);
      llvm::Value* whole = b_.CreateSub(count, b_.CreateURem(count, number(together)));
      llvm::Value* end = b_.CreateAdd(begin, whole);
      Loop groups = Loop::open(b_, begin, end, together);
      PLIMSOLL_RETURN_IF_ERROR(write_vectors(groups.variable, together));
      groups.close(b_);
      begin = end;
    }
    Loop rows = Loop::open(b_, begin, function_.end, 1);
    PLIMSOLL_RETURN_IF_ERROR(write_vectors(rows.variable, 1));
    rows.close(b_);
    function_.finish(b_, !cached_.empty());
    return ok_status();
  }

 private:
  static std::int64_t bytes_of(const KernelGraph& graph) {
    std::int64_t bytes = 0;
    for (const ir::Shape* input : graph.inputs()) bytes += input->byte_size();
    for (const KernelNode& root : graph.roots()) bytes += root.shape->byte_size();
    return bytes;
  }

  // Where all that is read and written would not fit into the caches, stores of whole vectors
  // bypass them, except into the buffer of an input and into what a later sweep reads.
  void choose_streamed() {
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

  void store_row_results(RowCode& row) {
    for (const auto& [root, value] : row.stages.row_results()) {
      row.once.store(function_.output(root), plan_.row, value, root_node(root).dtype());
    }
  }

  // The elements reduce `reduce` takes at the lanes of `emitter`, with what changes nothing past
  // the row.
  llvm::Value* elements(RowCode& row, int reduce, ValueEmitter& emitter) {
    llvm::Value* value = row.stages.element(reduce, emitter);
    if (emitter.active() == width_) return value;
    llvm::Value* nothing =
        b_.CreateVectorSplat(static_cast<unsigned>(width_), row.stages.identity(reduce));
    return b_.CreateSelect(emitter.active_mask(), value, nothing);
  }

  // Of one block of the row, by halves.
  //
  // Slots first, then lanes, each taking in the one half the number further: the order of
  // graph/reduction_shape.h. Slots that took no element are left out; lanes that took none hold the
  // identity.
  llvm::Value* fold(RowStages& stages, int reduce, Values slots) {
    for (std::size_t half = slots.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) {
        if (slots[i + half] != nullptr) {
          slots[i] = stages.combined(reduce, slots[i], slots[i + half]);
        }
      }
    }
    llvm::Value* value = slots[0];
    for (int half = width_ / 2; half > 0; half /= 2) {
      std::vector<int> low, high;
      for (int l = 0; l < half; ++l) {
        low.push_back(l);
        high.push_back(l + half);
      }
      value = stages.combined(reduce, b_.CreateShuffleVector(value, low),
                              b_.CreateShuffleVector(value, high));
    }
    return b_.CreateExtractElement(value, std::uint64_t{0});
  }

  // Rows of a few vectors: every vector has an emitter of its own, which remembers all values.

  Status write_vectors(llvm::Value* first_row, std::int64_t count) {
    llvm::Instruction* anchor = nullptr;
    std::vector<std::unique_ptr<RowCode>> rows;
    std::vector<llvm::Value*> numbers;
    for (std::int64_t r = 0; r < count; ++r) {
      numbers.push_back(b_.CreateNSWAdd(first_row, number(r)));
      rows.push_back(std::make_unique<RowCode>(plan_, b_, function_, vectors_));
    }
    anchor = open_row();
    for (std::size_t r = 0; r < rows.size(); ++r) {
      rows[r]->open(plan_, numbers[r], anchor);
      for (std::int64_t i = 0; i < vectors_; ++i) {
        ValueEmitter& emitter = *rows[r]->lanes[at(i)];
        const std::int64_t first = i * width_;
        emitter.open_lanes(width_,
                           static_cast<int>(std::min<std::int64_t>(width_, minor_ - first)));
        emitter.bind_lane(plan_.lane, number(first));
      }
    }
    const int last = plan_.sweeps() - 1;
    for (int s = 0; s < last; ++s) {
      std::vector<Values> totals;
      for (const auto& row : rows) totals.push_back(reduce_vectors(*row, s));
      for (std::size_t r = 0; r < rows.size(); ++r) rows[r]->stages.finish_sweep(s, totals[r]);
    }
    for (const auto& row : rows) {
      for (const auto& emitter : row->lanes) {
        row->stages.tell(*emitter);
        store_roots(*emitter, stores(last));
      }
      store_row_results(*row);
      PLIMSOLL_RETURN_IF_ERROR(row->status());
    }
    return ok_status();
  }

  Values reduce_vectors(RowCode& row, int s) {
    Values totals;
    for (const auto& emitter : row.lanes) row.stages.tell(*emitter);
    for (const int reduce : reduces(s)) {
      Values slots(at(slots_));
      for (std::size_t i = 0; i < row.lanes.size(); ++i) {
        llvm::Value* value = elements(row, reduce, *row.lanes[i]);
        llvm::Value*& sum = slots[i % slots.size()];
        sum = sum == nullptr ? value : row.stages.combined(reduce, sum, value);
      }
      totals.push_back(row.stages.combined(reduce, row.stages.initial(reduce),
                                           fold(row.stages, reduce, std::move(slots))));
    }
    return totals;
  }

  // Longer rows: loops, with what is worth it kept in memory.

  Status write_row(llvm::Value* number_of_row) {
    row_ = std::make_unique<RowCode>(plan_, b_, function_, 1);
    make_scratch();
    row_->open(plan_, number_of_row, open_row());
    const int last = plan_.sweeps() - 1;
    for (int s = 0; s < last; ++s) row_->stages.finish_sweep(s, reduce_row(s));
    if (!stores(last).empty()) {
      for_vectors(number(0), minor_, [&](llvm::Value* j, int active, std::int64_t) {
        open(j, active, last);
        store_values(last);
      });
    }
    store_row_results(*row_);
    return row_->status();
  }

  void make_scratch() {
    llvm::IRBuilder<> entry(function_.entry_anchor);
    for (const KeptValue& kept : plan_.kept) {
      llvm::Value* address = nullptr;
      if (kept.output < 0) {
        llvm::Type* type = memory_type(b_.getContext(), kept.node.dtype(), width_);
        address = entry.CreateAlloca(type, number((minor_ + width_ - 1) / width_));
      }
      scratch_.push_back(address);
    }
    for (int i = 0; i < static_cast<int>(row_->stages.reducers().size()); ++i) {
      Values slots;
      for (std::int64_t k = 0; k < slots_; ++k) {
        slots.push_back(
            entry.CreateAlloca(memory_type(b_.getContext(), row_->stages.accumulator(i), width_)));
      }
      slots_of_.push_back(std::move(slots));
      totals_.push_back(
          entry.CreateAlloca(memory_type(b_.getContext(), row_->stages.accumulator(i), 1)));
    }
  }

  llvm::Value* load(llvm::Value* address, int reduce, int width) {
    const ir::DType dtype = row_->stages.accumulator(reduce);
    return to_register(b_, b_.CreateLoad(memory_type(b_.getContext(), dtype, width), address),
                       dtype);
  }
  void save(llvm::Value* value, llvm::Value* address, int reduce) {
    b_.CreateStore(to_memory(b_, value, row_->stages.accumulator(reduce)), address);
  }

  llvm::Value* scratch_at(std::size_t kept, llvm::Value* j) {
    llvm::Type* element = memory_type(b_.getContext(), plan_.kept[kept].node.dtype(), 1);
    return b_.CreateInBoundsGEP(element, scratch_[kept], j);
  }

  // f(first element, elements, accumulator) for the vectors of a part of the row.
  template <typename F>
  void for_vectors(llvm::Value* begin, std::int64_t length, F f) {
    const std::int64_t together = std::max(kUnroll, slots_);
    const std::int64_t step = together * width_;
    const std::int64_t whole = length / step * step;
    if (whole > 0) {
      Loop loop = Loop::open(b_, begin, b_.CreateAdd(begin, number(whole)), step);
      for (std::int64_t k = 0; k < together; ++k) {
        f(b_.CreateNSWAdd(loop.variable, number(k * width_)), width_, k % slots_);
      }
      loop.close(b_);
    }
    for (std::int64_t at = whole; at < length; at += width_) {
      f(b_.CreateAdd(begin, number(at)),
        static_cast<int>(std::min<std::int64_t>(width_, length - at)), at / width_ % slots_);
    }
  }

  // The lanes from element `j` on in sweep `s`, with what is known there.
  void open(llvm::Value* j, int active, int s) {
    ValueEmitter& emitter = *row_->lanes[0];
    emitter.open_lanes(width_, active);
    emitter.bind_lane(plan_.lane, j);
    row_->stages.tell(emitter);
    position_ = j;
    for (std::size_t k = 0; k < plan_.kept.size(); ++k) {
      const KeptValue& kept = plan_.kept[k];
      if (kept.sweep >= s) continue;
      const ir::DType dtype = kept.node.dtype();
      llvm::Value* value =
          kept.output >= 0 ? emitter.load(function_.output(kept.output), element_, dtype)
                           : to_register(b_,
                                         b_.CreateLoad(memory_type(b_.getContext(), dtype, width_),
                                                       scratch_at(k, j)),
                                         dtype);
      emitter.assume(kept.node, plan_.own_index(kept.node.dims()), value);
    }
  }

  // What sweep `s` leaves in memory; all values before any store.
  void store_values(int s) {
    ValueEmitter& emitter = *row_->lanes[0];
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
        b_.CreateStore(to_memory(b_, values[k], kept.node.dtype()), scratch_at(k, position_));
      }
    }
  }

  bool is_stored_as_root(const KeptValue& kept) const {
    return std::any_of(stores(kept.sweep).begin(), stores(kept.sweep).end(),
                       [&](int root) { return root == kept.output; });
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

  Values reduce_row(int s) {
    for (const int reduce : reduces(s)) {
      save(row_->stages.initial(reduce), totals_[at(reduce)], reduce);
    }
    const std::int64_t block = plan_.cut.block_minor;
    const std::int64_t whole = minor_ / block;
    if (whole > 1) {
      Loop blocks = Loop::open(b_, number(0), number(whole * block), block);
      reduce_block(s, blocks.variable, block);
      blocks.close(b_);
    } else if (whole == 1) {
      reduce_block(s, number(0), block);
    }
    if (whole * block < minor_) reduce_block(s, number(whole * block), minor_ - whole * block);
    Values totals;
    for (const int reduce : reduces(s)) {
      totals.push_back(load(totals_[at(reduce)], reduce, 1));
    }
    return totals;
  }

  void reduce_block(int s, llvm::Value* begin, std::int64_t length) {
    for (const int reduce : reduces(s)) {
      llvm::Value* nothing =
          b_.CreateVectorSplat(static_cast<unsigned>(width_), row_->stages.identity(reduce));
      for (llvm::Value* slot : slots_of_[at(reduce)]) {
        save(nothing, slot, reduce);
      }
    }
    for_vectors(begin, length, [&](llvm::Value* j, int active, std::int64_t slot) {
      open(j, active, s);
      Values values;
      for (const int reduce : reduces(s)) {
        values.push_back(elements(*row_, reduce, *row_->lanes[0]));
      }
      store_values(s);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const int reduce = reduces(s)[i];
        llvm::Value* place = slots_of_[at(reduce)][at(slot)];
        save(row_->stages.combined(reduce, load(place, reduce, width_), values[i]), place, reduce);
      }
    });
    for (const int reduce : reduces(s)) {
      Values slots;
      for (llvm::Value* slot : slots_of_[at(reduce)]) {
        slots.push_back(load(slot, reduce, width_));
      }
      llvm::Value* total = totals_[at(reduce)];
      save(row_->stages.combined(reduce, load(total, reduce, 1),
                                 fold(row_->stages, reduce, std::move(slots))),
           total, reduce);
    }
  }

  RowPlan& plan_;
  llvm::IRBuilder<> b_;
  PhaseFunction function_;
  const std::int64_t minor_;
  const int width_;
  const std::int64_t slots_;    // accumulators of a reduce
  const std::int64_t vectors_;  // of a row
  const bool unrolled_;
  std::unique_ptr<RowCode> row_;  // where rows are loops
  Affine element_;
  std::vector<Values> slots_of_;
  Values totals_, scratch_;
  Values cached_;  // of each root, where stores are streamed
  llvm::Value* position_ = nullptr;
};

}  // namespace

Result<Phase> write_long_rows(RowPlan& plan, const KernelTarget& target, llvm::Module& module,
                              const std::string& name) {
  LongRows writer(plan, target, module, name);
  PLIMSOLL_RETURN_IF_ERROR(writer.write());
  Phase phase;
  phase.function = name;
  phase.units = plan.shape.rows;
  phase.unit_seconds =
      seconds_per_element(plan.graph) * static_cast<double>(plan.shape.minor) + 5e-9;
  return phase;
}

}  // namespace plimsoll::jit
