// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_loops.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "jit/emit/elementwise.h"
#include "jit/emit/value_emitter.h"
#include "jit/graph/reduction_shape.h"
#include "jit/loops/loop_nest.h"
#include "jit/loops/placed_roots.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

constexpr int kMostLanes = 8, kCostlyLanes = 4;
// Pieces of 16 bytes that a thread reads before it waits for the first one: of so many bytes of all
// operands together, where so many threads are left.
constexpr std::int64_t kMostPieces = 4, kBytesOfPieces = 64, kThreadsOfPieces = 1 << 17;
// The sides of tiles that pass through shared memory: of elements of up to 2 bytes the second one,
// so that as many bytes are read side by side. Loops of half of the first at least are worth one;
// of so many operands at most.
constexpr std::int64_t kStagedTile = 32, kNarrowStagedTile = 64;
constexpr std::size_t kMostStaged = 4;
// Elements of a tile that a thread computes together, by instructions of the graph.
constexpr std::int64_t kStagedInstructions = 128;

// A nest as a grid: thread t computes the `width_` elements from t * width_ on, a piece, which lie
// side by side along the innermost loop, with accesses of 16 bytes where elements are read and
// written in their order. What is left of a single loop is computed element by element. Of a large
// nest a thread takes several pieces, a block of threads apart, and reads all before it computes.
//
// Operands that are read far apart along the innermost loop and side by side along another one
// (transposes) come by way of shared memory: a block has a tile of 32 by 32 elements (64 by 64 of
// narrow ones), which its
// threads read with neighbours along the other loop, and compute with neighbours along the
// innermost one (Ruetsch and Micikevicius, "Optimizing matrix transpose in CUDA", 2009).
//
// Example: f32[1000] + f32[1000] at a width of 4: 250 threads. f32[30,15] transposed: the loops are
// 15 and 30, a thread computes one element, whose place is found by dividing the thread's number.
class LoopGrid {
 public:
  LoopGrid(GpuWriter& writer, const LoopNest& nest)
      : nest_(nest),
        graph_(*writer.graph),
        entry_(writer, kBlockThreads),
        extents_(choose_extents(graph_, nest)) {
    for (const std::int64_t extent : extents_) total_ *= extent;
    for (const std::int64_t extent : extents_) {
      loops_.push_back(space_.add_loop(extent, 1));
      position_ = space_.add(space_.scale(position_, extent), loops_.back());
    }
    width_ = choose_width();
    choose_staged();
    if (staged_.empty()) choose_pieces();
    make_emitters(pieces_);
  }

  Result<GpuLaunch*> write() {
    if (!staged_.empty()) return write_tiles();
    llvm::IRBuilder<>& b = entry_.builder();
    const std::int64_t pieces = divide_up(total_, width_);
    const std::int64_t of_block = kBlockThreads * pieces_;
    Value* const own = b_index(entry_.thread_in_block());
    Value* const first =
        b.CreateAdd(b.CreateMul(entry_.block_in_grid(), entry_.number(of_block)), own);
    if (pieces_ == 1) {
      Value* exists =
          pieces % of_block == 0 ? nullptr : b.CreateICmpULT(first, entry_.number(pieces));
      entry_.when(exists, [&] { write_piece(first); });
    } else {
      // Of whole pieces alone.
      const std::int64_t whole = total_ / width_ / of_block;
      Value* is_whole = total_ % (width_ * of_block) == 0
                            ? nullptr
                            : b.CreateICmpULT(entry_.block_in_grid(), entry_.number(whole));
      entry_.when(is_whole, [&] { write_pieces(first); });
      if (is_whole != nullptr) {
        entry_.when(b.CreateNot(is_whole), [&] {
          Value* end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, entry_.number(pieces),
                                               b.CreateAdd(first, entry_.number(of_block)));
          Loop rest = Loop::open(b, first, end, kBlockThreads);
          write_piece(rest.variable);
          rest.close(b);
        });
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(status());
    return &entry_.launch(divide_up(pieces, of_block) * kBlockThreads);
  }

 private:
  Value* b_index(Value* number) {
    return entry_.builder().CreateIntCast(number, entry_.index_type(), false);
  }
  Value* least(Value* a, Value* b) {
    return entry_.builder().CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }
  Status status() const {
    for (const auto& emitter : emitters_) PLIMSOLL_RETURN_IF_ERROR(emitter->status());
    return ok_status();
  }
  ValueEmitter& emitter() { return *emitters_.front(); }
  void make_emitters(std::int64_t count) {
    while (static_cast<std::int64_t>(emitters_.size()) < count) {
      auto made =
          std::make_unique<ValueEmitter>(graph_, space_, entry_.builder(), entry_.function(), 1);
      if (entry_.index_type()->getBitWidth() == 32) made->use_narrow_indices();
      made->align_buffers(kGpuAlignment);
      emitters_.push_back(std::move(made));
    }
  }

  // As many as 16 bytes of the widest element hold.
  int choose_width() {
    std::int64_t widest = 1;
    for (const Store& store : nest_.stores) {
      widest = std::max<std::int64_t>(widest, ir::dtype_bytes(store.value.dtype()));
    }
    const int innermost = loops_.back().is_constant() ? -1 : loops_.back().terms[0].first;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      const std::int64_t step = load.position.coefficient(innermost);
      if (step == 1) widest = std::max<std::int64_t>(widest, ir::dtype_bytes(load.dtype));
      // Neighbours are read far apart: better by neighbouring threads.
      if (step > 1 || step < -1) return 1;
    }
    std::int64_t width =
        std::min<std::int64_t>(kGpuAlignment / widest, is_costly() ? kCostlyLanes : kMostLanes);
    while (width > 1 && (total_ / width < kManyThreads ||
                         (extents_.size() > 1 && extents_.back() % width != 0))) {
      width /= 2;
    }
    return static_cast<int>(std::max<std::int64_t>(width, 1));
  }

