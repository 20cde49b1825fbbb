// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_rows.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_reductions.h"
#include "jit/graph/row_plan.h"
#include "jit/reductions/row_writer.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;
using Values = std::vector<Value*>;

constexpr std::int64_t kMostWarps = 16;  // of a row that is cut into blocks
// Elements of a thread that stay in registers from the first sweep to the last, and the values that
// are computed of all of them together.
constexpr std::int64_t kMostHeld = 32, kMostHeldValues = 1280;
constexpr std::size_t kShortRow = 16;
constexpr std::int64_t kTeamLanes = 64;  // what rows have that a warp can't hold
constexpr std::int64_t kMostInTeam = 1024;

// Who computes a row.
struct RowThreads {
  int threads = 1;         // that are lanes of the reduction, side by side in a warp
  std::int64_t slots = 1;  // lanes of a thread
  std::int64_t warps = 1;  // that share a row in loops
  std::int64_t held = 1;   // elements of a thread
  bool holds = false;      // in registers
  // Not a warp but all threads of a block hold a row: lane by lane of each block of the reduction,
  // and `groups` threads a lane, each of which takes its elements on from the one before.
  bool is_team = false;
  std::int64_t groups = 1;
  std::uint32_t block = kBlockThreads;

  static RowThreads of(const RowPlan& plan) {
    const std::int64_t minor = plan.shape.minor, blocks = plan.cut.blocks();
    const auto instructions = static_cast<std::int64_t>(plan.graph.instructions().size());
    RowThreads made;
    made.threads = threads_of_row(plan.cut.lanes);
    made.slots = plan.cut.lanes / made.threads;
    made.held = divide_up(minor, made.threads);
    const auto fits = [&] {
      return made.held <= kMostHeld && made.held * instructions <= kMostHeldValues;
    };
    made.holds = blocks == 1 && fits();
    if (made.holds) return made;
    const std::int64_t turns = divide_up(std::min(minor, plan.cut.block_minor), kTeamLanes);
    made.groups = divide_up(turns, kMostHeld);
    made.held = divide_up(turns, made.groups);
    const std::int64_t team = blocks * kTeamLanes * made.groups;
    if (plan.cut.lanes == kTeamLanes && team <= kMostInTeam && fits()) {
      made.holds = made.is_team = true;
      made.block = static_cast<std::uint32_t>(team);
      return made;
    }
    if (blocks == 1) return made;
    made.warps = std::min(
        kMostWarps, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(blocks))));
    made.block = static_cast<std::uint32_t>(made.warps * kWarp);
    return made;
  }
};

// Rows of up to 1024 elements are a warp's each (short ones a part of a warp's), whose threads are
// the lanes of the reduction, as in gpu_row_sweep.cc; longer ones are a block's of threads. Each
// thread reads its elements once, and keeps what it has computed of them in registers.
//
// Where a thread has too many elements for that, every sweep reads the row again, out of the cache:
// a warp's up to 4096 elements, else a block's, each warp of which takes blocks of 4096 elements,
// and all combine them in order.
class GpuRows {
 public:
  GpuRows(GpuWriter& writer, RowPlan& plan)
      : plan_(plan),
        minor_(plan.shape.minor),
        blocks_(plan.cut.blocks()),
        layout_(RowThreads::of(plan)),
        threads_(layout_.threads),
        slots_(layout_.slots),
        warps_(layout_.warps),
        held_(layout_.held),
        of_warp_(blocks_ == 1 && !layout_.is_team),
        entry_(writer, layout_.block),
        b_(entry_.builder()),
        once_(plan.graph, plan.space, b_, entry_.function(), 1),
        stages_(plan, b_, once_, b_.getContext()) {
    prepare(once_);
  }

