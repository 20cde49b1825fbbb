// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <string>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_library.h"
#include "jit/gpu/gpu_tiles.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"
#include "runtime/ir/fusions/attention.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;
using Values = std::vector<Value*>;

constexpr std::int64_t kRow = kTile + kSkew;  // of a tile in shared memory
// Sums that a thread has beside its scores: so many columns of results at most.
constexpr std::int64_t kMostForward = 256, kMostBackward = 128;
// exp(x) is zero from here on down: 2^-150 rounds to zero.
constexpr float kZeroPower = -104;

// An array as one matrix [rows, columns] per head, where it lies.
struct HeadMatrix {
  int leaf = 0;
  bool is_result = false;
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;
  std::vector<std::int64_t> batch_strides;
};

HeadMatrix matrix_of(int leaf, bool is_result, const ir::Shape& shape, const ir::DimOrder& order) {
  const ir::Dims strides = ir::row_major_strides(shape.dims());
  const auto dim = [&](std::size_t i) { return static_cast<int>(order[i]); };
  const std::size_t batch = order.size() - 2;
  HeadMatrix matrix{leaf,
                    is_result,
                    shape.dtype(),
                    shape.dim(dim(batch)),
                    shape.dim(dim(batch + 1)),
                    strides[dim(batch)],
                    strides[dim(batch + 1)],
                    {}};
  for (std::size_t i = 0; i < batch; ++i) matrix.batch_strides.push_back(strides[dim(i)]);
  return matrix;
}

// Bias or mask: an array over some dims of the scores.
struct Extra {
  int operand = -1;  // -1: there is none
  DType dtype = DType::f32;
  std::vector<std::int64_t> batch_strides;
  std::int64_t query_stride = 0, key_stride = 0;
};

// The dim of a matrix that lies along a tile's side; the other one is summed over.
enum class Side : std::uint8_t { rows, columns };

// What one attention is, and the code that its entries share.
class Attention {
 public:
  Attention(GpuWriter& writer, ir::AttentionForm form, ir::AttentionSizes sizes)
      : writer_(writer), form_(std::move(form)), sizes_(std::move(sizes)) {
    for (const std::int64_t size : sizes_.batch) heads_ *= size;
    const auto operand = [&](int i, const ir::DimOrder& order) {
      return matrix_of(i, false, writer_.instruction.operand(i)->shape(), order);
    };
    query_ = operand(0, form_.query);
    key_ = operand(1, form_.key);
    value_ = operand(2, form_.value);
    if (form_.bias.has_value()) bias_ = extra(form_.bias_operand(), *form_.bias);
    if (form_.mask.has_value()) mask_ = extra(form_.mask_operand(), *form_.mask);
    const auto leaves = ir::leaves(writer_.instruction.shape());
    if (!form_.backward) {
      output_ = matrix_of(0, true, *leaves[0], form_.output);
      return;
    }
    first_ = form_.output_operand();
    output_ = operand(first_, form_.output);
    slope_ = operand(first_ + 1, form_.output_gradient);
    int leaf = 0;
    const auto gradient = [&](bool wanted, const ir::DimOrder& order) {
      if (!wanted) return HeadMatrix{};
      const int own = leaf++;
      return matrix_of(own, true, *leaves[at(own)], order);
    };
    query_gradient_ = gradient(form_.wants_query, form_.query_gradient);
    key_gradient_ = gradient(form_.wants_key, form_.key_gradient);
    value_gradient_ = gradient(form_.wants_value, form_.value_gradient);
  }

  void write() {
    if (!form_.backward) return write_forward();
    writer_.code.workspace_bytes =
        heads_ * sizes_.queries * static_cast<std::int64_t>(sizeof(float));
    write_deltas();
    if (form_.wants_query) write_query_gradient();
    if (form_.wants_key || form_.wants_value) write_key_gradients();
  }

 private:
  // An entry while it is written.
  struct Code {
    GpuEntry& entry;
    llvm::IRBuilder<>& b;
    Value* thread;  // in the block
    Value *m, *n;   // of the thread's first score in the tile
    Value* head;
    Value *left, *right;  // tiles in shared memory, [kDepth][kRow]
    Value* scores;        // [kTile][kRow], the second side of scores first
  };

