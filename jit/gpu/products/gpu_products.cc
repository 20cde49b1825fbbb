// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/products/gpu_products.h"

#include <algorithm>

#include "jit/emit/elementwise.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

// Fewer tiles of kPartTile by kPartTile results than that are made more by cutting the contracted
// positions, in parts of kLeastPart at least. Of up to kFewRows rows or columns, whose tiles are
// read rather than computed, it takes more of them.
constexpr std::int64_t kPartTile = 64, kFewTiles = 128, kManyTiles = 256, kLeastPart = 512;
constexpr std::int64_t kFewRows = 32, kManyTilesOfFewRows = 512;
// Rows of tiles whose columns are gone over together.
constexpr std::int64_t kTilesTogether = 8;

DType accumulator_of(const ir::Instruction& instruction) {
  const DType out = instruction.shape().dtype();
  const DType operands[] = {instruction.operand(0)->shape().dtype(),
                            instruction.operand(1)->shape().dtype(), out};
  if (std::find(std::begin(operands), std::end(operands), DType::f64) != std::end(operands)) {
    return DType::f64;
  }
  if (std::any_of(std::begin(operands), std::end(operands), ir::is_floating)) return DType::f32;
  return ir::dtype_bytes(out) < 4 ? DType::s32 : out;
}

// Part `part` of result `place`, of rows by columns, in the workspace.
Value* in_workspace(GpuEntry& entry, const Products& products, Value* place) {
  return entry.builder().CreateInBoundsGEP(products.type(), entry.function().workspace, place);
}

Value* part_place(GpuEntry& entry, const Products& products, Value* part) {
  llvm::IRBuilder<>& b = entry.builder();
  const auto results = static_cast<std::uint64_t>(products.batch * products.m * products.n);
  return b.CreateMul(b.CreateZExt(part, b.getInt64Ty()), b.getInt64(results));
}

}  // namespace

Products::Products(GpuWriter& to, const Contraction& of)
    : writer(to),
      contraction(of),
      dtype(accumulator_of(to.instruction)),
      batch(of.extent(of.batch)),
      m(of.extent(of.m)),
      n(of.extent(of.n)),
      k(of.extent(of.k)),
      lhs(of, of.lhs),
      rhs(of, of.rhs),
      out(of, of.out) {
  std::int64_t wanted = 1;
  if (std::min(m, n) <= VectorForm::kMostVectors) {
    vector.emplace(*this);
    wanted = vector->parts;
  }
  const std::int64_t tiles = batch * divide_up(m, kPartTile) * divide_up(n, kPartTile);
  if (!vector && std::min(m, n) <= kFewRows && tiles < kManyTilesOfFewRows && k >= 2 * kLeastPart) {
    wanted = std::min(divide_up(kManyTilesOfFewRows, tiles), k / kLeastPart);
  } else if (!vector && tiles < kFewTiles && k >= 2 * kLeastPart) {
    wanted = std::min(divide_up(kManyTiles, tiles), k / kLeastPart);
  }
  part = std::max(divide_up(divide_up(k, wanted), kPartUnit) * kPartUnit, kPartUnit);
  parts = std::max<std::int64_t>(divide_up(k, part), 1);
  if (parts > 1) {
    writer.code.workspace_bytes = parts * batch * m * n * ir::dtype_bytes(dtype);
  }
}

llvm::Type* Products::type(int width) const {
  return register_type(writer.code.module->getContext(), dtype, width);
}

DType Products::operand_dtype(int i) const {
  return writer.instruction.operand(i)->shape().dtype();
}

Value* Products::first_position(GpuEntry& entry, Value* part_number) const {
  if (parts == 1) return entry.number(0);
  return entry.builder().CreateMul(part_number, entry.number(part));
}

Value* Products::end_position(GpuEntry& entry, Value* first) const {
  if (parts == 1) return entry.number(k);
  llvm::IRBuilder<>& b = entry.builder();
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, entry.number(k),
                                 b.CreateAdd(first, entry.number(part)));
}

ProductResults::ProductResults(GpuEntry& entry, const Products& products, Value* batch,
                               Value* part_number, int most_width)
    : entry_(entry), products_(products) {
  llvm::IRBuilder<>& b = entry.builder();
  if (products.parts > 1) {
    Value* of_batch = b.CreateMul(b.CreateZExt(batch, b.getInt64Ty()),
                                  b.getInt64(static_cast<std::uint64_t>(products.m * products.n)));
    start_ = b.CreateAdd(part_place(entry, products, part_number), of_batch);
    while (2 * width_ <= most_width && products.n % (2 * width_) == 0) width_ *= 2;
  } else {
    start_ = ArrayPlaces::sum(entry, products.out.origin(entry),
                              products.out.part(entry, products.contraction.batch, batch))
                 .offset;
    width_ = products.out.vector_width(products.contraction.n, most_width);
  }
}

Value* ProductResults::row(Value* m) {
  llvm::IRBuilder<>& b = entry_.builder();
  if (products_.parts == 1) {
    return b.CreateAdd(start_, products_.out.part(entry_, products_.contraction.m, m).offset);
  }
  Value* place = b.CreateMul(b.CreateZExt(m, b.getInt64Ty()),
                             b.getInt64(static_cast<std::uint64_t>(products_.n)));
  return b.CreateAdd(start_, place);
}

Value* ProductResults::column(Value* n) {
  llvm::IRBuilder<>& b = entry_.builder();
  if (products_.parts == 1) {
    return products_.out.part(entry_, products_.contraction.n, n).offset;
  }
  return b.CreateZExt(n, b.getInt64Ty());
}