  Status write() {
    const std::int64_t rows = plan_.shape.rows;
    Value* row = nullptr;
    if (of_warp_) {
      row = entry_.thread();
      lane_ = entry_.split(&row, threads_);
      warp_ = entry_.number(0);
    } else {
      row = entry_.block_in_grid();
      Value* thread = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
      warp_ = thread;
      lane_ = entry_.split(&warp_, kWarp);
    }
    // Threads past the last row do its work once more, for the exchange of registers, and store
    // nothing.
    exists_ = of_warp_ ? b_.CreateICmpULT(row, entry_.number(rows)) : b_.getTrue();
    if (of_warp_) row = b_.CreateSelect(exists_, row, entry_.number(rows - 1));
    once_.open_lanes(1, 1);
    once_.bind_lane(plan_.row, row);
    anchor_ = entry_.open_place();
    row_ = row;
    element_ = plan_.space.add(plan_.space.scale(plan_.row, minor_), plan_.lane);
    if (layout_.holds) {
      PLIMSOLL_RETURN_IF_ERROR(write_held());
    } else {
      PLIMSOLL_RETURN_IF_ERROR(write_loops());
    }
    store_row_results();
    PLIMSOLL_RETURN_IF_ERROR(once_.status());
    entry_.launch(of_warp_ ? rows * threads_ : rows * layout_.block);
    return ok_status();
  }

 private:
  void prepare(ValueEmitter& emitter) {
    if (entry_.index_type()->getBitWidth() == 32) emitter.use_narrow_indices();
    emitter.align_buffers(kGpuAlignment);
  }

  std::unique_ptr<ValueEmitter> make_emitter() {
    auto emitter =
        std::make_unique<ValueEmitter>(plan_.graph, plan_.space, b_, entry_.function(), 2);
    prepare(*emitter);
    emitter->anchor(1, anchor_);
    emitter->bind(plan_.row, row_);
    return emitter;
  }

  const std::vector<int>& reduces(int s) const { return plan_.reduces[at(s)]; }
  const KernelNode& root_node(int root) const { return plan_.graph.roots()[at(root)]; }

  // What all threads of the row get to know: `slots` folded.
  Value* folded(int reduce, Values slots) {
    std::vector<Values> each;
    for (Value* slot : slots) each.push_back({slot});
    Value* lane = b_.CreateIntCast(lane_, b_.getInt32Ty(), false);
    return fold_lanes(entry_, once_, stages_.reducer(reduce), std::move(each), threads_, lane,
                      nullptr)[0];
  }
  Value* shared_by_row(Value* of_first_lane) {
    return entry_.from_lane(of_first_lane, b_.getInt32(0), threads_);
  }

  Values root_values(ValueEmitter& emitter) {
    Values values;
    for (const int root : plan_.stores.back()) {
      values.push_back(emitter.value(root_node(root), plan_.own_index(root_node(root).dims())));
    }
    return values;
  }
  void store_roots(ValueEmitter& emitter, const Values& values, Value* condition) {
    const auto& roots = plan_.stores.back();
    entry_.when(condition, [&] {
      for (std::size_t i = 0; i < roots.size(); ++i) {
        emitter.store(entry_.function().output(roots[i]), element_, values[i],
                      root_node(roots[i]).dtype());
      }
    });
  }

  // An output may be the buffer of an input that other threads of the row have read.
  void store_row_results() {
    const auto results = stages_.row_results();
    if (results.empty()) return;
    of_warp_ ? entry_.warp_barrier() : entry_.barrier();
    Value* first = b_.CreateAnd(b_.CreateIsNull(lane_), b_.CreateIsNull(warp_));
    entry_.when(b_.CreateAnd(exists_, first), [&] {
      for (const auto& [root, value] : results) {
        once_.store(entry_.function().output(root), plan_.row, value, root_node(root).dtype());
      }
    });
  }

  // Rows in registers: every element has an emitter of its own, which remembers all values.
  Status write_held() {
    const Places places = layout_.is_team ? places_of_team() : places_of_warp();
    std::vector<std::unique_ptr<ValueEmitter>> emitters;
    for (Value* place : places.elements) {
      emitters.push_back(make_emitter());
      emitters.back()->open_lanes(1, 1);
      emitters.back()->bind_lane(plan_.lane, place);
    }
    const int last = plan_.sweeps() - 1;
    for (int s = 0; s < last; ++s) {
      for (const auto& emitter : emitters) stages_.tell(*emitter);
      Values totals;
      for (const int reduce : reduces(s)) {
        Values values;
        for (std::size_t i = 0; i < emitters.size(); ++i) {
          values.push_back(stages_.element(reduce, *emitters[i]));
          if (places.present[i] == nullptr) continue;
          values[i] = b_.CreateSelect(places.present[i], values[i], stages_.identity(reduce));
        }
        totals.push_back(layout_.is_team ? team_total(reduce, values) : warp_total(reduce, values));
      }
      stages_.finish_sweep(s, totals);
    }
    std::vector<Values> results;
    for (const auto& emitter : emitters) {
      stages_.tell(*emitter);
      results.push_back(root_values(*emitter));
    }
    for (std::size_t i = 0; i < emitters.size(); ++i) {
      Value* present = places.present[i];
      store_roots(*emitters[i], results[i],
                  present == nullptr ? exists_ : b_.CreateAnd(exists_, present));
      PLIMSOLL_RETURN_IF_ERROR(emitters[i]->status());
    }
    return ok_status();
  }

