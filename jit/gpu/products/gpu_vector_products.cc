// SPDX-License-Identifier: Apache-2.0
// Products of a matrix and few vectors, which are as fast as the matrix is read, once, in pieces of
// up to 16 bytes.
#include <algorithm>

#include "jit/emit/elementwise.h"
#include "jit/gpu/products/gpu_products.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

// Rows that a group of lanes goes along together, and pieces that are read before the first is
// multiplied.
constexpr std::int64_t kRowsTogether = 2, kPiecesTogether = 4;
// Blocks of a multiprocessor: enough to read at full speed, with registers for what is read at
// once.
constexpr std::uint32_t kResidentBlocks = 4;
// Positions that a thread reads before the first is multiplied, where rows are neighbours.
constexpr std::int64_t kPositionsTogether = 8;
constexpr std::int64_t kWarps = kBlockThreads / kWarp;
// Threads that are worth more parts, and positions that a thread has at least in one.
constexpr std::int64_t kThreadsOfAll = 128 << 10, kLeastOfThread = 32;

std::int64_t power_of_two_up_to(std::int64_t most, std::int64_t n) {
  std::int64_t result = 1;
  while (2 * result <= most && 2 * result <= n) result *= 2;
  return result;
}

}  // namespace

VectorForm::VectorForm(const Products& p) {
  matrix = p.n <= p.m ? 0 : 1;
  const ArrayPlaces& places = matrix == 0 ? p.lhs : p.rhs;
  const std::vector<int>& side = matrix == 0 ? p.contraction.m : p.contraction.n;
  rows = matrix == 0 ? p.m : p.n;
  vectors = matrix == 0 ? p.n : p.m;
  const int most = static_cast<int>(
      std::max<std::int64_t>(kGpuAlignment / ir::dtype_bytes(p.operand_dtype(matrix)), 1));
  along_depth = !places.runs_along(side) && places.runs_along(p.contraction.k);
  width = places.vector_width(along_depth ? p.contraction.k : side, most);
  if (along_depth) {
    lanes = power_of_two_up_to(kWarp, divide_up(p.k, std::int64_t{width}));
    splits = 1;
    units = p.batch * divide_up(rows, kRowsTogether);
  } else {
    batch_first = width == 1 && !places.runs_along(side) && places.runs_along(p.contraction.batch);
    lanes = 1;
    units = p.batch * divide_up(rows, std::int64_t{width});
    splits = units >= kThreadsOfAll ? 1 : power_of_two_up_to(kWarps, p.k / kLeastOfThread);
  }
  const std::int64_t threads = units * lanes * splits;
  const std::int64_t least = kLeastOfThread * lanes * splits * (along_depth ? width : 1);
  parts = std::max<std::int64_t>(1, std::min(divide_up(kThreadsOfAll, threads), p.k / least));
}

namespace {

class VectorWriter {
 public:
  VectorWriter(const Products& products, const VectorForm& form)
      : p_(products),
        form_(form),
        matrix_(form.matrix == 0 ? products.lhs : products.rhs),
        vectors_(form.matrix == 0 ? products.rhs : products.lhs),
        entry_(products.writer, kBlockThreads),
        b_(entry_.builder()) {}

  void write() {
    entry_.keep_resident(kResidentBlocks);
    if (form_.along_depth) {
      write_along_depth();
    } else {
      write_along_rows();
    }
  }

 private:
  const std::vector<int>& row_digits() const {
    return form_.matrix == 0 ? p_.contraction.m : p_.contraction.n;
  }
  const std::vector<int>& vector_digits() const {
    return form_.matrix == 0 ? p_.contraction.n : p_.contraction.m;
  }
  Value* times(Value* x, std::int64_t n) { return b_.CreateMul(x, entry_.number(n)); }
  Value* plus(Value* x, std::int64_t n) { return b_.CreateAdd(x, entry_.number(n)); }

  // What a thread adds up: `count` of them for each vector.
  void make_sums(std::int64_t count) {
    llvm::IRBuilder<> start(entry_.function().entry_anchor);
    for (std::int64_t i = 0; i < count * form_.vectors; ++i) {
      sums_.push_back(start.CreateAlloca(p_.type()));
      start.CreateStore(llvm::Constant::getNullValue(p_.type()), sums_.back());
    }
  }
  Value*& sum(std::int64_t which, std::int64_t vector) {
    return sums_[at(which * form_.vectors + vector)];
  }

