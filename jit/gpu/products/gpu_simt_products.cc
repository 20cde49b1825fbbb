// SPDX-License-Identifier: Apache-2.0
// Products by multiply-adds of single numbers: f32, f64, integers, and 16-bit floats in f32.
#include <algorithm>
#include <array>
#include <limits>

#include "jit/emit/elementwise.h"
#include "jit/gpu/products/gpu_products.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using llvm::Value;

// The threads of a warp lie 4 by 8. Each makes `quads_m` by `quads_n` squares of 4 by 4 results,
// and neighbouring threads neighbouring squares, so that what a warp reads of shared memory lies
// side by side; the next squares of a thread are a warp's width further.
constexpr std::int64_t kQuad = 4, kLanesM = 4, kLanesN = 8;
// Positions at a time that are not halved.
constexpr std::int64_t kLeastDepth = 16;
// Threads of a multiprocessor where each has 128 sums, or 32 or 64: with all the registers that
// there may be, with 128, and with the 168 that it takes to read what is not plain(), or much a
// thread.
constexpr std::int64_t kThreadsOfMost = 256, kPlainThreads = 512, kOtherThreads = 384;
// Rows of shared memory are so much longer than a tile, so that columns are in different banks.
constexpr std::int64_t kRowSkew = 4;

struct SimtTile {
  std::int64_t quads_m, quads_n, warps_m, warps_n;
  std::int64_t depth;  // positions at a time, of sums of 4 bytes, where there are so many
  double rate;  // of the multiply-adds that a multiprocessor full of such blocks makes at most

  constexpr std::int64_t warp_m() const { return kLanesM * kQuad * quads_m; }
  constexpr std::int64_t warp_n() const { return kLanesN * kQuad * quads_n; }
  constexpr std::int64_t m() const { return warp_m() * warps_m; }
  constexpr std::int64_t n() const { return warp_n() * warps_n; }
  constexpr std::int64_t threads() const { return kWarp * warps_m * warps_n; }
  constexpr bool has_many_sums() const { return quads_m * quads_n > 1; }
  constexpr bool has_most_sums() const { return quads_m * quads_n > 4; }
};

constexpr std::array kTiles = {
    SimtTile{2, 4, 4, 1, 8, 0.80},   // 128 by 128
    SimtTile{2, 2, 2, 2, 16, 0.70},  // 64 by 128
    SimtTile{2, 2, 4, 1, 16, 0.70},  // 128 by 64
    SimtTile{2, 2, 2, 1, 16, 0.65},  // 64 by 64
    SimtTile{2, 1, 2, 2, 16, 0.58},  // 64 by 64
    SimtTile{1, 1, 4, 2, 32, 0.48},  // 64 by 64
    SimtTile{1, 1, 8, 1, 32, 0.45},  // 128 by 32
    SimtTile{1, 1, 1, 4, 32, 0.45},  // 16 by 128
    SimtTile{1, 1, 2, 1, 64, 0.45},  // 32 by 32
    SimtTile{1, 1, 1, 1, 64, 0.45},  // 16 by 32
};

bool is_converted(const Products& p) {
  return p.operand_dtype(0) != p.dtype || p.operand_dtype(1) != p.dtype;
}

// Whether operands are read in pieces of 16 bytes, wherever there are, as they are.
bool is_plain(const Products& p) {
  const auto of = [&](const ArrayPlaces& places, const std::vector<int>& side) {
    const std::int64_t bytes = ir::dtype_bytes(p.dtype);
    const int most = static_cast<int>(kGpuAlignment / bytes);
    return !places.has_checks() && std::max(places.vector_width(p.contraction.k, most),
                                            places.vector_width(side, most)) == most;
  };
  return !is_converted(p) && of(p.lhs, p.contraction.m) && of(p.rhs, p.contraction.n);
}

std::int64_t stage_size(std::int64_t rows, std::int64_t depth) { return depth * (rows + kRowSkew); }

// What a thread reads of both operands at a time.
std::int64_t pieces_of(const Products& p, const SimtTile& tile, std::int64_t depth) {
  const auto of = [&](int input, const ArrayPlaces& places, const std::vector<int>& side,
                      std::int64_t rows) {
    const int most = static_cast<int>(
        std::max<std::int64_t>(kGpuAlignment / ir::dtype_bytes(p.operand_dtype(input)), 1));
    const int width =
        std::max(places.vector_width(p.contraction.k, most), places.vector_width(side, most));
    return divide_up(rows * depth, tile.threads() * width);
  };
  return of(0, p.lhs, p.contraction.m, tile.m()) + of(1, p.rhs, p.contraction.n, tile.n());
}

