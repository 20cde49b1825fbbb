// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "jit/avx512.h"
#include "jit/elementwise.h"
#include "jit/kernel_code.h"
#include "jit/loop_nest.h"
#include "jit/transpose_tile.h"
#include "jit/value_emitter.h"

namespace plimsoll::jit {
namespace {

using ir::Opcode;

constexpr std::size_t kMaxPlacedOperands = 16;
// Elements of one unit of work when rows are long.
constexpr std::int64_t kChunk = 2048;
// Elements by which reads of short rows are ahead.
constexpr std::int64_t kAhead = 1024;
// A unit of tiles takes so many elements, in runs of at most kTileRun along the operand: memory
// reads long runs fastest, while it does not matter where whole lines are written. Where other
// operands are read there, too, a unit is a square block.
constexpr std::int64_t kTileRun = 2048, kTileElements = 32768, kTileBlock = 128;

// A root that is stored operand by operand rather than chosen element by element.
bool is_placed(const Graph& graph, const Node& root) {
  if (root.is_input()) return false;
  const ir::Instruction& instruction = *root.instruction;
  switch (instruction.opcode()) {
    case Opcode::dynamic_update_slice:
      return true;
    case Opcode::concatenate:
      return graph.roots().size() == 1 && instruction.operands().size() <= kMaxPlacedOperands;
    case Opcode::pad:
      return graph.roots().size() == 1 &&
             std::all_of(instruction.attributes().padding.begin(),
                         instruction.attributes().padding.end(),
                         [](const auto& p) { return p.low >= 0 && p.high >= 0; });
    default:
      return false;
  }
}

struct PhaseNest {
  LoopNest nest;
  int unless_input = -1, unless_output = -1;
};

// The nests that put a pad's value where its operand does not come: everywhere when elements come
// apart, else on the borders, cut so that none meet.
std::vector<LoopNest> fill_nests(const Graph& graph, const Node& root, int output) {
  const ir::Instruction& pad = *root.instruction;
  const Node value = graph.operand(pad, 1);
  const auto& padding = pad.attributes().padding;
  std::vector<LoopNest> nests;
  const auto fill = [&](ir::Dims dims, std::vector<std::int64_t> begin) {
    LoopNest nest;
    nest.dims = std::move(dims);
    nest.stores.push_back({value, output, &pad, 1, std::move(begin)});
    nests.push_back(std::move(nest));
  };
  std::vector<std::int64_t> begin(padding.size(), 0);
  const ir::Dims& inside = graph.operand(pad, 0).dims();
  if (std::any_of(padding.begin(), padding.end(), [](const auto& p) { return p.interior > 0; }) ||
      std::any_of(inside.begin(), inside.end(), [](std::int64_t size) { return size == 0; })) {
    fill(root.dims(), begin);
    return nests;
  }
  ir::Dims dims = root.dims();
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const int dimension = static_cast<int>(d);
    const std::int64_t whole = dims[dimension];
    if (padding[d].low > 0) {
      dims[dimension] = padding[d].low;
      fill(dims, begin);
    }
    if (padding[d].high > 0) {
      dims[dimension] = padding[d].high;
      begin[d] = whole - padding[d].high;
      fill(dims, begin);
    }
    dims[dimension] = inside[dimension];
    begin[d] = padding[d].low;
  }
  return nests;
}

std::vector<PhaseNest> plan_nests(const Graph& graph) {
  std::vector<PhaseNest> nests;
  PhaseNest plain;
  std::vector<PhaseNest> placed;
  for (std::size_t r = 0; r < graph.roots().size(); ++r) {
    const Node& root = graph.roots()[r];
    const int output = static_cast<int>(r);
    if (!is_placed(graph, root)) {
      if (plain.nest.stores.empty()) plain.nest.dims = root.dims();
      plain.nest.stores.push_back({root, output, nullptr, 0});
      continue;
    }
    const ir::Instruction& instruction = *root.instruction;
    const auto place = [&](int operand) {
      PhaseNest phase;
      const Node value = graph.operand(instruction, operand);
      phase.nest.dims = value.dims();
      phase.nest.stores.push_back({value, output, &instruction, operand});
      placed.push_back(std::move(phase));
    };
    if (instruction.opcode() == Opcode::concatenate) {
      for (int i = 0; i < instruction.operand_count(); ++i) place(i);
    } else if (instruction.opcode() == Opcode::pad) {
      for (LoopNest& nest : fill_nests(graph, root, output)) {
        placed.push_back({std::move(nest), -1, -1});
      }
      place(0);
    } else {
      PhaseNest copy;
      const Node whole = graph.operand(instruction, 0);
      copy.nest.dims = whole.dims();
      copy.nest.stores.push_back({whole, output, nullptr, 0});
      if (whole.is_input()) {
        copy.unless_input = whole.input;
        copy.unless_output = output;
      }
      placed.push_back(std::move(copy));
      place(1);
    }
  }
  if (!plain.nest.stores.empty()) nests.push_back(std::move(plain));
  for (PhaseNest& phase : placed) nests.push_back(std::move(phase));
  return nests;
}

class LoopWriter {
 public:
  LoopWriter(const Graph& graph, const LoopNest& nest, int max_width, const Machine& machine,
             llvm::Module& module, const std::string& name)
      : graph_(graph),
        nest_(nest),
        machine_(machine),
        extents_(choose_extents(graph, nest)),
        builder_(module.getContext()),
        function_(PhaseFunction::create(module, name, builder_)),
        emitter_(graph, space_, builder_, function_, 2) {
    inner_ = extents_.back();
    width_ = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(max_width), std::bit_ceil(static_cast<std::uint64_t>(inner_))));
    tiled_ = choose_tiled_loop(graph, nest, extents_);
    choose_units();
  }

  std::int64_t units() const { return rows_ * chunks_; }
  std::int64_t elements_per_unit() const { return chunk_ * group_rows_; }

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
        group_end_ = b.CreateBinaryIntrinsic(
            llvm::Intrinsic::smin,
            b.CreateAdd(group_begin_, b.getInt64(static_cast<std::uint64_t>(group_rows_))),
            b.getInt64(static_cast<std::uint64_t>(extents_[i])));
      } else {
        emitter_.bind(loops_[i], step);
      }
      if (i > 0) row = b.CreateUDiv(row, count);
    }
    Loop group;
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
    units.close(b);
    function_.finish(b, !cached_.empty());
    return emitter_.status();
  }

 private:
  // A unit is a chunk of the innermost loop for some steps of another one: of the tiled loop, or of
  // the next one where rows are short, so that finding out where a unit lies costs little.
  void choose_units() {
    tile_rows_ = width_;
    if (tiled_ >= 0) {
      group_ = tiled_;
      group_rows_ = std::min(reads_others() ? kTileBlock : kTileRun,
                             (extents_[at(group_)] + tile_rows_ - 1) / tile_rows_ * tile_rows_);
    } else if (extents_.size() > 1 && inner_ < kChunk) {
      group_ = choose_group_loop(graph_, nest_, extents_);
      group_rows_ = std::min(extents_[at(group_)], kChunk / inner_);
    }
    for (int i = 0; i + 1 < static_cast<int>(extents_.size()); ++i) {
      steps_.push_back(i == group_ ? (extents_[at(i)] + group_rows_ - 1) / group_rows_
                                   : extents_[at(i)]);
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
      write_values(first);
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
    write_values(first);
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
      llvm::Type* row = memory_type(b.getContext(), load.dtype, width_);
      const llvm::Align alignment(static_cast<std::uint64_t>(ir::dtype_bytes(load.dtype)));
      llvm::Value* base = b.CreateInBoundsGEP(element, function_.input(load.input),
                                              emitter_.first_lane(load.position));
      const std::int64_t stride = load.position.coefficient(lane_symbol);
      std::vector<llvm::Value*> rows;
      for (int lane = 0; lane < width_; ++lane) {
        llvm::Value* address =
            b.CreateConstInBoundsGEP1_64(element, base, static_cast<std::uint64_t>(lane * stride));
        rows.push_back(b.CreateAlignedLoad(row, address, alignment));
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
      if (!plain || load.position.coefficient(tile) != 1 || stride == 0 || stride == 1) continue;
      llvm::IRBuilder<> entry(function_.entry_anchor);
      staged_.push_back(load);
      buffers_.push_back(entry.CreateAlloca(memory_type(entry.getContext(), load.dtype, width_),
                                            entry.getInt64(static_cast<std::uint64_t>(width_))));
    }
  }

  // The stores bypass the caches where all that the nest reads and writes would not fit into them,
  // except into the buffer of an input: its lines are in the caches by then.
  void choose_streamed() {
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
    if (bytes < machine_.streaming_bytes) return;
    for (const Store& store : nest_.stores) {
      cached_.push_back(function_.is_in_place(store.output, read));
    }
  }

  // All values before any store, so that an output may be the buffer of an input.
  void write_values(llvm::Value* first) {
    emitter_.bind_lane(lane_, first);
    std::vector<llvm::Value*> values;
    for (const Store& store : nest_.stores) {
      values.push_back(
          emitter_.value(store.value, space_.delinearize(position_, store.value.dims())));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Store& store = nest_.stores[i];
      const ir::Dims& dims = store.placement != nullptr ? nest_.dims : store.value.dims();
      emitter_.store(function_.output(store.output),
                     store_position(space_, graph_, store, space_.delinearize(position_, dims)),
                     values[i], store.value.dtype(), cached_.empty() ? nullptr : cached_[i]);
    }
  }

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  const Graph& graph_;
  const LoopNest& nest_;
  const Machine& machine_;
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
  llvm::Value* tile_begin_ = nullptr;
  llvm::Value* tile_end_ = nullptr;
  std::int64_t rows_ = 1, inner_ = 1, chunk_ = 1, chunks_ = 1;
  int width_ = 1;
  llvm::IRBuilder<> builder_;
  PhaseFunction function_;
  IndexSpace space_;
  ValueEmitter emitter_;
  std::vector<Affine> loops_;
  Affine lane_, position_;
};

}  // namespace

