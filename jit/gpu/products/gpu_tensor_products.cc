// SPDX-License-Identifier: Apache-2.0
// Products of 16-bit floats by tensor cores (mma.sync, from compute capability 8.0 on): products of
// 16 rows, 8 columns and 16 positions at a time, added up in f32.
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <array>
#include <limits>

#include "jit/emit/elementwise.h"
#include "jit/emit/gpu.h"
#include "jit/gpu/products/gpu_products.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

constexpr int kHasTensorCores = 80;
// Of one instruction.
constexpr std::int64_t kRowsOfOne = 16, kColumnsOfOne = 8, kDepthOfOne = 16;
constexpr std::int64_t kTensorDepth = 32;
// What lies side by side in shared memory, and is read by one thread of eight for all of them:
// eight elements.
constexpr std::int64_t kChunk = 8, kChunkBytes = 16;
constexpr std::int64_t kSharedBytes = 48 << 10, kMostStages = 4;

// Of a thread that registers_of() may count.
constexpr std::int64_t kMostRegisters = 144;

struct TensorTile {
  // What a warp makes, in instructions, and warps.
  std::int64_t ones_m, ones_n, warps_m, warps_n;
  double rate;  // of a multiprocessor's products that blocks of this form make at most

  constexpr std::int64_t warp_m() const { return kRowsOfOne * ones_m; }
  constexpr std::int64_t warp_n() const { return kColumnsOfOne * ones_n; }
  constexpr std::int64_t m() const { return warp_m() * warps_m; }
  constexpr std::int64_t n() const { return warp_n() * warps_n; }
  constexpr std::int64_t threads() const { return kWarp * warps_m * warps_n; }
  constexpr std::int64_t stage_bytes() const { return (m() + n()) * kTensorDepth * 2; }
  constexpr std::int64_t stages() const {
    return std::min(kMostStages, kSharedBytes / stage_bytes());
  }
};

constexpr std::array kTensorTiles = {
    TensorTile{4, 8, 2, 2, 0.50},  // 128 by 128
    TensorTile{2, 8, 2, 2, 0.40},  // 64 by 128
    TensorTile{4, 4, 2, 2, 0.40},  // 128 by 64
    TensorTile{2, 4, 2, 2, 0.30},  // 64 by 64
    TensorTile{1, 4, 1, 4, 0.20},  // 16 by 128
    TensorTile{2, 2, 4, 1, 0.20},  // 128 by 16
    TensorTile{1, 4, 2, 1, 0.20},  // 32 by 32
    TensorTile{1, 2, 1, 1, 0.15},  // 16 by 16
};

// Registers of a thread for sums, and for what goes by registers into shared memory, with its
// place.
std::int64_t registers_of(const Products& products, const TensorTile& tile) {
  std::int64_t count = 4 * tile.ones_m * tile.ones_n;
  for (const auto& [places, side, rows] :
       {std::tuple{&products.lhs, &products.contraction.m, tile.m()},
        {&products.rhs, &products.contraction.n, tile.n()}}) {
    const int width = std::max(places->vector_width(products.contraction.k, kChunk),
                               places->vector_width(*side, kChunk));
    if (width < kChunk) count += 2 * (rows * kTensorDepth / (tile.threads() * width));
  }
  return count;
}

TensorTile choose_tensor_tile(const Products& products) {
  // Of a multiprocessor's 2048 products and sums a cycle. Several tiles of a block are under way at
  // once.
  constexpr double kPerCycle = 2048, kOfWarp = 150, kLatency = 700, kLeastLatency = 100;
  constexpr std::int64_t kThreads = 256, kThreadsOfFew = 768, kSharedOfAll = 200 << 10;
  TensorTile best = kTensorTiles.back();
  double least = std::numeric_limits<double>::infinity();
  for (const TensorTile& tile : kTensorTiles) {
    if (registers_of(products, tile) > kMostRegisters) continue;
    const std::int64_t threads = tile.ones_m * tile.ones_n >= 32 ? kThreads : kThreadsOfFew;
    const std::int64_t resident =
        std::min(threads / tile.threads(), kSharedOfAll / (tile.stages() * tile.stage_bytes()));
    const double latency = kLeastLatency + kLatency / static_cast<double>(tile.stages() - 1);
    const double cycles = cycles_of(products, {tile.m(), tile.n(), kTensorDepth, tile.threads(),
                                               resident, kPerCycle * tile.rate, kOfWarp, latency});
    if (cycles < least) {
      least = cycles;
      best = tile;
    }
  }
  return best;
}