  Extra extra(int operand, const std::vector<std::int64_t>& dims) const {
    const ir::Shape& shape = writer_.instruction.operand(operand)->shape();
    const ir::Dims strides = ir::row_major_strides(shape.dims());
    const std::size_t batch = sizes_.batch.size();
    Extra found{operand, shape.dtype(), std::vector<std::int64_t>(batch, 0), 0, 0};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const std::size_t d = at(dims[i]);
      std::int64_t& to = d < batch    ? found.batch_strides[d]
                         : d == batch ? found.query_stride
                                      : found.key_stride;
      to = strides[static_cast<int>(i)];
    }
    return found;
  }

  static Value* real(Code& c, double x) { return llvm::ConstantFP::get(c.b.getFloatTy(), x); }
  static Value* number(Code& c, std::int64_t n) { return c.entry.number(n); }
  static Value* plus(Code& c, Value* x, std::int64_t n) { return c.b.CreateAdd(x, number(c, n)); }
  Value* times(Code& c, Value* x, std::int64_t n) { return c.b.CreateMul(x, number(c, n)); }

  // `own_tile` is set to the tile that a block has, of `tiles` a head.
  Code open(GpuEntry& entry, std::int64_t tiles, Value** own_tile) {
    llvm::IRBuilder<>& b = entry.builder();
    Value* rest = entry.block_in_grid();
    *own_tile = b.CreateMul(entry.split(&rest, tiles), entry.number(kTile));
    Value* thread = b.CreateIntCast(entry.thread_in_block(), entry.index_type(), false);
    Value* m = thread;
    Value* n = b.CreateMul(entry.split(&m, kSide), entry.number(kOwn));
    m = b.CreateMul(m, entry.number(kOwn));
    llvm::Type* f32 = b.getFloatTy();
    return {entry,
            b,
            thread,
            m,
            n,
            rest,
            entry.share(f32, kDepth * kRow),
            entry.share(f32, kDepth * kRow),
            entry.share(f32, kTile * kRow)};
  }

  Value* offset_of(Code& c, Value* head, const std::vector<std::int64_t>& strides) {
    Value* rest = head;
    Value* offset = number(c, 0);
    for (std::size_t i = strides.size(); i-- > 0;) {
      Value* place = i == 0 ? rest : c.entry.split(&rest, sizes_.batch[i]);
      offset = c.b.CreateAdd(offset, times(c, place, strides[i]));
    }
    return offset;
  }
  Value* place(Code& c, const HeadMatrix& matrix, Value* base, Value* row, Value* column) {
    return c.b.CreateAdd(base, c.b.CreateAdd(times(c, row, matrix.row_stride),
                                             times(c, column, matrix.column_stride)));
  }
  Value* pointer(Code& c, const HeadMatrix& matrix) {
    return matrix.is_result ? c.entry.function().output(matrix.leaf)
                            : c.entry.function().input(matrix.leaf);
  }
  // As f32; zero where there is none.
  Value* read(Code& c, Value* base, DType dtype, Value* place, Value* exists) {
    Value* value = c.entry.load_element(base, dtype, c.b.CreateSelect(exists, place, number(c, 0)));
    return c.b.CreateSelect(exists, emit_convert(c.b, value, dtype, DType::f32), real(c, 0));
  }

  // kTile rows (or columns) from `first` on by kDepth of the other dim from `depth` on.
  Values read_tile(Code& c, const HeadMatrix& matrix, Value* base, Side side, Value* first,
                   Value* depth, Values& places) {
    // Neighbouring threads read neighbouring elements.
    const bool along_depth = (side == Side::rows) == (matrix.column_stride == 1);
    const std::int64_t sides = side == Side::rows ? matrix.rows : matrix.columns;
    const std::int64_t depths = side == Side::rows ? matrix.columns : matrix.rows;
    Values values;
    for (std::int64_t i = 0; i < kLoads; ++i) {
      Value* slow = plus(c, c.thread, i * kBlockThreads);
      Value* fast = c.entry.split(&slow, along_depth ? kDepth : kTile);
      Value* in_side = along_depth ? slow : fast;
      Value* in_depth = along_depth ? fast : slow;
      Value* s = c.b.CreateAdd(first, in_side);
      Value* d = c.b.CreateAdd(depth, in_depth);
      Value* exists = c.b.CreateAnd(c.b.CreateICmpULT(s, number(c, sides)),
                                    c.b.CreateICmpULT(d, number(c, depths)));
      Value* row = side == Side::rows ? s : d;
      Value* column = side == Side::rows ? d : s;
      values.push_back(
          read(c, pointer(c, matrix), matrix.dtype, place(c, matrix, base, row, column), exists));
      places.push_back(c.b.CreateAdd(times(c, in_depth, kRow), in_side));
    }
    return values;
  }
  void store_tile(Code& c, Value* memory, const Values& values, const Values& places) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      c.b.CreateStore(values[i], c.b.CreateInBoundsGEP(c.b.getFloatTy(), memory, places[i]));
    }
  }

  // `count` registers that start at zero.
  Values registers(Code& c, std::int64_t count, double value = 0) {
    llvm::IRBuilder<> start(c.entry.function().entry_anchor);
    Values made;
    for (std::int64_t i = 0; i < count; ++i) {
      made.push_back(start.CreateAlloca(c.b.getFloatTy()));
      start.CreateStore(real(c, value), made.back());
    }
    return made;
  }
  Value* load(Code& c, Value* slot) { return c.b.CreateLoad(c.b.getFloatTy(), slot); }

  // sums[4 i + j] += sum over kDepth positions of left[.][m + i] * right[.][n + j].
  void multiply(Code& c, Value* left, Value* right, const Value* const* sums) {
    auto* vector = llvm::FixedVectorType::get(c.b.getFloatTy(), kOwn);
    for (std::int64_t depth = 0; depth < kDepth; ++depth) {
      const auto four = [&](Value* memory, Value* first) {
        Value* from = c.b.CreateInBoundsGEP(c.b.getFloatTy(), memory, plus(c, first, depth * kRow));
        return c.b.CreateAlignedLoad(vector, from, llvm::Align(kGpuAlignment));
      };
      Value* x = four(left, c.m);
      Value* y = four(right, c.n);
      for (std::uint64_t i = 0; i < kOwn; ++i) {
        for (std::uint64_t j = 0; j < kOwn; ++j) {
          auto* slot = const_cast<Value*>(sums[i * kOwn + j]);
          Value* sum = c.b.CreateIntrinsic(
              llvm::Intrinsic::fma, {c.b.getFloatTy()},
              {c.b.CreateExtractElement(x, i), c.b.CreateExtractElement(y, j), load(c, slot)});
          c.b.CreateStore(sum, slot);
        }
      }
    }
  }

  // The products of the rows of two matrices, [kTile, kTile]: into `sums`, from zero on.
  void multiply_rows(Code& c, const HeadMatrix& left, Value* left_first, const HeadMatrix& right,
                     Value* right_first, const Values& sums) {
    for (Value* sum : sums) c.b.CreateStore(real(c, 0), sum);
    Value* left_base = offset_of(c, c.head, left.batch_strides);
    Value* right_base = offset_of(c, c.head, right.batch_strides);
    Loop depths = Loop::open(c.b, number(c, 0), number(c, left.columns), kDepth);
    Values left_places, right_places;
    const Values x =
        read_tile(c, left, left_base, Side::rows, left_first, depths.variable, left_places);
    const Values y =
        read_tile(c, right, right_base, Side::rows, right_first, depths.variable, right_places);
    store_tile(c, c.left, x, left_places);
    store_tile(c, c.right, y, right_places);
    c.entry.barrier();
    multiply(c, c.left, c.right, sums.data());
    c.entry.barrier();
    depths.close(c.b);
  }

  // sums += scores (as they lie in shared memory, their second side summed over) by the rows of a
  // matrix from `first` on; in groups of kTile columns.
  void multiply_scores(Code& c, const HeadMatrix& right, Value* first, const Values& sums) {
    Value* base = offset_of(c, c.head, right.batch_strides);
    Loop depths = Loop::open(c.b, number(c, 0), number(c, kTile), kDepth);
    Value* rows = c.b.CreateAdd(first, depths.variable);
    Value* left =
        c.b.CreateInBoundsGEP(c.b.getFloatTy(), c.scores, times(c, depths.variable, kRow));
    for (std::size_t group = 0; group * kOwn * kOwn < sums.size(); ++group) {
      Values places;
      Value* columns = number(c, static_cast<std::int64_t>(group) * kTile);
      const Values y = read_tile(c, right, base, Side::columns, columns, rows, places);
      store_tile(c, c.right, y, places);
      c.entry.barrier();
      multiply(c, left, c.right, sums.data() + group * kOwn * kOwn);
      c.entry.barrier();
    }
    depths.close(c.b);
  }
  static std::int64_t sums_of(std::int64_t columns) {
    return divide_up(columns, kTile) * kOwn * kOwn;
  }

  // The sums as rows from `first` on, each times factors[i].
  void write_sums(Code& c, const HeadMatrix& matrix, Value* first, const Values& sums,
                  const Values& factors) {
    Value* base = offset_of(c, c.head, matrix.batch_strides);
    for (std::size_t i = 0; i < kOwn; ++i) {
      Value* row = plus(c, c.b.CreateAdd(first, c.m), static_cast<std::int64_t>(i));
      c.entry.when(c.b.CreateICmpULT(row, number(c, matrix.rows)), [&] {
        for (std::size_t k = 0; k < sums.size() / kOwn; ++k) {
          const auto group = static_cast<std::int64_t>(k / kOwn);
          Value* column = plus(c, c.n, group * kTile + static_cast<std::int64_t>(k % kOwn));
          c.entry.when(c.b.CreateICmpULT(column, number(c, matrix.columns)), [&] {
            Value* sum = load(c, sums[k / kOwn * kOwn * kOwn + i * kOwn + k % kOwn]);
            if (!factors.empty()) sum = c.b.CreateFMul(sum, factors[i]);
            c.entry.store_element(pointer(c, matrix), matrix.dtype,
                                  place(c, matrix, base, row, column),
                                  emit_convert(c.b, sum, DType::f32, matrix.dtype));
          });
        }
      });
    }
  }

  struct Score {
    Value* value;
    Value* exists;
    Value* unseen;  // null: always seen
  };
  // Of a product: scaled, with bias and masks; undefined where there is none.
  Score score_of(Code& c, Value* product, Value* query, Value* key) {
    llvm::IRBuilder<>& b = c.b;
    Score score{product,
                b.CreateAnd(b.CreateICmpULT(query, number(c, sizes_.queries)),
                            b.CreateICmpULT(key, number(c, sizes_.keys))),
                nullptr};
    if (form_.scale != 1) score.value = b.CreateFMul(score.value, real(c, form_.scale));
    const auto read_extra = [&](const Extra& extra) {
      Value* from = b.CreateAdd(
          offset_of(c, c.head, extra.batch_strides),
          b.CreateAdd(times(c, query, extra.query_stride), times(c, key, extra.key_stride)));
      return c.entry.load_element(c.entry.function().input(extra.operand), extra.dtype,
                                  b.CreateSelect(score.exists, from, number(c, 0)));
    };
    if (bias_.operand >= 0) {
      Value* bias = emit_convert(b, read_extra(bias_), bias_.dtype, DType::f32);
      score.value = b.CreateFAdd(score.value, bias);
    }
    const auto hide = [&](Value* where) {
      score.unseen = score.unseen == nullptr ? where : b.CreateOr(score.unseen, where);
      score.value = b.CreateSelect(where, real(c, form_.fill), score.value);
    };
    if (mask_.operand >= 0) hide(b.CreateNot(read_extra(mask_)));
    if (form_.causal.has_value()) {
      hide(b.CreateICmpSGT(key, b.CreateAdd(query, number(c, *form_.causal))));
    }
    return score;
  }

  Value* exponential(Code& c, Value* x) {
    return emit_function(c.b, ir::Opcode::exponential, {x}, DType::f32);
  }
  // `f` over the threads that have scores of the same rows, in one order; all of them get it.
  template <typename F>
  Value* across(Code& c, Value* value, F f) {
    for (int offset = kSide / 2; offset > 0; offset /= 2) {
      value = f(value, c.entry.from_lane_above(value, offset, kSide));
    }
    return c.entry.from_lane(value, c.b.getInt32(0), kSide);
  }

  // Runs `f` for a tile of scores of queries from `query` on by keys from `key` on, unless no query
  // of it sees a key, and their powers are all zero beside the maxima, which `greatest` gives for
  // the thread's i-th query, `own` the first. The same for all threads of the block.
  template <typename Greatest, typename F>
  void unless_unseen(Code& c, Value* query, Value* key, Value* own, Greatest greatest, F f) {
    if (!form_.causal.has_value()) return f();
    llvm::IRBuilder<>& b = c.b;
    if (votes_ == nullptr) votes_ = c.entry.share(b.getInt32Ty(), 1);
    llvm::IRBuilder<> start(c.entry.function().entry_anchor);
    Value* skips = start.CreateAlloca(b.getInt32Ty());
    b.CreateStore(b.getInt32(0), skips);
    Value* is_unseen =
        b.CreateICmpSGT(key, b.CreateAdd(query, number(c, *form_.causal + kTile - 1)));
    c.entry.when(is_unseen, [&] {
      c.entry.when(b.CreateIsNull(c.thread), [&] { b.CreateStore(b.getInt32(1), votes_); });
      c.entry.barrier();
      Value* are_zero = b.getTrue();
      for (std::size_t i = 0; i < kOwn; ++i) {
        Value* number_of = plus(c, own, static_cast<std::int64_t>(i));
        Value* below = b.CreateFSub(real(c, form_.fill), greatest(i));
        Value* is_zero = b.CreateFCmpOLT(below, real(c, kZeroPower));
        Value* is_none = b.CreateICmpUGE(number_of, number(c, sizes_.queries));
        are_zero = b.CreateAnd(are_zero, b.CreateOr(is_zero, is_none));
      }
      c.entry.when(b.CreateNot(are_zero), [&] { b.CreateStore(b.getInt32(0), votes_); });
      c.entry.barrier();
      b.CreateStore(b.CreateLoad(b.getInt32Ty(), votes_), skips);
      c.entry.barrier();
    });
    c.entry.when(b.CreateIsNull(b.CreateLoad(b.getInt32Ty(), skips)), f);
  }

  // Softmax over tiles of keys with running maxima and sums, as kernels/cpu/attention has it.
  void write_forward() {
    const std::int64_t tiles = divide_up(sizes_.queries, kTile);
    GpuEntry entry(writer_, kBlockThreads);
    Value* query = nullptr;
    Code c = open(entry, tiles, &query);
    llvm::IRBuilder<>& b = c.b;
    const double lowest = -std::numeric_limits<double>::infinity();
    const Values products = registers(c, kOwn * kOwn);
    const Values output = registers(c, sums_of(sizes_.value_depth));
    const Values greatest = registers(c, kOwn, lowest), sums = registers(c, kOwn);
    Value* own = b.CreateAdd(query, c.m);
    Loop keys = Loop::open(b, number(c, 0), number(c, sizes_.keys), kTile);
    Value* key = keys.variable;
    unless_unseen(
        c, query, key, own, [&](std::size_t i) { return load(c, greatest[i]); },
        [&] {
          multiply_rows(c, query_, query, key_, key, products);
          for (std::size_t i = 0; i < kOwn; ++i) {
            Values scores;
            Value* most = real(c, lowest);
            const auto more = [&](Value* x, Value* y) {
              return b.CreateSelect(b.CreateFCmpOGE(x, y), x, y);
            };
            for (std::size_t j = 0; j < kOwn; ++j) {
              const Score score = score_of(
                  c, load(c, products[i * kOwn + j]), plus(c, own, static_cast<std::int64_t>(i)),
                  plus(c, b.CreateAdd(key, c.n), static_cast<std::int64_t>(j)));
              scores.push_back(b.CreateSelect(score.exists, score.value, real(c, lowest)));
              most = more(most, scores.back());
            }
            Value* before = load(c, greatest[i]);
            Value* now = more(before, across(c, most, more));
            // Without any score above -inf powers are zero, and not NaN, until a greater one comes.
            Value* shift = b.CreateSelect(b.CreateFCmpOEQ(now, real(c, lowest)), real(c, 0), now);
            Value* total = real(c, 0);
            for (std::size_t j = 0; j < kOwn; ++j) {
              Value* power = exponential(c, b.CreateFSub(scores[j], shift));
              store_score(c, j, i, power);
              total = b.CreateFAdd(total, power);
            }
            total = across(c, total, [&](Value* x, Value* y) { return b.CreateFAdd(x, y); });
            Value* correction = exponential(c, b.CreateFSub(before, shift));
            b.CreateStore(now, greatest[i]);
            b.CreateStore(b.CreateFAdd(b.CreateFMul(load(c, sums[i]), correction), total), sums[i]);
            for (std::size_t k = 0; k < output.size() / kOwn; ++k) {
              Value* slot = output[k / kOwn * kOwn * kOwn + i * kOwn + k % kOwn];
              b.CreateStore(b.CreateFMul(load(c, slot), correction), slot);
            }
          }
          entry.barrier();
          multiply_scores(c, value_, key, output);
        });
    keys.close(b);
    Values inverse;
    for (std::size_t i = 0; i < kOwn; ++i) {
      // Without any score above -inf there is no softmax: -inf - -inf.
      Value* most = load(c, greatest[i]);
      Value* is_infinite =
          b.CreateFCmpOEQ(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, most), real(c, -lowest));
      Value* sum =
          b.CreateSelect(is_infinite, llvm::ConstantFP::getNaN(b.getFloatTy()), load(c, sums[i]));
      b.CreateStore(sum, sums[i]);
      inverse.push_back(b.CreateFDiv(real(c, 1), sum));
    }
    write_sums(c, output_, query, output, inverse);
    if (form_.statistics) {
      entry.when(b.CreateIsNull(c.n), [&] {
        for (std::size_t i = 0; i < kOwn; ++i) {
          Value* row = plus(c, own, static_cast<std::int64_t>(i));
          entry.when(b.CreateICmpULT(row, number(c, sizes_.queries)), [&] {
            Value* to = b.CreateAdd(times(c, c.head, sizes_.queries), row);
            entry.store_element(entry.function().output(1), DType::f32, to, load(c, greatest[i]));
            entry.store_element(entry.function().output(2), DType::f32, to, load(c, sums[i]));
          });
        }
      });
    }
    entry.launch(heads_ * tiles * kBlockThreads);
  }

  // Score (m + i, n + j) of the tile lies at [n + j][m + i].
  void store_score(Code& c, std::size_t j, std::size_t i, Value* value) {
    Value* row = plus(c, c.n, static_cast<std::int64_t>(j));
    Value* to = c.b.CreateAdd(times(c, row, kRow), plus(c, c.m, static_cast<std::int64_t>(i)));
    c.b.CreateStore(value, c.b.CreateInBoundsGEP(c.b.getFloatTy(), c.scores, to));
  }

  // What belongs to a query, of those from `first` on: f32[batch.., t] arrays.
  struct OfQueries {
    Values greatest, inverse, delta;
  };
  OfQueries of_queries(Code& c, Value* first) {
    OfQueries found;
    for (std::size_t i = 0; i < kOwn; ++i) {
      Value* query = plus(c, first, static_cast<std::int64_t>(i));
      Value* exists = c.b.CreateICmpULT(query, number(c, sizes_.queries));
      Value* place = c.b.CreateAdd(times(c, c.head, sizes_.queries), query);
      const auto of = [&](Value* array) { return read(c, array, DType::f32, place, exists); };
      found.greatest.push_back(of(c.entry.function().input(first_ + 2)));
      Value* sum = of(c.entry.function().input(first_ + 3));
      found.inverse.push_back(
          c.b.CreateFDiv(real(c, 1), c.b.CreateSelect(exists, sum, real(c, 1))));
      found.delta.push_back(of(c.entry.function().workspace));
    }
    return found;
  }

  // The sums over columns of do * o, into the workspace. A thread a row.
  void write_deltas() {
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* thread = entry.thread();
    const std::int64_t rows = heads_ * sizes_.queries;
    Code c{entry, b, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
    Value* sum = registers(c, 1)[0];
    entry.when(b.CreateICmpULT(thread, entry.number(rows)), [&] {
      c.head = thread;
      Value* row = entry.split(&c.head, sizes_.queries);
      Value* output = offset_of(c, c.head, output_.batch_strides);
      Value* slope = offset_of(c, c.head, slope_.batch_strides);
      Loop columns = Loop::open(b, entry.number(0), entry.number(sizes_.value_depth), 1);
      const auto element = [&](const HeadMatrix& matrix, Value* base) {
        return read(c, pointer(c, matrix), matrix.dtype,
                    place(c, matrix, base, row, columns.variable), b.getTrue());
      };
      Value* next =
          b.CreateIntrinsic(llvm::Intrinsic::fma, {b.getFloatTy()},
                            {element(slope_, slope), element(output_, output), load(c, sum)});
      b.CreateStore(next, sum);
      columns.close(b);
      entry.store_element(entry.function().workspace, DType::f32, thread, load(c, sum));
    });
    entry.launch(rows);
  }

  struct Probability {
    Value *p, *slope;  // of the score, as gradient
  };
  Probability probability_of(Code& c, Value* product, Value* slope, Value* query, Value* key,
                             const OfQueries& of, std::size_t i) {
    llvm::IRBuilder<>& b = c.b;
    const Score score = score_of(c, product, query, key);
    Value* power = exponential(c, b.CreateFSub(score.value, of.greatest[i]));
    Probability found{b.CreateFMul(power, of.inverse[i]), nullptr};
    if (slope != nullptr) {
      Value* inner = b.CreateFMul(found.p, b.CreateFSub(slope, of.delta[i]));
      found.slope = b.CreateFMul(inner, real(c, form_.gradient_scale));
      Value* counts = score.unseen == nullptr
                          ? score.exists
                          : b.CreateAnd(score.exists, b.CreateNot(score.unseen));
      found.slope = b.CreateSelect(counts, found.slope, real(c, 0));
    }
    found.p = b.CreateSelect(score.exists, found.p, real(c, 0));
    return found;
  }

  // dq = ds k: a block a tile of queries.
  void write_query_gradient() {
    const std::int64_t tiles = divide_up(sizes_.queries, kTile);
    GpuEntry entry(writer_, kBlockThreads);
    Value* query = nullptr;
    Code c = open(entry, tiles, &query);
    llvm::IRBuilder<>& b = c.b;
    const Values products = registers(c, kOwn * kOwn), slopes = registers(c, kOwn * kOwn);
    const Values gradient = registers(c, sums_of(sizes_.depth));
    Value* own = b.CreateAdd(query, c.m);
    const OfQueries of = of_queries(c, own);
    Loop keys = Loop::open(b, number(c, 0), number(c, sizes_.keys), kTile);
    Value* key = keys.variable;
    const auto greatest = [&](std::size_t i) { return of.greatest[i]; };
    unless_unseen(c, query, key, own, greatest, [&] {
      multiply_rows(c, query_, query, key_, key, products);
      multiply_rows(c, slope_, query, value_, key, slopes);
      for (std::size_t i = 0; i < kOwn; ++i) {
        for (std::size_t j = 0; j < kOwn; ++j) {
          const Probability found =
              probability_of(c, load(c, products[i * kOwn + j]), load(c, slopes[i * kOwn + j]),
                             plus(c, own, static_cast<std::int64_t>(i)),
                             plus(c, b.CreateAdd(key, c.n), static_cast<std::int64_t>(j)), of, i);
          store_score(c, j, i, found.slope);
        }
      }
      entry.barrier();
      multiply_scores(c, key_, key, gradient);
    });
    keys.close(b);
    write_sums(c, query_gradient_, query, gradient, {});
    entry.launch(heads_ * tiles * kBlockThreads);
  }

  // dk = ds^T q and dv = p^T do: a block a tile of keys, whose threads have the keys' side first.
  void write_key_gradients() {
    const std::int64_t tiles = divide_up(sizes_.keys, kTile);
    GpuEntry entry(writer_, kBlockThreads);
    Value* key = nullptr;
    Code c = open(entry, tiles, &key);
    llvm::IRBuilder<>& b = c.b;
    const Values products = registers(c, kOwn * kOwn), slopes = registers(c, kOwn * kOwn);
    Values key_sums, value_sums;
    if (form_.wants_key) key_sums = registers(c, sums_of(sizes_.depth));
    if (form_.wants_value) value_sums = registers(c, sums_of(sizes_.value_depth));
    Loop queries = Loop::open(b, number(c, 0), number(c, sizes_.queries), kTile);
    Value* query = queries.variable;
    Value* own = b.CreateAdd(query, c.n);
    const OfQueries of = of_queries(c, own);
    const auto greatest = [&](std::size_t j) { return of.greatest[j]; };
    unless_unseen(c, query, key, own, greatest, [&] {
      multiply_rows(c, key_, key, query_, query, products);
      if (form_.wants_key) multiply_rows(c, value_, key, slope_, query, slopes);
      std::vector<Probability> found;
      for (std::size_t i = 0; i < kOwn; ++i) {
        for (std::size_t j = 0; j < kOwn; ++j) {
          Value* slope = form_.wants_key ? load(c, slopes[i * kOwn + j]) : nullptr;
          found.push_back(probability_of(
              c, load(c, products[i * kOwn + j]), slope, plus(c, own, static_cast<std::int64_t>(j)),
              plus(c, b.CreateAdd(key, c.m), static_cast<std::int64_t>(i)), of, j));
        }
      }
      const auto multiply_all = [&](Value* Probability::* which, const HeadMatrix& by,
                                    const Values& sums) {
        for (std::size_t i = 0; i < kOwn; ++i) {
          for (std::size_t j = 0; j < kOwn; ++j) store_score(c, j, i, found[i * kOwn + j].*which);
        }
        entry.barrier();
        multiply_scores(c, by, query, sums);
      };
      if (form_.wants_value) multiply_all(&Probability::p, slope_, value_sums);
      if (form_.wants_key) multiply_all(&Probability::slope, query_, key_sums);
    });
    queries.close(b);
    if (form_.wants_key) write_sums(c, key_gradient_, key, key_sums, {});
    if (form_.wants_value) write_sums(c, value_gradient_, key, value_sums, {});
    entry.launch(heads_ * tiles * kBlockThreads);
  }

  GpuWriter& writer_;
  const ir::AttentionForm form_;
  const ir::AttentionSizes sizes_;
  HeadMatrix query_, key_, value_, output_, slope_;
  HeadMatrix query_gradient_, key_gradient_, value_gradient_;
  Extra bias_, mask_;
  std::int64_t heads_ = 1;
  int first_ = 0;  // backward: the operands o, do, max, sum
  Value* votes_ = nullptr;
};

}  // namespace

