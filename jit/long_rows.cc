// SPDX-License-Identifier: Apache-2.0
// Row kernels whose vectors lie along the row: in registers from sweep to sweep where the row is a
// few vectors, else in loops over the row.
#include <algorithm>
#include <memory>

#include "jit/elementwise.h"
#include "jit/row_writer.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr std::int64_t kUnroll = 4;  // vectors, where the reduction has not more accumulators

class LongRows {
 public:
  LongRows(RowPlan& plan, llvm::Module& module, const std::string& name)
      : plan_(plan),
        b_(module.getContext()),
        function_(PhaseFunction::create(module, name, b_)),
        once_(plan.graph, plan.space, b_, function_, 1),
        stages_(plan, b_, once_, module.getContext()),
        minor_(plan.shape.minor),
        width_(static_cast<int>(std::min<std::int64_t>(plan.cut.lanes, kRowWidth))),
        slots_(plan.cut.lanes / width_),
        unrolled_(minor_ <= kRowVectors * width_ && plan.cut.blocks() == 1) {
    const std::int64_t emitters = unrolled_ ? (minor_ + width_ - 1) / width_ : 1;
    for (std::int64_t i = 0; i < emitters; ++i) {
      lanes_.push_back(std::make_unique<ValueEmitter>(plan.graph, plan.space, b_, function_, 2));
    }
    if (!unrolled_) plan_row_sweeps(plan);
    element_ = plan.space.add(plan.space.scale(plan.row, minor_), plan.lane);
  }

  Status write() {
    make_scratch();
    Loop rows = Loop::open(b_, function_.begin, function_.end, 1);
    auto* next = llvm::BasicBlock::Create(b_.getContext(), "row", function_.function);
    llvm::Instruction* anchor = b_.CreateBr(next);
    b_.SetInsertPoint(next);
    once_.open_lanes(1, 1);
    once_.bind_lane(plan_.row, rows.variable);
    for (const auto& emitter : lanes_) {
      emitter->anchor(1, anchor);
      emitter->bind(plan_.row, rows.variable);
    }
    const int last = plan_.sweeps() - 1;
    if (unrolled_) open_vectors();
    for (int s = 0; s < last; ++s) {
      stages_.finish_sweep(s, unrolled_ ? reduce_vectors(s) : reduce_row(s));
    }
    if (!plan_.stores.back().empty()) {
      if (unrolled_) {
        store_vectors();
      } else {
        for_vectors(number(0), minor_, [&](llvm::Value* j, int active, std::int64_t) {
          open(j, active, last);
          store_values(last);
        });
      }
    }
    for (const auto& [root, value] : stages_.row_results()) {
      once_.store(function_.output(root), plan_.row, value, root_node(root).dtype());
    }
    rows.close(b_);
    b_.CreateRetVoid();
    PLIMSOLL_RETURN_IF_ERROR(once_.status());
    for (const auto& emitter : lanes_) PLIMSOLL_RETURN_IF_ERROR(emitter->status());
    return ok_status();
  }

 private:
  llvm::Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  const Node& root_node(int root) const {
    return plan_.graph.roots()[static_cast<std::size_t>(root)];
  }
  const std::vector<int>& reduces(int s) const {
    return plan_.reduces[static_cast<std::size_t>(s)];
  }
  const std::vector<int>& stores(int s) const { return plan_.stores[static_cast<std::size_t>(s)]; }

  // `value`, with what changes nothing in lanes past the row.
  llvm::Value* within_row(int reduce, llvm::Value* value, const ValueEmitter& emitter) {
    if (emitter.active() == width_) return value;
    llvm::Value* nothing =
        b_.CreateVectorSplat(static_cast<unsigned>(width_), stages_.identity(reduce));
    return b_.CreateSelect(emitter.active_mask(), value, nothing);
  }