// One operand in shared memory: lines of chunks, along the depth (a line a row) or along the rows
// (a line a position), whichever way it is read. Chunks are exchanged within their line, so that
// eight neighbouring lines have theirs in different banks.
struct SharedTile {
  std::int64_t rows = 0;
  bool along_depth = false;

  std::int64_t chunks() const { return (along_depth ? kTensorDepth : rows) / kChunk; }
  std::int64_t line_bytes() const { return chunks() * kChunkBytes; }
  std::int64_t bytes() const { return rows * kTensorDepth * 2; }
  // Of chunk `chunk` of line `line`, in bytes.
  Value* place(GpuEntry& entry, Value* line, Value* chunk) const {
    llvm::IRBuilder<>& b = entry.builder();
    const std::int64_t most = std::min<std::int64_t>(chunks(), 8);
    Value* turn = b.CreateURem(b.CreateUDiv(line, entry.number(8 / most)), entry.number(most));
    Value* turned = b.CreateXor(chunk, turn);
    return b.CreateAdd(b.CreateMul(line, entry.number(line_bytes())),
                       b.CreateMul(turned, entry.number(kChunkBytes)));
  }
};

class TensorWriter {
 public:
  TensorWriter(const Products& products, const TensorTile& tile)
      : p_(products),
        tile_(tile),
        entry_(products.writer, static_cast<std::uint32_t>(tile.threads())),
        b_(entry_.builder()) {}

  void write() {
    const BlockPlace block = place_block(entry_, p_, tile_.m(), tile_.n());
    Value* warp = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    lane_ = entry_.split(&warp, kWarp);
    warp_n_ = times(entry_.split(&warp, tile_.warps_n), tile_.warp_n());
    warp_m_ = times(warp, tile_.warp_m());
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    for (std::int64_t i = 0; i < 4 * tile_.ones_m * tile_.ones_n; ++i) {
      sums_.push_back(start.CreateAlloca(b_.getFloatTy()));
      start.CreateStore(llvm::ConstantFP::get(b_.getFloatTy(), 0), sums_.back());
    }
    if (p_.k > 0) add_products(block);
    give_results(block);
    entry_.launch(p_.parts * p_.batch * divide_up(p_.m, tile_.m()) * divide_up(p_.n, tile_.n()) *
                  tile_.threads());
  }

 private:
  struct Side {
    OperandTile tile;
    SharedTile form;
    Value* memory;               // all stages
    bool is_asynchronous;        // by cp.async; else by registers
    std::vector<Value*> to;      // of each piece, in a stage
    std::vector<Value*> slots;   // of pieces by registers
    std::vector<Value*> places;  // that this thread reads fragments by, as fragment() says
  };

  Value* times(Value* x, std::int64_t n) { return b_.CreateMul(x, entry_.number(n)); }
  Value* plus(Value* x, std::int64_t n) { return b_.CreateAdd(x, entry_.number(n)); }

  Side make_side(int input, const ArrayPlaces& places, const std::vector<int>& digits,
                 std::int64_t rows) {
    OperandTile tile(
        entry_, p_.contraction, places,
        {input, p_.operand_dtype(input), &digits, rows, kTensorDepth, tile_.threads()});
    const SharedTile form{rows, tile.along_depth()};
    Side side{std::move(tile),
              form,
              entry_.share(b_.getInt8Ty(), tile_.stages() * form.bytes()),
              false,
              {},
              {},
              {}};
    side.is_asynchronous = side.tile.width() == kChunk;
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    for (std::size_t i = 0; i < side.tile.size(); ++i) {
      Value* line = form.along_depth ? side.tile.row(i) : side.tile.depth(i);
      Value* along = form.along_depth ? side.tile.depth(i) : side.tile.row(i);
      Value* chunk = b_.CreateUDiv(along, entry_.number(kChunk));
      Value* rest = b_.CreateURem(along, entry_.number(kChunk));
      side.to.push_back(b_.CreateAdd(form.place(entry_, line, chunk), times(rest, 2)));
      if (!side.is_asynchronous) side.slots.push_back(start.CreateAlloca(side.tile.piece_type()));
    }
    return side;
  }