  // A thread's elements of the row, and which of them there are; null: in every thread.
  struct Places {
    Values elements, present;
    void add(llvm::IRBuilder<>& b, Value* element, Value* is_there, Value* last) {
      elements.push_back(is_there == nullptr ? element : b.CreateSelect(is_there, element, last));
      present.push_back(is_there);
    }
  };

  Places places_of_warp() {
    Places places;
    for (std::int64_t i = 0; i < held_; ++i) {
      Value* j = b_.CreateAdd(lane_, entry_.number(i * threads_));
      const bool is_everywhere = (i + 1) * threads_ <= minor_;
      places.add(b_, j, is_everywhere ? nullptr : b_.CreateICmpSLT(j, entry_.number(minor_)),
                 entry_.number(minor_ - 1));
    }
    return places;
  }

  Places places_of_team() {
    const std::int64_t block_minor = plan_.cut.block_minor;
    part_ = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    team_lane_ = entry_.split(&part_, kTeamLanes);
    group_ = entry_.split(&part_, layout_.groups);
    Value* begin = b_.CreateMul(part_, entry_.number(block_minor));
    Value* end = least(b_.CreateAdd(begin, entry_.number(block_minor)), entry_.number(minor_));
    Value* first = b_.CreateAdd(b_.CreateAdd(begin, team_lane_),
                                b_.CreateMul(group_, entry_.number(held_ * kTeamLanes)));
    const bool is_everywhere =
        minor_ % block_minor == 0 && held_ * layout_.groups * kTeamLanes == block_minor;
    Places places;
    for (std::int64_t i = 0; i < held_; ++i) {
      Value* j = b_.CreateAdd(first, entry_.number(i * kTeamLanes));
      places.add(b_, j, is_everywhere ? nullptr : b_.CreateICmpSLT(j, end),
                 entry_.number(minor_ - 1));
    }
    return places;
  }