// Few positions are not padded to many; and no more are read than there are registers for.
std::int64_t depth_of(const Products& products, const SimtTile& tile) {
  constexpr std::int64_t kMostPieces = 24;
  std::int64_t depth = tile.depth;
  if (ir::dtype_bytes(products.dtype) > 4 && depth > kLeastDepth) depth /= 2;
  while (depth > kLeastDepth &&
         (products.k <= depth / 2 || pieces_of(products, tile, depth) > kMostPieces)) {
    depth /= 2;
  }
  return depth;
}

// Blocks of a multiprocessor, by registers and by shared memory.
std::int64_t resident_of(const Products& products, const SimtTile& tile) {
  constexpr std::int64_t kThreads = 1024, kSharedBytes = 160 << 10;
  std::int64_t threads = kThreads;
  if (tile.has_many_sums()) {
    threads = is_plain(products) && tile.threads() > 64 ? kPlainThreads : kOtherThreads;
  }
  if (tile.has_most_sums()) threads = kThreadsOfMost;
  const std::int64_t depth = depth_of(products, tile);
  const std::int64_t bytes = 2 * (stage_size(tile.m(), depth) + stage_size(tile.n(), depth)) *
                             ir::dtype_bytes(products.dtype);
  return std::max<std::int64_t>(std::min(threads / tile.threads(), kSharedBytes / bytes), 1);
}

SimtTile choose_tile(const Products& products) {
  // Of a multiprocessor's 128 multiply-adds a cycle. Between two tiles lie a read of global memory
  // and a barrier.
  constexpr double kPerCycle = 128, kOfWarp = 15, kLatency = 700;
  SimtTile best = kTiles.back();
  double least = std::numeric_limits<double>::infinity();
  for (const SimtTile& tile : kTiles) {
    if (ir::dtype_bytes(products.dtype) > 4 && tile.quads_m > 1) continue;
    // Conversions take registers that there are none of beside the most sums.
    if (tile.has_most_sums() && is_converted(products)) continue;
    const double cycles = cycles_of(
        products, {tile.m(), tile.n(), depth_of(products, tile), tile.threads(),
                   resident_of(products, tile), kPerCycle * tile.rate, kOfWarp, kLatency});
    if (cycles < least) {
      least = cycles;
      best = tile;
    }
  }
  return best;
}

class SimtWriter {
 public:
  SimtWriter(const Products& products, const SimtTile& tile)
      : p_(products),
        tile_(tile),
        depth_(depth_of(products, tile)),
        entry_(products.writer, static_cast<std::uint32_t>(tile.threads())),
        b_(entry_.builder()) {}

  void write() {
    const BlockPlace block = place_block(entry_, p_, tile_.m(), tile_.n());
    Value* warp = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    Value* lane = entry_.split(&warp, kWarp);
    Value* lane_n = entry_.split(&lane, kLanesN);
    Value* warp_n = entry_.split(&warp, tile_.warps_n);
    m_own_ = b_.CreateAdd(times(warp, tile_.warp_m()), times(lane, kQuad));
    n_own_ = b_.CreateAdd(times(warp_n, tile_.warp_n()), times(lane_n, kQuad));
    if (tile_.has_many_sums()) {
      entry_.keep_resident(static_cast<std::uint32_t>(resident_of(p_, tile_)));
    }
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    auto* quad = p_.type(kQuad);
    for (std::int64_t i = 0; i < own_m() * tile_.quads_n; ++i) {
      sums_.push_back(start.CreateAlloca(quad));
      start.CreateStore(llvm::Constant::getNullValue(quad), sums_.back());
    }
    if (p_.k > 0) add_products(block);
    give_results(block);
    entry_.launch(p_.parts * p_.batch * divide_up(p_.m, tile_.m()) * divide_up(p_.n, tile_.n()) *
                  tile_.threads());
  }

 private:
  // How one operand comes into shared memory.
  struct Side {
    OperandTile tile;
    std::int64_t rows;
    ir::DType dtype;
    Value* memory;  // both stages
    std::vector<Value*> slots;
  };

  Value* times(Value* x, std::int64_t n) { return b_.CreateMul(x, entry_.number(n)); }
  std::int64_t own_m() const { return kQuad * tile_.quads_m; }
  std::int64_t stage_size_of(std::int64_t rows) const { return stage_size(rows, depth_); }

  Side make_side(int input, const ArrayPlaces& places, const std::vector<int>& digits,
                 std::int64_t rows) {
    const ir::DType dtype = p_.operand_dtype(input);
    Side side{OperandTile(entry_, p_.contraction, places,
                          {input, dtype, &digits, rows, depth_, tile_.threads()}),
              rows,
              dtype,
              entry_.share(p_.type(), 2 * stage_size_of(rows)),
              {}};
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    for (std::size_t i = 0; i < side.tile.size(); ++i) {
      side.slots.push_back(start.CreateAlloca(side.tile.piece_type()));
    }
    return side;
  }