bool only_moves(const Graph& graph) {
  const auto& all = graph.instructions();
  return std::all_of(all.begin(), all.end(), [](const ir::Instruction* instruction) {
    switch (instruction->opcode()) {
      case Opcode::broadcast:
      case Opcode::reshape:
      case Opcode::bitcast:
      case Opcode::transpose:
      case Opcode::slice:
      case Opcode::concatenate:
      case Opcode::pad:
      case Opcode::reverse:
      case Opcode::dynamic_slice:
      case Opcode::dynamic_update_slice:
        return true;
      default:
        return instruction->operand_count() == 0;
    }
  });
}

bool computes_bf16(const Graph& graph) {
  bool found = false, others = false;
  const auto consider = [&](ir::DType dtype) {
    (dtype == ir::DType::bf16 ? found : others) |= ir::is_floating(dtype);
  };
  for (const ir::Shape* shape : graph.inputs()) consider(shape->dtype());
  for (const ir::Instruction* instruction : graph.instructions()) {
    if (instruction->shape().is_array()) consider(instruction->shape().dtype());
  }
  return found && !others;
}

double seconds_per_element(const Graph& graph) {
  double nanoseconds = 0.1 * static_cast<double>(graph.inputs().size() + graph.roots().size());
  for (const ir::Instruction* instruction : graph.instructions()) {
    switch (instruction->opcode()) {
      case Opcode::exponential:
      case Opcode::exponential_minus_one:
      case Opcode::log:
      case Opcode::log_plus_one:
      case Opcode::logistic:
      case Opcode::tanh:
      case Opcode::erf:
      case Opcode::rsqrt:
      case Opcode::sqrt:
      case Opcode::divide:
        nanoseconds += 0.5;
        break;
      case Opcode::sine:
      case Opcode::cosine:
      case Opcode::tan:
      case Opcode::power:
      case Opcode::atan2:
      case Opcode::cbrt:
      case Opcode::remainder:
        nanoseconds += 2;
        break;
      case Opcode::transpose:
      case Opcode::reverse:
      case Opcode::concatenate:
      case Opcode::pad:
        nanoseconds += 0.5;
        break;
      default:
        nanoseconds += 0.03;
        break;
    }
    if (instruction->shape().is_array() && instruction->shape().dtype() == ir::DType::f64) {
      nanoseconds += 0.2;
    }
  }
  return nanoseconds * 1e-9;
}