  // Where fragments of 16 by 16 begin, for this thread: of rows from `first` on. Of the four
  // matrices of 8 by 8 that are read together a thread gives the place of one line. Where lines
  // are rows there is a place for each 16 positions of a tile, and fragments of other rows are
  // lines further; else a place for each 16 rows, and other positions are lines further.
  // `rows_first`: of four matrices the second is that of the next rows, else of the next positions.
  void place_fragments(Side& side, Value* first, std::int64_t fragments, bool rows_first) {
    Value* rest = lane_;
    Value* line = entry_.split(&rest, 8);
    Value* matrix = rest;
    Value* low = b_.CreateAnd(matrix, entry_.number(1));
    Value* high = b_.CreateLShr(matrix, entry_.number(1));
    Value* next_rows = rows_first ? low : high;
    Value* next_depth = rows_first ? high : low;
    if (side.form.along_depth) {
      Value* row = b_.CreateAdd(first, b_.CreateAdd(times(next_rows, 8), line));
      for (std::int64_t i = 0; i < kTensorDepth / kDepthOfOne; ++i) {
        side.places.push_back(side.form.place(entry_, row, plus(next_depth, 2 * i)));
      }
      return;
    }
    Value* depth = b_.CreateAdd(times(next_depth, 8), line);
    Value* chunk = b_.CreateAdd(b_.CreateUDiv(first, entry_.number(kChunk)), next_rows);
    for (std::int64_t i = 0; i < fragments; ++i) {
      side.places.push_back(side.form.place(entry_, depth, plus(chunk, 2 * i)));
    }
  }

  // The four matrices of rows from 16 * `fragment` on, of positions from 16 * `step` on.
  std::array<Value*, 4> fragment(const Side& side, Value* stage, std::int64_t fragment,
                                 std::int64_t step) {
    const std::int64_t which = side.form.along_depth ? step : fragment;
    const std::int64_t lines = kDepthOfOne * (side.form.along_depth ? fragment : step);
    Value* place = b_.CreateAdd(stage, side.places[at(which)]);
    Value* pointer = b_.CreateInBoundsGEP(b_.getInt8Ty(), side.memory, place);
    pointer = b_.CreateConstInBoundsGEP1_64(
        b_.getInt8Ty(), pointer, static_cast<std::uint64_t>(lines * side.form.line_bytes()));
    const auto id = side.form.along_depth
                        ? llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
                        : llvm::Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16;
    Value* all = b_.CreateIntrinsic(id, {pointer->getType()}, {pointer});
    std::array<Value*, 4> result{};
    for (unsigned i = 0; i < 4; ++i) result[i] = b_.CreateExtractValue(all, i);
    return result;
  }