  // add(k, n): n turns of `stride` positions from `k` on, for those of `begin` to `end`, of which
  // there are `size`: as many at a time as may be, then one by one.
  template <typename Add>
  void add_in_turns(Value* begin, Value* size, Value* end, std::int64_t stride,
                    std::int64_t together, Add add) {
    const std::int64_t step = stride * together;
    Value* whole = times(b_.CreateUDiv(size, entry_.number(step)), step);
    Loop many = Loop::open(b_, begin, b_.CreateAdd(b_.CreateSub(end, size), whole), step);
    add(many.variable, together);
    many.close(b_);
    Loop single = Loop::open(b_, b_.CreateAdd(begin, whole), end, stride);
    add(single.variable, 1);
    single.close(b_);
  }

  // `width` elements of an operand from a place on, as sums have them; zeros where there are none.
  Value* read(int input, const ArrayPlaces& places, const PlacePart& place, int width) {
    const DType dtype = p_.operand_dtype(input);
    ArrayPlaces::Element found = places.element(entry_, place);
    Value* exists = found.exists;
    if (exists != nullptr) {
      found.offset = b_.CreateSelect(exists, found.offset, entry_.number(0));
    }
    llvm::Type* type = memory_type(b_.getContext(), dtype, width);
    Value* pointer = b_.CreateGEP(memory_type(b_.getContext(), dtype, 1),
                                  entry_.function().input(input), found.offset);
    Value* loaded = b_.CreateAlignedLoad(
        type, pointer, llvm::Align(static_cast<std::uint64_t>(width * ir::dtype_bytes(dtype))));
    if (exists != nullptr) {
      loaded = b_.CreateSelect(exists, loaded, llvm::Constant::getNullValue(type));
    }
    return emit_convert(b_, to_register(b_, loaded, dtype), dtype, p_.dtype);
  }

  static Value* lane_of(llvm::IRBuilder<>& b, Value* value, std::int64_t i) {
    return value->getType()->isVectorTy()
               ? b.CreateExtractElement(value, static_cast<std::uint64_t>(i))
               : value;
  }

  Value* with_product(Value* sum, Value* x, Value* y) {
    if (!ir::is_floating(p_.dtype)) return b_.CreateAdd(sum, b_.CreateMul(x, y));
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {p_.type()}, {x, y, sum});
  }
  Value* added(Value* x, Value* y) {
    return ir::is_floating(p_.dtype) ? b_.CreateFAdd(x, y) : b_.CreateAdd(x, y);
  }

  // The vectors' places before the depth's part.
  std::vector<PlacePart> places_of_vectors(Value* batch) {
    const PlacePart start = ArrayPlaces::sum(entry_, vectors_.origin(entry_),
                                             vectors_.part(entry_, p_.contraction.batch, batch));
    std::vector<PlacePart> places;
    for (std::int64_t v = 0; v < form_.vectors; ++v) {
      places.push_back(ArrayPlaces::sum(entry_, start,
                                        vectors_.part(entry_, vector_digits(), entry_.number(v))));
    }
    return places;
  }
  PlacePart place_of_row(Value* row, Value* batch) {
    const PlacePart start = ArrayPlaces::sum(entry_, matrix_.origin(entry_),
                                             matrix_.part(entry_, p_.contraction.batch, batch));
    return ArrayPlaces::sum(entry_, start, matrix_.part(entry_, row_digits(), row));
  }

  void give(ProductResults& results, Value* row, std::int64_t vector, Value* value) {
    Value* number = entry_.number(vector);
    Value* m = form_.matrix == 0 ? row : number;
    Value* n = form_.matrix == 0 ? number : row;
    results.store(results.row(m), results.column(n), value);
  }