// Functions that are computed in f32 alone, and nothing longer.
bool has_polynomial(const Graph& graph) {
  bool found = false;
  for (const ir::Instruction* instruction : graph.instructions()) {
    switch (instruction->opcode()) {
      case Opcode::exponential:
      case Opcode::exponential_minus_one:
      case Opcode::log:
      case Opcode::log_plus_one:
      case Opcode::logistic:
      case Opcode::tanh:
      case Opcode::erf:
      case Opcode::cbrt:
        found = true;
        break;
      case Opcode::sine:
      case Opcode::cosine:
      case Opcode::tan:
      case Opcode::power:
      case Opcode::atan2:
        return false;
      default:
        break;
    }
  }
  return found;
}

int vector_lanes(const Graph& graph, const Machine& machine) {
  // Small floats are computed in f32; what is only moved stays as it is, and so does bf16 where it
  // is computed as two vectors.
  int widest = only_moves(graph) || (machine.avx512 && computes_bf16(graph)) ? 2 : 4;
  const auto consider = [&](ir::DType dtype) { widest = std::max(widest, ir::dtype_bytes(dtype)); };
  for (const ir::Shape* shape : graph.inputs()) consider(shape->dtype());
  for (const ir::Instruction* instruction : graph.instructions()) {
    consider(instruction->shape().dtype());
  }
  // A polynomial waits for itself at every step: two vectors at a time fill the gaps, more than the
  // machine finds by looking ahead.
  const int together = machine.avx512 && widest == 4 && has_polynomial(graph) ? 2 : 1;
  return std::max(together * machine.vector_bytes / widest, 2);
}

Result<KernelCode> write_loop_kernel(const Graph& graph, const Machine& machine) {
  KernelCode code;
  code.context = std::make_unique<llvm::LLVMContext>();
  code.module = std::make_unique<llvm::Module>("kernel", *code.context);
  avx512::allow(*code.module, machine);
  const int max_width = vector_lanes(graph, machine);
  const double seconds = seconds_per_element(graph);
  for (const PhaseNest& phase : plan_nests(graph)) {
    std::int64_t count = 1;
    for (const std::int64_t extent : phase.nest.dims) count *= extent;
    if (count == 0) continue;
    Phase result;
    result.function = "phase" + std::to_string(code.phases.size());
    LoopWriter writer(graph, phase.nest, max_width, machine, *code.module, result.function);
    PLIMSOLL_RETURN_IF_ERROR(writer.write());
    result.units = writer.units();
    result.unit_seconds = seconds * static_cast<double>(writer.elements_per_unit()) + 2e-9;
    result.unless_input = phase.unless_input;
    result.unless_output = phase.unless_output;
    code.phases.push_back(std::move(result));
  }
  return code;
}

}  // namespace plimsoll::jit