  // Of one block of the row, by halves.
  llvm::Value* fold(int reduce, Values slots) {
    for (std::size_t half = slots.size() / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) {
        if (slots[i + half] != nullptr) {
          slots[i] = stages_.combined(reduce, slots[i], slots[i + half]);
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
      value = stages_.combined(reduce, b_.CreateShuffleVector(value, low),
                               b_.CreateShuffleVector(value, high));
    }
    return b_.CreateExtractElement(value, std::uint64_t{0});
  }

  // Rows of a few vectors: every vector has an emitter of its own, which remembers all values.

  void open_vectors() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const auto first = static_cast<std::int64_t>(i) * width_;
      lanes_[i]->open_lanes(width_,
                            static_cast<int>(std::min<std::int64_t>(width_, minor_ - first)));
      lanes_[i]->bind_lane(plan_.lane, number(first));
    }
  }

  Values reduce_vectors(int s) {
    Values totals;
    for (const auto& emitter : lanes_) stages_.tell(*emitter);
    for (const int reduce : reduces(s)) {
      Values slots(static_cast<std::size_t>(slots_));
      for (std::size_t i = 0; i < lanes_.size(); ++i) {
        llvm::Value* value = within_row(reduce, stages_.element(reduce, *lanes_[i]), *lanes_[i]);
        llvm::Value*& sum = slots[i % slots.size()];
        sum = sum == nullptr ? value : stages_.combined(reduce, sum, value);
      }
      totals.push_back(
          stages_.combined(reduce, stages_.initial(reduce), fold(reduce, std::move(slots))));
    }
    return totals;
  }

  void store_vectors() {
    for (const auto& emitter : lanes_) {
      stages_.tell(*emitter);
      store_roots(*emitter, stores(plan_.sweeps() - 1));
    }
  }

  // Longer rows: loops, with what is worth it kept in memory.

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
    for (int i = 0; i < static_cast<int>(stages_.reducers().size()) && !unrolled_; ++i) {
      Values slots;
      for (std::int64_t k = 0; k < slots_; ++k) {
        slots.push_back(
            entry.CreateAlloca(memory_type(b_.getContext(), stages_.accumulator(i), width_)));
      }
      slots_of_.push_back(std::move(slots));
      totals_.push_back(
          entry.CreateAlloca(memory_type(b_.getContext(), stages_.accumulator(i), 1)));
    }
  }

  llvm::Value* load(llvm::Value* address, int reduce, int width) {
    const ir::DType dtype = stages_.accumulator(reduce);
    return to_register(b_, b_.CreateLoad(memory_type(b_.getContext(), dtype, width), address),
                       dtype);
  }
  void save(llvm::Value* value, llvm::Value* address, int reduce) {
    b_.CreateStore(to_memory(b_, value, stages_.accumulator(reduce)), address);
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
    ValueEmitter& emitter = *lanes_[0];
    emitter.open_lanes(width_, active);
    emitter.bind_lane(plan_.lane, j);
    stages_.tell(emitter);
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
    ValueEmitter& emitter = *lanes_[0];
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
      const Node& node = root_node(root);
      values.push_back(emitter.value(node, plan_.own_index(node.dims())));
    }
    for (std::size_t i = 0; i < roots.size(); ++i) {
      emitter.store(function_.output(roots[i]), element_, values[i], root_node(roots[i]).dtype());
    }
  }

  Values reduce_row(int s) {
    for (const int reduce : reduces(s)) {
      save(stages_.initial(reduce), totals_[static_cast<std::size_t>(reduce)], reduce);
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
      totals.push_back(load(totals_[static_cast<std::size_t>(reduce)], reduce, 1));
    }
    return totals;
  }

  void reduce_block(int s, llvm::Value* begin, std::int64_t length) {
    for (const int reduce : reduces(s)) {
      llvm::Value* nothing =
          b_.CreateVectorSplat(static_cast<unsigned>(width_), stages_.identity(reduce));
      for (llvm::Value* slot : slots_of_[static_cast<std::size_t>(reduce)]) {
        save(nothing, slot, reduce);
      }
    }
    for_vectors(begin, length, [&](llvm::Value* j, int active, std::int64_t slot) {
      open(j, active, s);
      Values values;
      for (const int reduce : reduces(s)) {
        values.push_back(within_row(reduce, stages_.element(reduce, *lanes_[0]), *lanes_[0]));
      }
      store_values(s);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const int reduce = reduces(s)[i];
        llvm::Value* place =
            slots_of_[static_cast<std::size_t>(reduce)][static_cast<std::size_t>(slot)];
        save(stages_.combined(reduce, load(place, reduce, width_), values[i]), place, reduce);
      }
    });
    for (const int reduce : reduces(s)) {
      Values slots;
      for (llvm::Value* slot : slots_of_[static_cast<std::size_t>(reduce)]) {
        slots.push_back(load(slot, reduce, width_));
      }
      llvm::Value* total = totals_[static_cast<std::size_t>(reduce)];
      save(stages_.combined(reduce, load(total, reduce, 1), fold(reduce, std::move(slots))), total,
           reduce);
    }
  }

  RowPlan& plan_;
  llvm::IRBuilder<> b_;
  PhaseFunction function_;
  ValueEmitter once_;  // a row at a time
  RowStages stages_;
  const std::int64_t minor_;
  const int width_;
  const std::int64_t slots_;  // accumulators of a reduce
  const bool unrolled_;
  std::vector<std::unique_ptr<ValueEmitter>> lanes_;
  Affine element_;
  std::vector<Values> slots_of_;
  Values totals_, scratch_;
  llvm::Value* position_ = nullptr;
};

}  // namespace

Result<Phase> write_long_rows(RowPlan& plan, llvm::Module& module, const std::string& name) {
  LongRows writer(plan, module, name);
  PLIMSOLL_RETURN_IF_ERROR(writer.write());
  Phase phase;
  phase.function = name;
  phase.units = plan.shape.rows;
  phase.unit_seconds =
      seconds_per_element(plan.graph) * static_cast<double>(plan.shape.minor) + 5e-9;
  return phase;
}

}  // namespace plimsoll::jit