Status write_gpu_attention(GpuWriter& writer) {
  const ir::Instruction& instruction = writer.instruction;
  const auto form = ir::read_attention(instruction);
  if (!form.has_value()) return refuse(instruction, "is not the attention that it says");
  std::vector<ir::Shape> shapes;
  for (const ir::Instruction* operand : instruction.operands()) shapes.push_back(operand->shape());
  PLIMSOLL_ASSIGN_OR_RETURN(const ir::AttentionSizes sizes, ir::attention_sizes(*form, shapes));
  const std::int64_t most = form->backward ? kMostBackward : kMostForward;
  const std::int64_t columns =
      form->backward ? std::max(sizes.depth, sizes.value_depth) : sizes.value_depth;
  if (columns > most) {
    return refuse(instruction, "has heads of " + std::to_string(columns) + " columns (" +
                                   std::to_string(most) + " are the most)");
  }
  bool is_empty = sizes.queries * sizes.keys * sizes.depth * sizes.value_depth == 0;
  for (const std::int64_t size : sizes.batch) is_empty = is_empty || size == 0;
  if (is_empty) return refuse(instruction, "is of empty arrays");
  writer.code.name = form->backward ? "attention.backward" : "attention.forward";
  Attention(writer, *form, sizes).write();
  return ok_status();
}

}  // namespace plimsoll::jit