  Value* in_stage(const Side& side, Value* stage, std::size_t piece) {
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), side.memory, b_.CreateAdd(stage, side.to[piece]));
  }

  // Sends the tile from `k` on, or what goes by registers into those.
  void fetch(Side& side, Value* k, Value* end, Value* stage) {
    const auto sources = side.tile.sources(k, end);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (!side.is_asynchronous) {
        b_.CreateStore(side.tile.load(sources[i]), side.slots[i]);
        continue;
      }
      Value* to = in_stage(side, stage, i);
      Value* from = b_.CreateAddrSpaceCast(sources[i].pointer, b_.getPtrTy(1));
      if (sources[i].exists == nullptr) {
        b_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16, {}, {to, from});
      } else {
        // Of fewer bytes than 16 the others become zeros.
        Value* bytes = b_.CreateSelect(sources[i].exists, b_.getInt32(kChunkBytes), b_.getInt32(0));
        b_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s, {},
                           {to, from, bytes});
      }
    }
  }

  void put(const Side& side, Value* stage) {
    for (std::size_t i = 0; i < side.slots.size(); ++i) {
      Value* value = b_.CreateLoad(side.tile.piece_type(), side.slots[i]);
      b_.CreateAlignedStore(value, in_stage(side, stage, i),
                            llvm::Align(static_cast<std::uint64_t>(2 * side.tile.width())));
    }
  }

  void commit() { b_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {}, {}); }
  void wait(std::int64_t left) {
    b_.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {},
                       {b_.getInt32(static_cast<std::uint32_t>(left))});
  }

  // While products of one tile are added, the next ones are on their way into other stages.
  void add_products(const BlockPlace& block) {
    Side lhs = make_side(0, p_.lhs, p_.contraction.m, tile_.m());
    Side rhs = make_side(1, p_.rhs, p_.contraction.n, tile_.n());
    lhs.tile.place_rows(block.m_first, block.batch);
    rhs.tile.place_rows(block.n_first, block.batch);
    place_fragments(lhs, warp_m_, tile_.ones_m, true);
    place_fragments(rhs, warp_n_, tile_.ones_n / 2, false);
    Value* first = p_.first_position(entry_, block.part);
    Value* end = p_.end_position(entry_, first);
    const bool is_whole =
        p_.k % kTensorDepth == 0 && (p_.parts == 1 || p_.part % kTensorDepth == 0);
    Value* limit = is_whole ? nullptr : end;
    const std::int64_t ahead = tile_.stages() - 1;
    const auto stage_of = [&](const Side& side, Value* number) {
      return times(number, side.form.bytes());
    };
    const auto for_both = [&](auto f) {
      f(lhs);
      f(rhs);
    };
    for (std::int64_t i = 0; i < ahead; ++i) {
      Value* k = plus(first, i * kTensorDepth);
      Value* stage = entry_.number(i);
      entry_.when(i == 0 ? nullptr : b_.CreateICmpSLT(k, end), [&] {
        for_both([&](Side& side) { fetch(side, k, limit, stage_of(side, stage)); });
        for_both([&](Side& side) { put(side, stage_of(side, stage)); });
      });
      commit();
    }
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    Value* read_slot = start.CreateAlloca(entry_.index_type());
    Value* write_slot = start.CreateAlloca(entry_.index_type());
    start.CreateStore(entry_.number(0), read_slot);
    start.CreateStore(entry_.number(ahead), write_slot);
    const auto next_stage = [&](Value* stage) {
      Value* next = plus(stage, 1);
      return b_.CreateSelect(b_.CreateICmpEQ(next, entry_.number(tile_.stages())), entry_.number(0),
                             next);
    };
    std::vector<Value*> fragment_slots;
    for (std::int64_t i = 0; i < 4 * (tile_.ones_m + tile_.ones_n / 2); ++i) {
      fragment_slots.push_back(start.CreateAlloca(b_.getInt32Ty()));
    }
    // Of the first positions of a tile, which are read before the last ones of the tile before are
    // multiplied.
    const auto read_first = [&](Value* stage) {
      const Fragments read = read_fragments(lhs, rhs, stage, 0);
      std::size_t slot = 0;
      for (const auto* all : {&read.rows, &read.columns}) {
        for (const auto& four : *all) {
          for (Value* one : four) b_.CreateStore(one, fragment_slots[slot++]);
        }
      }
    };
    const auto first_fragments = [&] {
      Fragments result;
      std::size_t slot = 0;
      const auto load = [&](std::vector<std::array<Value*, 4>>& to, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) {
          to.emplace_back();
          for (Value*& one : to.back()) {
            one = b_.CreateLoad(b_.getInt32Ty(), fragment_slots[slot++]);
          }
        }
      };
      load(result.rows, tile_.ones_m);
      load(result.columns, tile_.ones_n / 2);
      return result;
    };
    wait(ahead - 1);
    entry_.barrier();
    read_first(entry_.number(0));
    Loop depths = Loop::open(b_, first, end, kTensorDepth);
    Value* reads = b_.CreateLoad(entry_.index_type(), read_slot);
    Value* writes = b_.CreateLoad(entry_.index_type(), write_slot);
    Value* reads_next = next_stage(reads);
    std::vector<Value*> sums;
    for (Value* slot : sums_) sums.push_back(b_.CreateLoad(b_.getFloatTy(), slot));
    Fragments now = first_fragments();
    for (std::int64_t step = 1; step < kTensorDepth / kDepthOfOne; ++step) {
      Fragments next = read_fragments(lhs, rhs, reads, step);
      multiply(now, sums);
      now = std::move(next);
    }
    keep(sums);
    // What was read of the stage before, everybody has read: it is free.
    Value* next = plus(depths.variable, ahead * kTensorDepth);
    entry_.when(b_.CreateICmpSLT(next, end), [&] {
      for_both([&](Side& side) { fetch(side, next, limit, stage_of(side, writes)); });
    });
    commit();
    wait(ahead - 1);
    entry_.barrier();
    // Behind the last tile nothing is read that counts.
    read_first(reads_next);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = b_.CreateLoad(b_.getFloatTy(), sums_[i]);
    multiply(now, sums);
    keep(sums);
    // Behind the last tile where nobody looks: a branch would part sums from what they are made of.
    for_both([&](Side& side) { put(side, stage_of(side, writes)); });
    b_.CreateStore(reads_next, read_slot);
    b_.CreateStore(next_stage(writes), write_slot);
    depths.close(b_);
    wait(0);
  }

  // Matrices of 16 rows, and of 16 columns.
  struct Fragments {
    std::vector<std::array<Value*, 4>> rows, columns;
  };
  Fragments read_fragments(const Side& lhs, const Side& rhs, Value* stage, std::int64_t step) {
    Fragments result;
    Value* left = times(stage, lhs.form.bytes());
    Value* right = times(stage, rhs.form.bytes());
    for (std::int64_t i = 0; i < tile_.ones_m; ++i) {
      result.rows.push_back(fragment(lhs, left, i, step));
    }
    for (std::int64_t i = 0; i < tile_.ones_n / 2; ++i) {
      result.columns.push_back(fragment(rhs, right, i, step));
    }
    return result;
  }

  void keep(const std::vector<Value*>& sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) b_.CreateStore(sums[i], sums_[i]);
  }

  void multiply(const Fragments& of, std::vector<Value*>& sums) {
    for (std::int64_t i = 0; i < tile_.ones_m; ++i) {
      for (std::int64_t j = 0; j < tile_.ones_n; ++j) {
        const auto& columns = of.columns[at(j / 2)];
        multiply(of.rows[at(i)], {columns[at(j % 2 * 2)], columns[at(j % 2 * 2 + 1)]},
                 &sums[at(4 * (i * tile_.ones_n + j))]);
      }
    }
  }

  // Adds the products of 16 rows and 8 columns to four sums of this thread's.
  void multiply(const std::array<Value*, 4>& rows, const std::array<Value*, 2>& columns,
                Value** sums) {
    const bool is_half = p_.operand_dtype(0) == DType::f16;
    std::vector<Value*> arguments(rows.begin(), rows.end());
    arguments.insert(arguments.end(), columns.begin(), columns.end());
    if (is_half) {
      auto* pair = llvm::FixedVectorType::get(b_.getHalfTy(), 2);
      for (Value*& argument : arguments) argument = b_.CreateBitCast(argument, pair);
    }
    arguments.insert(arguments.end(), sums, sums + 4);
    Value* all = b_.CreateIntrinsic(is_half ? llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32
                                            : llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16,
                                    {}, arguments);
    for (unsigned i = 0; i < 4; ++i) sums[i] = b_.CreateExtractValue(all, i);
  }

  template <typename F>
  void within(Value* i, std::int64_t extent, std::int64_t tile, F f) {
    entry_.when(extent % tile == 0 ? nullptr : b_.CreateICmpULT(i, entry_.number(extent)), f);
  }

  // Of every 16 by 8 results a thread has two neighbours in one row, and two eight rows below.
  // Where four can be stored at once, neighbouring threads exchange two of 16 columns.
  void give_results(const BlockPlace& block) {
    ProductResults results(entry_, p_, block.batch, block.part, 4);
    Value* row = lane_;
    Value* quarter = entry_.split(&row, 4);
    Value* m_own = b_.CreateAdd(b_.CreateAdd(block.m_first, warp_m_), row);
    Value* n_own = b_.CreateAdd(block.n_first, warp_n_);
    const int width = results.width();
    Value* is_odd = b_.CreateTrunc(quarter, b_.getInt1Ty());
    std::vector<Value*> numbers, columns;  // of what this thread stores of a row
    for (std::int64_t j = 0; j < tile_.ones_n; j += width == 4 ? 2 : 1) {
      Value* n = plus(n_own, j * kColumnsOfOne);
      if (width == 4) {
        Value* next = b_.CreateSelect(is_odd, entry_.number(kColumnsOfOne - 2), entry_.number(0));
        n = b_.CreateAdd(n, b_.CreateAdd(times(quarter, 2), next));
      } else {
        n = b_.CreateAdd(n, times(quarter, 2));
      }
      for (int w = 0; w < (width == 1 ? 2 : 1); ++w) {
        numbers.push_back(plus(n, w));
        columns.push_back(results.column(numbers.back()));
      }
    }
    for (std::int64_t i = 0; i < tile_.ones_m; ++i) {
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::vector<Value*> values = values_of_row(i, half, width, is_odd);
        Value* m = plus(m_own, i * kRowsOfOne + half * 8);
        within(m, p_.m, tile_.m(), [&] {
          Value* place = results.row(m);
          for (std::size_t c = 0; c < columns.size(); ++c) {
            within(numbers[c], p_.n, tile_.n(),
                   [&] { results.store(place, columns[c], values[c]); });
          }
        });
      }
    }
  }

  // Sums one by one, in pairs, or in fours, of which every second thread has the first.
  std::vector<Value*> values_of_row(std::int64_t i, std::int64_t half, int width, Value* is_odd) {
    std::vector<Value*> values;
    const auto sum = [&](std::int64_t j, std::int64_t which) -> Value* {
      return b_.CreateLoad(b_.getFloatTy(),
                           sums_[at(4 * (i * tile_.ones_n + j) + 2 * half + which)]);
    };
    const auto vector_of = [&](std::initializer_list<Value*> elements) {
      Value* vector = llvm::PoisonValue::get(p_.type(static_cast<int>(elements.size())));
      std::uint64_t place = 0;
      for (Value* element : elements) vector = b_.CreateInsertElement(vector, element, place++);
      return vector;
    };
    Value* other = b_.CreateXor(b_.CreateIntCast(lane_, b_.getInt32Ty(), false), b_.getInt32(1));
    for (std::int64_t j = 0; j < tile_.ones_n; j += width == 4 ? 2 : 1) {
      Value* first[] = {sum(j, 0), sum(j, 1)};
      if (width == 1) values.insert(values.end(), std::begin(first), std::end(first));
      if (width == 2) values.push_back(vector_of({first[0], first[1]}));
      if (width != 4) continue;
      Value* second[] = {sum(j + 1, 0), sum(j + 1, 1)};
      Value* own[2];
      Value* given[2];
      for (int w = 0; w < 2; ++w) {
        own[w] = b_.CreateSelect(is_odd, second[w], first[w]);
        given[w] = entry_.from_lane(b_.CreateSelect(is_odd, first[w], second[w]), other, kWarp);
      }
      Value* before = vector_of({given[0], given[1], own[0], own[1]});
      Value* behind = vector_of({own[0], own[1], given[0], given[1]});
      values.push_back(b_.CreateSelect(is_odd, before, behind));
    }
    return values;
  }

  const Products& p_;
  const TensorTile tile_;
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  Value* lane_ = nullptr;
  Value* warp_m_ = nullptr;
  Value* warp_n_ = nullptr;
  std::vector<Value*> sums_;
};

}  // namespace

bool takes_tensor_cores(const Products& products) {
  const DType dtype = products.operand_dtype(0);
  return gpu::compute_capability(*products.writer.code.module) >= kHasTensorCores &&
         (dtype == DType::f16 || dtype == DType::bf16) && products.operand_dtype(1) == dtype &&
         products.dtype == DType::f32;
}

void write_tensor_products(const Products& products) {
  TensorWriter(products, choose_tensor_tile(products)).write();
}

}  // namespace plimsoll::jit