void ProductResults::store(Value* row, Value* column, Value* value) {
  llvm::IRBuilder<>& b = entry_.builder();
  Value* place = b.CreateAdd(row, column);
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  const std::int64_t count = vector == nullptr ? 1 : vector->getNumElements();
  const auto aligned = [&](DType dtype) {
    return llvm::Align(static_cast<std::uint64_t>(
        std::min<std::int64_t>(count * ir::dtype_bytes(dtype), kGpuAlignment)));
  };
  if (products_.parts > 1) {
    b.CreateAlignedStore(value, in_workspace(entry_, products_, place), aligned(products_.dtype));
    return;
  }
  const DType to = products_.writer.instruction.shape().dtype();
  llvm::Type* element = memory_type(b.getContext(), to, 1);
  Value* address = b.CreateInBoundsGEP(element, entry_.function().output(0), place);
  b.CreateAlignedStore(to_memory(b, emit_convert(b, value, products_.dtype, to), to), address,
                       aligned(to));
}

void write_sum_of_parts(const Products& products) {
  if (products.parts == 1) return;
  const Contraction& c = products.contraction;
  GpuEntry entry(products.writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  const std::int64_t results = products.batch * products.m * products.n;
  Value* result = entry.thread();
  const auto load = [&](Value* part) {
    Value* place =
        b.CreateAdd(part_place(entry, products, part), b.CreateZExt(result, b.getInt64Ty()));
    return b.CreateLoad(products.type(), in_workspace(entry, products, place));
  };
  entry.when(b.CreateICmpULT(result, entry.number(results)), [&] {
    Value* sum = load(entry.number(0));
    llvm::BasicBlock* before = b.GetInsertBlock();
    Loop parts = Loop::open(b, entry.number(1), entry.number(products.parts), 1);
    auto* running = b.CreatePHI(products.type(), 2);
    running->addIncoming(sum, before);
    Value* next = load(parts.variable);
    Value* total =
        ir::is_floating(products.dtype) ? b.CreateFAdd(running, next) : b.CreateAdd(running, next);
    running->addIncoming(total, b.GetInsertBlock());
    parts.close(b);
    auto* end = b.CreatePHI(products.type(), 2);
    end->addIncoming(sum, before);
    end->addIncoming(total, parts.variable->getParent());
    Value* rest = result;
    Value* n = entry.split(&rest, products.n);
    Value* m = entry.split(&rest, products.m);
    PlacePart place = products.out.origin(entry);
    for (const auto& [digits, number] :
         {std::pair{&c.batch, rest}, std::pair{&c.m, m}, std::pair{&c.n, n}}) {
      place = ArrayPlaces::sum(entry, place, products.out.part(entry, *digits, number));
    }
    const DType to = products.writer.instruction.shape().dtype();
    entry.store_element(entry.function().output(0), to, place.offset,
                        emit_convert(b, end, products.dtype, to));
  });
  entry.launch(results);
}

double cycles_of(const Products& products, const TileForm& form) {
  // Of multiprocessors, and the bytes a cycle that the cache near memory gives them.
  constexpr std::int64_t kMultiprocessors = 132, kCacheBytes = 2500;
  constexpr double kBarrierCycles = 100;
  const std::int64_t blocks = products.parts * products.batch * divide_up(products.m, form.m) *
                              divide_up(products.n, form.n);
  const std::int64_t each = divide_up(blocks, kMultiprocessors);
  const std::int64_t together = std::min(each, form.resident);
  const std::int64_t warps = form.threads / kWarp;
  const auto rate = [&](std::int64_t resident_warps) {
    return std::min(form.products_per_cycle,
                    form.products_of_warp * static_cast<double>(resident_warps));
  };
  const auto work = static_cast<double>(form.m * form.n * form.depth);
  const double one_by_one = static_cast<double>(divide_up(each, together)) *
                            (std::max(form.latency, work / rate(warps)) + kBarrierCycles);
  const double all = static_cast<double>(each) * work / rate(together * warps);
  const double bytes = static_cast<double>(blocks * (form.m + form.n) * form.depth) *
                       static_cast<double>(ir::dtype_bytes(products.operand_dtype(0)));
  const std::int64_t steps = divide_up(std::min(products.k, products.part), form.depth);
  return static_cast<double>(steps) * std::max({one_by_one, all, bytes / kCacheBytes});
}

BlockPlace place_block(GpuEntry& entry, const Products& products, std::int64_t tile_m,
                       std::int64_t tile_n) {
  llvm::IRBuilder<>& b = entry.builder();
  const std::int64_t m_tiles = divide_up(products.m, tile_m);
  const std::int64_t n_tiles = divide_up(products.n, tile_n);
  BlockPlace place;
  Value* rest = entry.block_in_grid();
  Value* tile = entry.split(&rest, m_tiles * n_tiles);
  place.batch = entry.split(&rest, products.batch);
  place.part = rest;
  Value* m = nullptr;
  Value* n = nullptr;
  if (m_tiles <= kTilesTogether || n_tiles == 1) {
    n = entry.split(&tile, n_tiles);
    m = tile;
  } else {
    Value* in_group = entry.split(&tile, kTilesTogether * n_tiles);
    Value* first = b.CreateMul(tile, entry.number(kTilesTogether));
    Value* rows = entry.number(kTilesTogether);
    if (m_tiles % kTilesTogether != 0) {
      rows = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, rows,
                                     b.CreateSub(entry.number(m_tiles), first));
    }
    m = b.CreateAdd(first, b.CreateURem(in_group, rows));
    n = b.CreateUDiv(in_group, rows);
  }
  place.m_first = b.CreateMul(m, entry.number(tile_m));
  place.n_first = b.CreateMul(n, entry.number(tile_n));
  return place;
}

}  // namespace plimsoll::jit