  bool is_costly() const {
    const auto& all = graph_.instructions();
    return std::any_of(all.begin(), all.end(), [](const ir::Instruction* instruction) {
      const ir::VectorCode code = ir::op_info(instruction->opcode()).code;
      return code > ir::VectorCode::one;
    });
  }

  void choose_pieces() {
    if (width_ == 1 || is_costly()) return;
    std::int64_t bytes = 0;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      bytes += width_ * ir::dtype_bytes(load.dtype);
    }
    if (bytes == 0) return;
    while (pieces_ < kMostPieces && 2 * pieces_ * bytes <= kBytesOfPieces &&
           total_ / (2 * pieces_ * width_) >= kThreadsOfPieces) {
      pieces_ *= 2;
    }
  }

  // What a thread of a tile reads for another one.
  struct Staged {
    Load load;
    Value* memory = nullptr;  // [side_][pitch_], in rows along the other loop
  };

  void choose_staged() {
    const int across = choose_tiled_loop(graph_, nest_, extents_, 1);
    if (across < 0 || extents_.back() < kStagedTile / 2 || extents_[at(across)] < kStagedTile / 2)
      return;
    if (loops_.back().is_constant() || loops_[at(across)].is_constant()) return;
    constexpr std::int64_t kFarApart = 16;
    std::int64_t widest = 1;
    for (const Load& load : collect_loads(space_, graph_, nest_, position_)) {
      const std::int64_t step = load.position.coefficient(loops_.back().terms[0].first);
      if (step < kFarApart || staged_.size() == kMostStaged ||
          load.position.coefficient(loops_[at(across)].terms[0].first) != 1 ||
          !is_always_there(load)) {
        continue;
      }
      staged_.push_back({load});
      widest = std::max<std::int64_t>(widest, ir::dtype_bytes(load.dtype));
    }
    across_ = across;
    const std::int64_t shortest = std::min(extents_.back(), extents_[at(across)]);
    if (widest <= 2 && shortest >= kNarrowStagedTile) side_ = kNarrowStagedTile;
    // Rows begin a bank of 4 bytes further each, so that columns lie in different ones.
    pitch_ = side_ + std::max<std::int64_t>(4 / widest, 1);
    for (Staged& staged : staged_) {
      llvm::Type* type = memory_type(entry_.builder().getContext(), staged.load.dtype, 1);
      staged.memory = entry_.share(type, side_ * pitch_);
    }
  }

  // Read whatever conditions the value has.
  bool is_always_there(const Load& load) const {
    const auto& inputs = graph_.inputs();
    if (at(load.input) >= inputs.size()) return false;  // a table
    const Range range = space_.range(load.position);
    return range.lowest >= 0 && range.highest < inputs[at(load.input)]->element_count();
  }

  Result<GpuLaunch*> write_tiles() {
    llvm::IRBuilder<>& b = entry_.builder();
    const std::int64_t inner = extents_.back(), across = extents_[at(across_)];
    const std::int64_t inner_tiles = divide_up(inner, side_);
    const std::int64_t across_tiles = divide_up(across, side_);
    std::int64_t blocks = inner_tiles * across_tiles;
    Value* rest = entry_.block_in_grid();
    Value* inner_first = b.CreateMul(entry_.split(&rest, inner_tiles), entry_.number(side_));
    Value* across_first = b.CreateMul(entry_.split(&rest, across_tiles), entry_.number(side_));
    std::vector<Value*> places(extents_.size());
    for (std::size_t i = extents_.size() - 1; i-- > 0;) {
      if (static_cast<int>(i) == across_) continue;
      places[i] = entry_.split(&rest, extents_[i]);
      blocks *= extents_[i];
    }
    Value* high = b_index(entry_.thread_in_block());
    Value* low = entry_.split(&high, side_);
    const std::int64_t rows_at_once = kBlockThreads / side_, rows = side_ / rows_at_once;
    const auto together = static_cast<std::int64_t>(
        std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(
            kStagedInstructions / static_cast<std::int64_t>(graph_.instructions().size()), 1,
            rows))));
    make_emitters(together);

    // An element of this thread: by which emitter, where in the tile, and whether it is there;
    // null: in every thread. What is not there has the place of the last one.
    struct Own {
      ValueEmitter* emitter;
      Value *place, *exists;
    };
    const bool is_everywhere = inner % side_ == 0 && across % side_ == 0;
    const auto own = [&](std::int64_t row, bool reads) {
      Value* slow = b.CreateAdd(high, entry_.number(row * rows_at_once));
      Value* in_inner = reads ? slow : low;
      Value* in_across = reads ? low : slow;
      Value *x = b.CreateAdd(inner_first, in_inner), *y = b.CreateAdd(across_first, in_across);
      Value* exists = nullptr;
      if (!is_everywhere) {
        exists = b.CreateAnd(b.CreateICmpULT(x, entry_.number(inner)),
                             b.CreateICmpULT(y, entry_.number(across)));
        x = least(x, entry_.number(inner - 1));
        y = least(y, entry_.number(across - 1));
      }
      places.back() = x;
      places[at(across_)] = y;
      ValueEmitter& emitter = *emitters_[at(row % together)];
      open(emitter, places, 1);
      Value* place = b.CreateAdd(b.CreateMul(in_inner, entry_.number(pitch_)), in_across);
      return Own{&emitter, place, exists};
    };
    const auto type_of = [&](const Staged& staged) {
      return memory_type(b.getContext(), staged.load.dtype, 1);
    };
    const auto staged_at = [&](const Staged& staged, Value* place) {
      return b.CreateInBoundsGEP(type_of(staged), staged.memory, place);
    };
    for (std::int64_t first = 0; first < rows; first += together) {
      std::vector<std::pair<Value*, Value*>> read;  // and where it goes
      for (std::int64_t row = first; row < first + together; ++row) {
        const Own element = own(row, true);
        for (const Staged& staged : staged_) {
          Value* from =
              b.CreateInBoundsGEP(type_of(staged), entry_.function().input(staged.load.input),
                                  element.emitter->first_lane(staged.load.position));
          read.emplace_back(b.CreateLoad(type_of(staged), from), staged_at(staged, element.place));
        }
      }
      for (const auto& [value, address] : read) b.CreateStore(value, address);
    }
    entry_.barrier();
    for (std::int64_t first = 0; first < rows; first += together) {
      std::vector<std::pair<Own, std::vector<Value*>>> computed;
      for (std::int64_t row = first; row < first + together; ++row) {
        const Own element = own(row, false);
        for (const Staged& staged : staged_) {
          element.emitter->stage(staged.load.input, staged.load.position,
                                 staged_at(staged, element.place));
        }
        computed.emplace_back(element, values(*element.emitter));
      }
      for (const auto& [element, all] : computed) {
        entry_.when(element.exists,
                    [&, &element = element, &all = all] { store(*element.emitter, all); });
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(status());
    return &entry_.launch(blocks * kBlockThreads);
  }

  // Where the elements of a piece begin, along the loops.
  std::vector<Value*> places_of(Value* piece) {
    llvm::IRBuilder<>& b = entry_.builder();
    std::vector<Value*> places(extents_.size());
    Value* rest = piece;
    for (std::size_t i = extents_.size(); i-- > 1;) {
      const bool innermost = i + 1 == extents_.size();
      places[i] = entry_.split(&rest, innermost ? extents_[i] / width_ : extents_[i]);
    }
    places[0] = rest;
    places.back() = b.CreateMul(places.back(), entry_.number(width_));
    return places;
  }

  void write_piece(Value* piece) {
    llvm::IRBuilder<>& b = entry_.builder();
    const std::vector<Value*> places = places_of(piece);
    if (extents_.size() > 1 || total_ % width_ == 0) {
      write_elements(places, width_);
      return;
    }
    Value* first = places.front();
    Value* is_whole = b.CreateICmpULE(first, entry_.number(total_ - width_));
    entry_.when(is_whole, [&] { write_elements({first}, width_); });
    entry_.when(b.CreateNot(is_whole), [&] {
      Loop tail = Loop::open(b, first, entry_.number(total_), 1);
      write_elements({tail.variable}, 1);
      tail.close(b);
    });
  }

  // Whole pieces: first, first + kBlockThreads, ...
  void write_pieces(Value* first) {
    std::vector<std::vector<Value*>> all;
    for (std::int64_t i = 0; i < pieces_; ++i) {
      Value* piece = entry_.builder().CreateAdd(first, entry_.number(i * kBlockThreads));
      open(*emitters_[at(i)], places_of(piece), width_);
      all.push_back(values(*emitters_[at(i)]));
    }
    for (std::int64_t i = 0; i < pieces_; ++i) store(*emitters_[at(i)], all[at(i)]);
  }

  // All values before any store, so that an output may be the buffer of an input.
  void write_elements(const std::vector<Value*>& places, int width) {
    open(emitter(), places, width);
    store(emitter(), values(emitter()));
  }
  void open(ValueEmitter& emitter, const std::vector<Value*>& places, int width) {
    emitter.open_lanes(width, width);
    for (std::size_t i = 0; i + 1 < places.size(); ++i) emitter.bind(loops_[i], places[i]);
    emitter.bind_lane(loops_.back(), places.back());
  }
  std::vector<Value*> values(ValueEmitter& emitter) {
    std::vector<Value*> values;
    for (const Store& store : nest_.stores) {
      values.push_back(emitter.value(store.value, value_index(space_, nest_, store, position_)));
    }
    return values;
  }
  void store(ValueEmitter& emitter, const std::vector<Value*>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Store& store = nest_.stores[i];
      emitter.store(entry_.function().output(store.output),
                    store_position(space_, graph_, nest_, store, position_), values[i],
                    store.value.dtype());
    }
  }

  const LoopNest& nest_;
  const KernelGraph& graph_;
  GpuEntry entry_;
  const std::vector<std::int64_t> extents_;
  std::int64_t total_ = 1;
  int width_ = 1;
  std::int64_t pieces_ = 1;  // of a thread
  IndexSpace space_;
  std::vector<Affine> loops_;
  Affine position_;
  std::vector<std::unique_ptr<ValueEmitter>> emitters_;  // one a piece
  std::vector<Staged> staged_;
  std::int64_t side_ = kStagedTile, pitch_ = kStagedTile;  // of a tile
  int across_ = -1;                                        // the loop along which they are read
};

}  // namespace

Status write_gpu_loops(GpuWriter& writer) {
  for (const PhaseNest& phase : plan_nests(*writer.graph)) {
    const auto& dims = phase.nest.dims;
    if (std::any_of(dims.begin(), dims.end(), [](std::int64_t d) { return d == 0; })) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(GpuLaunch * launch, LoopGrid(writer, phase.nest).write());
    if (phase.unless_input >= 0) {
      launch->unless_input = writer.inputs[at(phase.unless_input)];
      launch->unless_output = writer.outputs[at(phase.unless_output)];
    }
  }
  return ok_status();
}

}  // namespace plimsoll::jit