  void fetch(Side& side, Value* k, Value* end) {
    const auto sources = side.tile.sources(k, end);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      b_.CreateStore(side.tile.load(sources[i]), side.slots[i]);
    }
  }

  Value* shared(const Side& side, Value* stage, Value* depth, Value* row) {
    Value* place = b_.CreateAdd(times(depth, side.rows + kRowSkew), row);
    Value* begin = b_.CreateMul(stage, entry_.number(stage_size_of(side.rows)));
    return b_.CreateInBoundsGEP(p_.type(), side.memory, b_.CreateAdd(begin, place));
  }

  void put(const Side& side, Value* stage) {
    for (std::size_t i = 0; i < side.tile.size(); ++i) {
      Value* loaded = b_.CreateLoad(side.tile.piece_type(), side.slots[i]);
      Value* value = emit_convert(b_, to_register(b_, loaded, side.dtype), side.dtype, p_.dtype);
      Value* place = shared(side, stage, side.tile.depth(i), side.tile.row(i));
      const int width = side.tile.width();
      if (width == 1 || !side.tile.along_depth()) {
        const std::int64_t bytes = width * ir::dtype_bytes(p_.dtype);
        b_.CreateAlignedStore(
            value, place,
            llvm::Align(static_cast<std::uint64_t>(std::min<std::int64_t>(bytes, kGpuAlignment))));
        continue;
      }
      for (int j = 0; j < width; ++j) {
        const auto further = static_cast<std::uint64_t>(j * (side.rows + kRowSkew));
        b_.CreateStore(b_.CreateExtractElement(value, static_cast<std::uint64_t>(j)),
                       b_.CreateConstInBoundsGEP1_64(p_.type(), place, further));
      }
    }
  }

  // While products of one tile are added, the next is on its way into registers; one operand after
  // the other where sums take most of them.
  void add_products(const BlockPlace& block) {
    Side lhs = make_side(0, p_.lhs, p_.contraction.m, tile_.m());
    Side rhs = make_side(1, p_.rhs, p_.contraction.n, tile_.n());
    lhs.tile.place_rows(block.m_first, block.batch);
    rhs.tile.place_rows(block.n_first, block.batch);
    Value* first = p_.first_position(entry_, block.part);
    Value* end = p_.end_position(entry_, first);
    const bool is_whole = p_.k % depth_ == 0 && (p_.parts == 1 || p_.part % depth_ == 0);
    Value* limit = is_whole ? nullptr : end;
    fetch(lhs, first, limit);
    fetch(rhs, first, limit);
    put(lhs, entry_.number(0));
    put(rhs, entry_.number(0));
    entry_.barrier();
    if (std::min(p_.k, p_.part) <= depth_) {
      // A loop, whose one turn the compiler can't see, so that sums are made before the first of
      // them is stored: else all that they are made of takes registers until then.
      Value* none = b_.CreateLShr(entry_.thread_in_block(), 31);
      Value* unseen = b_.CreateAdd(end, b_.CreateIntCast(none, entry_.index_type(), false));
      Loop once = Loop::open(b_, first, unseen, depth_);
      add_tile(lhs, rhs, entry_.number(0), 0, depth_);
      once.close(b_);
      return;
    }
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    Value* stage_slot = start.CreateAlloca(entry_.index_type());
    start.CreateStore(entry_.number(0), stage_slot);
    Loop depths = Loop::open(b_, first, end, depth_);
    Value* stage = b_.CreateLoad(entry_.index_type(), stage_slot);
    Value* other = b_.CreateXor(stage, entry_.number(1));
    // Behind the last tile something is read, and put where nobody looks: a branch would part sums
    // from what they are made of, which then takes registers.
    Value* next = b_.CreateAdd(depths.variable, entry_.number(depth_));
    if (is_whole) {
      next = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, next,
                                      b_.CreateSub(end, entry_.number(depth_)));
    }
    fetch(lhs, next, limit);
    if (tile_.has_many_sums()) {
      add_tile(lhs, rhs, stage, 0, depth_ / 2);
      put(lhs, other);
      fetch(rhs, next, limit);
      add_tile(lhs, rhs, stage, depth_ / 2, depth_);
    } else {
      fetch(rhs, next, limit);
      add_tile(lhs, rhs, stage, 0, depth_);
      put(lhs, other);
    }
    put(rhs, other);
    entry_.barrier();
    b_.CreateStore(other, stage_slot);
    depths.close(b_);
  }

  void add_tile(const Side& lhs, const Side& rhs, Value* stage, std::int64_t begin,
                std::int64_t end) {
    Value* left = shared(lhs, stage, entry_.number(0), m_own_);
    Value* right = shared(rhs, stage, entry_.number(0), n_own_);
    auto* quad = p_.type(kQuad);
    const auto read = [&](Value* begin, std::int64_t place) {
      return b_.CreateAlignedLoad(
          quad, b_.CreateConstInBoundsGEP1_64(p_.type(), begin, static_cast<std::uint64_t>(place)),
          llvm::Align(kGpuAlignment));
    };
    std::vector<Value*> sums;
    for (Value* slot : sums_) {
      Value* row = b_.CreateLoad(quad, slot);
      for (std::uint64_t j = 0; j < kQuad; ++j) sums.push_back(b_.CreateExtractElement(row, j));
    }
    for (std::int64_t depth = begin; depth < end; ++depth) {
      std::vector<Value*> x, y;
      for (std::int64_t q = 0; q < tile_.quads_m; ++q) {
        x.push_back(read(left, depth * (lhs.rows + kRowSkew) + q * kLanesM * kQuad));
      }
      for (std::int64_t q = 0; q < tile_.quads_n; ++q) {
        y.push_back(read(right, depth * (rhs.rows + kRowSkew) + q * kLanesN * kQuad));
      }
      for (std::int64_t i = 0; i < own_m(); ++i) {
        Value* one = b_.CreateExtractElement(x[at(i / kQuad)], at(i % kQuad));
        for (std::int64_t j = 0; j < kQuad * tile_.quads_n; ++j) {
          Value* other = b_.CreateExtractElement(y[at(j / kQuad)], at(j % kQuad));
          Value*& sum = sums[at(i * kQuad * tile_.quads_n + j)];
          sum = with_product(sum, one, other);
        }
      }
    }
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      Value* row = llvm::PoisonValue::get(quad);
      for (std::uint64_t j = 0; j < kQuad; ++j) {
        row = b_.CreateInsertElement(row, sums[i * kQuad + j], j);
      }
      b_.CreateStore(row, sums_[i]);
    }
  }

  Value* with_product(Value* sum, Value* x, Value* y) {
    if (!ir::is_floating(p_.dtype)) return b_.CreateAdd(sum, b_.CreateMul(x, y));
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {p_.type()}, {x, y, sum});
  }

  // Runs `f` where number `i` is below `extent`, which tiles of `tile` may run past.
  template <typename F>
  void within(Value* i, std::int64_t extent, std::int64_t tile, F f) {
    entry_.when(extent % tile == 0 ? nullptr : b_.CreateICmpULT(i, entry_.number(extent)), f);
  }

  void give_results(const BlockPlace& block) {
    ProductResults results(entry_, p_, block.batch, block.part, kQuad);
    const int width = results.width();
    std::vector<Value*> numbers, columns;
    for (std::int64_t q = 0; q < tile_.quads_n; ++q) {
      Value* n =
          b_.CreateAdd(b_.CreateAdd(block.n_first, n_own_), entry_.number(q * kLanesN * kQuad));
      for (int j = 0; j < kQuad; j += width) {
        numbers.push_back(b_.CreateAdd(n, entry_.number(j)));
        columns.push_back(results.column(numbers.back()));
      }
    }
    for (std::int64_t i = 0; i < own_m(); ++i) {
      Value* m = b_.CreateAdd(b_.CreateAdd(block.m_first, m_own_),
                              entry_.number(i / kQuad * kLanesM * kQuad + i % kQuad));
      within(m, p_.m, tile_.m(), [&] {
        Value* row = results.row(m);
        std::vector<Value*> sums;
        for (std::int64_t q = 0; q < tile_.quads_n; ++q) {
          sums.push_back(b_.CreateLoad(p_.type(kQuad), sums_[at(i * tile_.quads_n + q)]));
        }
        for (std::size_t c = 0; c < columns.size(); ++c) {
          const int pieces = static_cast<int>(kQuad) / width;
          Value* quad = sums[c / at(pieces)];
          const int begin = static_cast<int>(c) % pieces * width;
          within(numbers[c], p_.n, tile_.n(),
                 [&] { results.store(row, columns[c], piece_of(quad, begin, width)); });
        }
      });
    }
  }

  Value* piece_of(Value* quad, int begin, int width) {
    if (width == kQuad) return quad;
    if (width == 1) return b_.CreateExtractElement(quad, static_cast<std::uint64_t>(begin));
    std::vector<int> lanes(at(width));
    for (int i = 0; i < width; ++i) lanes[at(i)] = begin + i;
    return b_.CreateShuffleVector(quad, lanes);
  }

  const Products& p_;
  const SimtTile tile_;
  const std::int64_t depth_;
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  Value* m_own_ = nullptr;
  Value* n_own_ = nullptr;
  std::vector<Value*> sums_;  // rows of four
};

}  // namespace

void write_simt_products(const Products& products) {
  SimtWriter(products, choose_tile(products)).write();
}

}  // namespace plimsoll::jit