  Value* warp_total(int reduce, const Values& values) {
    Values slots(at(slots_));
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value*& sum = slots[i % slots.size()];
      sum = sum == nullptr ? values[i] : stages_.combined(reduce, sum, values[i]);
    }
    for (Value*& slot : slots) {
      if (slot == nullptr) slot = stages_.identity(reduce);
    }
    Value* total = shared_by_row(folded(reduce, std::move(slots)));
    return stages_.combined(reduce, stages_.initial(reduce), total);
  }

  // The lanes' sums lie in shared memory, where group after group takes its elements in; then each
  // warp folds all blocks' for itself.
  Value* team_total(int reduce, const Values& values) {
    llvm::Type* type = memory_type(b_.getContext(), stages_.accumulator(reduce), 1);
    Value* shared = entry_.share(type, blocks_ * kTeamLanes);
    const auto place = [&](Value* part, Value* lane) {
      return b_.CreateInBoundsGEP(
          type, shared, b_.CreateAdd(b_.CreateMul(part, entry_.number(kTeamLanes)), lane));
    };
    for (std::int64_t g = 0; g < layout_.groups; ++g) {
      Value* is_next = layout_.groups == 1 ? nullptr : b_.CreateICmpEQ(group_, entry_.number(g));
      entry_.when(is_next, [&] {
        Value* sum = g == 0 ? nullptr : load(place(part_, team_lane_), reduce);
        for (Value* value : values) {
          sum = sum == nullptr ? value : stages_.combined(reduce, sum, value);
        }
        save(sum, place(part_, team_lane_), reduce);
      });
      entry_.barrier();
    }
    Value* total = stages_.initial(reduce);
    for (std::int64_t k = 0; k < blocks_; ++k) {
      Values lanes;
      for (const std::int64_t half : {std::int64_t{0}, std::int64_t{kWarp}}) {
        lanes.push_back(
            load(place(entry_.number(k), b_.CreateAdd(lane_, entry_.number(half))), reduce));
      }
      total = stages_.combined(reduce, total, shared_by_row(folded(reduce, std::move(lanes))));
    }
    return total;
  }

  // Longer rows.

  Status write_loops() {
    emitter_ = make_emitter();
    const auto reducers = stages_.reducers().size();
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    for (std::size_t r = 0; r < reducers; ++r) {
      llvm::Type* type = memory_type(b_.getContext(), stages_.accumulator(static_cast<int>(r)), 1);
      Values& slots = slots_of_.emplace_back();
      for (std::int64_t i = 0; i < slots_; ++i) slots.push_back(start.CreateAlloca(type));
      totals_.push_back(start.CreateAlloca(type));
      partials_.push_back(blocks_ == 1 ? nullptr : entry_.share(type, warps_));
    }
    const int last = plan_.sweeps() - 1;
    for (int s = 0; s < last; ++s) {
      Values totals;
      if (blocks_ == 1) {
        for (Value* total : reduce_block(s, entry_.number(0), entry_.number(minor_))) {
          totals.push_back(shared_by_row(total));
        }
        for (std::size_t i = 0; i < totals.size(); ++i) {
          const int reduce = reduces(s)[i];
          totals[i] = stages_.combined(reduce, stages_.initial(reduce), totals[i]);
        }
      } else {
        totals = reduce_blocks(s);
      }
      stages_.finish_sweep(s, totals);
    }
    if (!plan_.stores.back().empty()) {
      Value* thread = b_.CreateAdd(b_.CreateMul(warp_, entry_.number(kWarp)), lane_);
      const std::int64_t step = blocks_ == 1 ? threads_ : warps_ * kWarp;
      Value* end = b_.CreateSelect(exists_, entry_.number(minor_), entry_.number(0));
      for_elements(thread, end, step, [&](Value* j, std::int64_t) {
        open(j);
        store_roots(*emitter_, root_values(*emitter_), nullptr);
      });
    }
    return emitter_->status();
  }

  void open(Value* j) {
    emitter_->open_lanes(1, 1);
    emitter_->bind_lane(plan_.lane, j);
    stages_.tell(*emitter_);
  }

  // f(element, turn) for elements `from`, `from` + step, ... below `end`.
  template <typename F>
  void for_elements(Value* from, Value* end, std::int64_t step, F f) {
    const std::int64_t together = plan_.graph.instructions().size() <= kShortRow
                                      ? kTurnsTogether
                                      : std::max(slots_, std::int64_t{1});
    Value* last = b_.CreateSub(end, entry_.number((together - 1) * step));
    Loop loop = Loop::open(b_, from, last, together * step);
    for (std::int64_t turn = 0; turn < together; ++turn) {
      f(b_.CreateAdd(loop.variable, entry_.number(turn * step)), turn);
    }
    loop.close(b_);
    // What the loop has left: its count in whole steps, as every turn takes `together`.
    Value* length =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(last, from), entry_.number(0));
    Value* turns = b_.CreateUDiv(b_.CreateAdd(length, entry_.number(together * step - 1)),
                                 entry_.number(together * step));
    Value* rest = b_.CreateAdd(from, b_.CreateMul(turns, entry_.number(together * step)));
    for (std::int64_t turn = 0; turn + 1 < together; ++turn) {
      Value* j = b_.CreateAdd(rest, entry_.number(turn * step));
      entry_.when(b_.CreateICmpSLT(j, end), [&] { f(j, turn); });
    }
  }

  Value* load(Value* address, int reduce) {
    const ir::DType dtype = stages_.accumulator(reduce);
    return to_register(b_, b_.CreateLoad(memory_type(b_.getContext(), dtype, 1), address), dtype);
  }
  void save(Value* value, Value* address, int reduce) {
    b_.CreateStore(to_memory(b_, value, stages_.accumulator(reduce)), address);
  }

  // The totals of the reduces of sweep `s` over elements [begin, end), in lane 0.
  Values reduce_block(int s, Value* begin, Value* end) {
    for (const int reduce : reduces(s)) {
      for (Value* slot : slots_of_[at(reduce)]) save(stages_.identity(reduce), slot, reduce);
    }
    for_elements(b_.CreateAdd(begin, lane_), end, threads_, [&](Value* j, std::int64_t turn) {
      open(j);
      Values values;
      for (const int reduce : reduces(s)) values.push_back(stages_.element(reduce, *emitter_));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const int reduce = reduces(s)[i];
        Value* slot = slots_of_[at(reduce)][at(turn % slots_)];
        save(stages_.combined(reduce, load(slot, reduce), values[i]), slot, reduce);
      }
    });
    Values totals;
    for (const int reduce : reduces(s)) {
      Values slots;
      for (Value* slot : slots_of_[at(reduce)]) slots.push_back(load(slot, reduce));
      totals.push_back(folded(reduce, std::move(slots)));
    }
    return totals;
  }

  // Of a row that a block of threads shares: its warps take as many blocks at a time as they are.
  Values reduce_blocks(int s) {
    for (const int reduce : reduces(s)) {
      save(stages_.initial(reduce), totals_[at(reduce)], reduce);
    }
    Loop groups = Loop::open(b_, entry_.number(0), entry_.number(blocks_), warps_);
    Value* begin =
        b_.CreateMul(b_.CreateAdd(groups.variable, warp_), entry_.number(plan_.cut.block_minor));
    begin = least(begin, entry_.number(minor_));
    Value* end =
        least(b_.CreateAdd(begin, entry_.number(plan_.cut.block_minor)), entry_.number(minor_));
    const Values totals = reduce_block(s, begin, end);
    entry_.when(b_.CreateIsNull(lane_), [&] {
      for (std::size_t i = 0; i < totals.size(); ++i) {
        save(totals[i], partial(reduces(s)[i], warp_), reduces(s)[i]);
      }
    });
    entry_.barrier();
    Value* count =
        least(b_.CreateSub(entry_.number(blocks_), groups.variable), entry_.number(warps_));
    Loop warps = Loop::open(b_, entry_.number(0), count, 1);
    for (const int reduce : reduces(s)) {
      Value* total = totals_[at(reduce)];
      save(stages_.combined(reduce, load(total, reduce),
                            load(partial(reduce, warps.variable), reduce)),
           total, reduce);
    }
    warps.close(b_);
    entry_.barrier();
    groups.close(b_);
    Values results;
    for (const int reduce : reduces(s)) results.push_back(load(totals_[at(reduce)], reduce));
    return results;
  }

  Value* partial(int reduce, Value* warp) {
    return b_.CreateInBoundsGEP(memory_type(b_.getContext(), stages_.accumulator(reduce), 1),
                                partials_[at(reduce)], warp);
  }
  Value* least(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }

  RowPlan& plan_;
  const std::int64_t minor_, blocks_;
  const RowThreads layout_;
  const int threads_;
  const std::int64_t slots_, warps_, held_;
  const bool of_warp_;  // else a block of threads has a row
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  ValueEmitter once_;
  RowStages stages_;
  std::unique_ptr<ValueEmitter> emitter_;  // where rows are loops
  Value *lane_ = nullptr, *warp_ = nullptr, *row_ = nullptr, *exists_ = nullptr;
  Value *part_ = nullptr, *group_ = nullptr, *team_lane_ = nullptr;  // of a team's thread
  llvm::Instruction* anchor_ = nullptr;
  Affine element_;
  std::vector<Values> slots_of_;
  Values totals_, partials_;
};

}  // namespace

Status write_gpu_rows(GpuWriter& writer) {
  PLIMSOLL_ASSIGN_OR_RETURN(RowPlan plan, make_row_plan(*writer.graph, RowLayout::loops));
  if (!plan.columns.empty()) {
    return refuse(*writer.graph->reduces()[at(plan.columns.front())],
                  "adds up columns beside rows, which GPUs do in a kernel of its own");
  }
  return GpuRows(writer, plan).write();
}

}  // namespace plimsoll::jit