  // A group of lanes a pair of rows: piece by piece in turn, then the lanes' sums by halves.
  void write_along_depth() {
    const std::int64_t row_groups = divide_up(form_.rows, kRowsTogether);
    const std::int64_t width = form_.width, stride = form_.lanes * width;
    Value* group = entry_.thread();
    Value* lane = entry_.split(&group, form_.lanes);
    const std::int64_t groups = p_.parts * form_.units;
    Value* exists = b_.CreateICmpULT(group, entry_.number(groups));
    // Every thread of a warp takes part in its exchanges.
    Value* rest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, group, entry_.number(groups - 1));
    Value* first_row = times(entry_.split(&rest, row_groups), kRowsTogether);
    Value* batch = entry_.split(&rest, p_.batch);
    Value* part = rest;
    const std::int64_t count = std::min(form_.rows, kRowsTogether);
    std::vector<Value*> rows;
    std::vector<PlacePart> places;
    for (std::int64_t r = 0; r < count; ++r) {
      rows.push_back(plus(first_row, r));
      Value* last = entry_.number(form_.rows - 1);
      places.push_back(
          place_of_row(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rows.back(), last), batch));
    }
    const std::vector<PlacePart> vectors = places_of_vectors(batch);
    const bool has_wide_vectors =
        vectors_.vector_width(p_.contraction.k, form_.width) == form_.width;
    make_sums(count);
    Value* first = p_.first_position(entry_, part);
    Value* end = p_.end_position(entry_, first);
    struct Turn {
      std::vector<Value*> rows;
      std::vector<std::vector<Value*>> vectors;  // by vector, of each position of a piece
    };
    const auto read_turn = [&](Value* k) {
      Turn turn;
      const PlacePart of_k = matrix_.part(entry_, p_.contraction.k, k);
      for (const PlacePart& place : places) {
        turn.rows.push_back(
            read(form_.matrix, matrix_, ArrayPlaces::sum(entry_, place, of_k), form_.width));
      }
      for (const PlacePart& vector : vectors) {
        std::vector<Value*> elements;
        const int together = has_wide_vectors ? form_.width : 1;
        for (std::int64_t i = 0; i < width; i += together) {
          const PlacePart place =
              ArrayPlaces::sum(entry_, vector, vectors_.part(entry_, p_.contraction.k, plus(k, i)));
          Value* piece = read(1 - form_.matrix, vectors_, place, together);
          for (int j = 0; j < together; ++j) elements.push_back(lane_of(b_, piece, j));
        }
        turn.vectors.push_back(std::move(elements));
      }
      return turn;
    };
    Value* own_first = b_.CreateAdd(first, times(lane, width));
    add_in_turns(own_first, b_.CreateSub(end, first), end, stride, kPiecesTogether,
                 [&](Value* begin, std::int64_t turns_together) {
                   std::vector<Turn> turns;
                   for (std::int64_t u = 0; u < turns_together; ++u) {
                     turns.push_back(read_turn(plus(begin, u * stride)));
                   }
                   for (std::int64_t r = 0; r < count; ++r) {
                     for (std::int64_t v = 0; v < form_.vectors; ++v) {
                       Value* total = b_.CreateLoad(p_.type(), sum(r, v));
                       for (const Turn& turn : turns) {
                         for (std::int64_t i = 0; i < width; ++i) {
                           total = with_product(total, lane_of(b_, turn.rows[at(r)], i),
                                                turn.vectors[at(v)][at(i)]);
                         }
                       }
                       b_.CreateStore(total, sum(r, v));
                     }
                   }
                 });
    ProductResults results(entry_, p_, batch, part, 1);
    Value* is_first = b_.CreateAnd(exists, b_.CreateIsNull(lane));
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t v = 0; v < form_.vectors; ++v) {
        Value* total = b_.CreateLoad(p_.type(), sum(r, v));
        for (int offset = static_cast<int>(form_.lanes) / 2; offset > 0; offset /= 2) {
          total =
              added(total, entry_.from_lane_above(total, offset, static_cast<int>(form_.lanes)));
        }
        Value* has_row = b_.CreateICmpULT(rows[at(r)], entry_.number(form_.rows));
        entry_.when(b_.CreateAnd(is_first, has_row), [&] { give(results, rows[at(r)], v, total); });
      }
    }
    entry_.launch(groups * form_.lanes);
  }

  // A thread some neighbouring rows; warps of a block have other positions, whose sums the first
  // one adds in order.
  void write_along_rows() {
    const std::int64_t width = form_.width;
    const std::int64_t row_groups = divide_up(form_.rows, width);
    const std::int64_t units_of_block = kBlockThreads / form_.splits;
    Value* thread = b_.CreateIntCast(entry_.thread_in_block(), entry_.index_type(), false);
    Value* split = thread;
    Value* own = entry_.split(&split, units_of_block);
    Value* block = entry_.block_in_grid();
    const std::int64_t blocks = divide_up(form_.units, units_of_block);
    Value* part = block;
    Value* unit = b_.CreateAdd(times(entry_.split(&part, blocks), units_of_block), own);
    Value* exists = b_.CreateICmpULT(unit, entry_.number(form_.units));
    Value* rest =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, unit, entry_.number(form_.units - 1));
    Value* batch = nullptr;
    Value* row = nullptr;
    if (form_.batch_first) {
      batch = entry_.split(&rest, p_.batch);
      row = rest;
    } else {
      row = times(entry_.split(&rest, row_groups), width);
      batch = rest;
    }
    const PlacePart place = place_of_row(row, batch);
    const std::vector<PlacePart> vectors = places_of_vectors(batch);
    make_sums(width);
    Value* first = p_.first_position(entry_, part);
    Value* end = p_.end_position(entry_, first);
    if (form_.splits > 1) {
      Value* size = b_.CreateSub(end, first);
      size = b_.CreateUDiv(plus(size, form_.splits - 1), entry_.number(form_.splits));
      first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end,
                                       b_.CreateAdd(first, b_.CreateMul(split, size)));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, b_.CreateAdd(first, size));
    }
    add_in_turns(
        first, b_.CreateSub(end, first), end, 1, kPositionsTogether,
        [&](Value* begin, std::int64_t together) {
          std::vector<Value*> pieces;
          std::vector<std::vector<Value*>> factors;
          for (std::int64_t u = 0; u < together; ++u) {
            Value* k = plus(begin, u);
            const PlacePart of_k = matrix_.part(entry_, p_.contraction.k, k);
            pieces.push_back(
                read(form_.matrix, matrix_, ArrayPlaces::sum(entry_, place, of_k), form_.width));
            const PlacePart for_vectors = vectors_.part(entry_, p_.contraction.k, k);
            factors.emplace_back();
            for (const PlacePart& vector : vectors) {
              factors.back().push_back(read(1 - form_.matrix, vectors_,
                                            ArrayPlaces::sum(entry_, vector, for_vectors), 1));
            }
          }
          for (std::int64_t i = 0; i < width; ++i) {
            for (std::int64_t v = 0; v < form_.vectors; ++v) {
              Value* total = b_.CreateLoad(p_.type(), sum(i, v));
              for (std::size_t u = 0; u < pieces.size(); ++u) {
                total = with_product(total, lane_of(b_, pieces[u], i), factors[u][at(v)]);
              }
              b_.CreateStore(total, sum(i, v));
            }
          }
        });
    if (form_.splits > 1) add_splits(split, own, units_of_block);
    ProductResults results(entry_, p_, batch, part, 1);
    Value* gives = exists;
    if (form_.splits > 1) gives = b_.CreateAnd(gives, b_.CreateIsNull(split));
    entry_.when(gives, [&] {
      for (std::int64_t i = 0; i < width; ++i) {
        for (std::int64_t v = 0; v < form_.vectors; ++v) {
          give(results, plus(row, i), v, b_.CreateLoad(p_.type(), sum(i, v)));
        }
      }
    });
    entry_.launch(p_.parts * blocks * kBlockThreads);
  }

  // Into the sums of the first split.
  void add_splits(Value* split, Value* own, std::int64_t units_of_block) {
    const std::int64_t turn = units_of_block * (form_.splits - 1);
    Value* memory = entry_.share(p_.type(), turn);
    const auto place = [&](Value* of_split) {
      Value* index =
          b_.CreateAdd(times(b_.CreateSub(of_split, entry_.number(1)), units_of_block), own);
      return b_.CreateGEP(p_.type(), memory, index);
    };
    for (Value* slot : sums_) {
      entry_.when(b_.CreateIsNotNull(split),
                  [&] { b_.CreateStore(b_.CreateLoad(p_.type(), slot), place(split)); });
      entry_.barrier();
      entry_.when(b_.CreateIsNull(split), [&] {
        Value* total = b_.CreateLoad(p_.type(), slot);
        for (std::int64_t s = 1; s < form_.splits; ++s) {
          total = added(total, b_.CreateLoad(p_.type(), place(entry_.number(s))));
        }
        b_.CreateStore(total, slot);
      });
      entry_.barrier();
    }
  }

  const Products& p_;
  const VectorForm& form_;
  const ArrayPlaces& matrix_;
  const ArrayPlaces& vectors_;
  GpuEntry entry_;
  llvm::IRBuilder<>& b_;
  std::vector<Value*> sums_;
};

}  // namespace

void write_vector_products(const Products& products) {
  VectorWriter(products, *products.vector).write();
}

}  // namespace plimsoll::jit
