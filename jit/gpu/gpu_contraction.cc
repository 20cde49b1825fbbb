// SPDX-License-Identifier: Apache-2.0
#include "jit/gpu/gpu_contraction.h"

#include <algorithm>
#include <map>

#include "jit/emit/elementwise.h"
#include "jit/gpu/gpu_tiles.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

// Fewer blocks than that are made more by cutting the contracted positions, in parts of kLeastPart
// at least.
constexpr std::int64_t kFewBlocks = 128, kManyBlocks = 256, kLeastPart = 512;

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

class ContractionWriter {
 public:
  ContractionWriter(GpuWriter& writer, const Contraction& contraction)
      : writer_(writer),
        c_(contraction),
        dtype_(accumulator_of(writer.instruction)),
        batch_(c_.extent(c_.batch)),
        m_(c_.extent(c_.m)),
        n_(c_.extent(c_.n)),
        k_(c_.extent(c_.k)),
        m_tiles_(divide_up(m_, kTile)),
        n_tiles_(divide_up(n_, kTile)) {
    const std::int64_t blocks = batch_ * m_tiles_ * n_tiles_;
    std::int64_t parts = 1;
    if (blocks < kFewBlocks && k_ >= 2 * kLeastPart) {
      parts = std::min(divide_up(kManyBlocks, blocks), k_ / kLeastPart);
    }
    part_ = std::max<std::int64_t>(divide_up(divide_up(k_, parts), kDepth) * kDepth, kDepth);
    parts_ = std::max<std::int64_t>(divide_up(k_, part_), 1);
    if (parts_ > 1) {
      writer.code.workspace_bytes = parts_ * batch_ * m_ * n_ * ir::dtype_bytes(dtype_);
    }
  }

  Status write() {
    write_products();
    if (parts_ > 1) write_sums();
    return ok_status();
  }

 private:
  using Digits = std::map<int, Value*>;

  // An array as the threads of an entry read it.
  struct Place {
    Value* offset = nullptr;
    Value* exists = nullptr;  // null: always
  };

  // The digits of `number`, which lose the highest one's limit where it is out of range.
  void split(GpuEntry& entry, Value* number, const std::vector<int>& which, Digits& digits) {
    Value* rest = number;
    for (std::size_t i = which.size(); i-- > 0;) {
      digits[which[i]] = i == 0 ? rest : entry.split(&rest, c_.digits[at(which[i])]);
    }
  }

  static Value* both(llvm::IRBuilder<>& b, Value* x, Value* y) {
    if (x == nullptr || y == nullptr) return x == nullptr ? y : x;
    return b.CreateAnd(x, y);
  }

  Place place(GpuEntry& entry, const std::vector<ContractedDimension>& array,
              const Digits& digits) {
    llvm::IRBuilder<>& b = entry.builder();
    Place result{entry.number(0), nullptr};
    for (const ContractedDimension& dimension : array) {
      Value* x = entry.number(dimension.constant);
      std::int64_t lowest = dimension.constant, highest = dimension.constant;
      for (const auto& [digit, factor] : dimension.terms) {
        const std::int64_t most = (c_.digits[at(digit)] - 1) * factor;
        (most < 0 ? lowest : highest) += most;
        x = b.CreateAdd(x, b.CreateMul(digits.at(digit), entry.number(factor)));
      }
      const std::int64_t last = (dimension.size - 1) * dimension.divisor;
      if (lowest < 0 || highest > last) {
        result.exists = both(b, result.exists, b.CreateICmpULE(x, entry.number(last)));
      }
      if (dimension.divisor > 1) {
        Value* rest = b.CreateURem(x, entry.number(dimension.divisor));
        result.exists = both(b, result.exists, b.CreateIsNull(rest));
        x = b.CreateUDiv(x, entry.number(dimension.divisor));
      }
      result.offset = b.CreateAdd(result.offset, b.CreateMul(x, entry.number(dimension.stride)));
    }
    return result;
  }

  // Element `place` of input `input` as the accumulator's dtype; zero where there is none.
  Value* read(GpuEntry& entry, int input, const Place& place) {
    llvm::IRBuilder<>& b = entry.builder();
    const DType from = writer_.instruction.operand(input)->shape().dtype();
    Value* offset = place.exists == nullptr
                        ? place.offset
                        : b.CreateSelect(place.exists, place.offset, entry.number(0));
    llvm::Type* type = memory_type(b.getContext(), from, 1);
    Value* loaded =
        b.CreateLoad(type, b.CreateInBoundsGEP(type, entry.function().input(input), offset));
    Value* value = emit_convert(b, to_register(b, loaded, from), from, dtype_);
    if (place.exists == nullptr) return value;
    return b.CreateSelect(place.exists, value, llvm::Constant::getNullValue(value->getType()));
  }

  // True where neighbouring elements of the array differ in the last digit of `which`.
  static bool runs_along(const std::vector<ContractedDimension>& array,
                         const std::vector<int>& which) {
    return std::any_of(array.begin(), array.end(), [&](const ContractedDimension& dimension) {
      return dimension.stride == 1 && dimension.divisor == 1 && dimension.size > 1 &&
             std::any_of(dimension.terms.begin(), dimension.terms.end(), [&](const auto& term) {
               return std::find(which.begin(), which.end(), term.first) != which.end();
             });
    });
  }

  // How the threads of a block bring a tile of one operand into shared memory: `row` along the
  // tile's side, `depth` along the contracted positions.
  struct Loader {
    int input = 0;
    const std::vector<ContractedDimension>* array = nullptr;
    const std::vector<int>* side = nullptr;
    std::int64_t extent = 0;
    Value* memory = nullptr;
    std::vector<Value*> rows, depths;  // of each load of a thread, in the tile
    std::vector<Digits> digits;        // of batch and row
    std::vector<Value*> exists;        // of the row; null: always
  };

  Loader make_loader(GpuEntry& entry, int input, const std::vector<ContractedDimension>& array,
                     const std::vector<int>& side, std::int64_t extent, Value* first,
                     const Digits& batch) {
    llvm::IRBuilder<>& b = entry.builder();
    Loader loader{input, &array, &side, extent, entry.share(type(), kDepth * (kTile + kSkew)),
                  {},    {},     {},    {}};
    Value* thread = b.CreateIntCast(entry.thread_in_block(), entry.index_type(), false);
    const bool along_depth = !runs_along(array, side) && runs_along(array, c_.k);
    const std::int64_t run = along_depth ? kDepth : kTile;
    for (std::int64_t i = 0; i < kLoads; ++i) {
      Value* other = b.CreateAdd(thread, entry.number(i * kBlockThreads));
      Value* fast = entry.split(&other, run);
      Value* row = along_depth ? other : fast;
      loader.rows.push_back(row);
      loader.depths.push_back(along_depth ? fast : other);
      Value* place = b.CreateAdd(first, row);
      Digits digits = batch;
      split(entry, place, side, digits);
      loader.digits.push_back(std::move(digits));
      loader.exists.push_back(extent % kTile == 0 ? nullptr
                                                  : b.CreateICmpULT(place, entry.number(extent)));
    }
    return loader;
  }

  void load_tile(GpuEntry& entry, const Loader& loader, Value* k, Value* k_end) {
    llvm::IRBuilder<>& b = entry.builder();
    std::vector<Value*> values;
    for (std::size_t i = 0; i < loader.rows.size(); ++i) {
      Digits digits = loader.digits[i];
      Value* position = b.CreateAdd(k, loader.depths[i]);
      split(entry, position, c_.k, digits);
      Place from = place(entry, *loader.array, digits);
      from.exists = both(b, from.exists, loader.exists[i]);
      from.exists = both(b, from.exists, b.CreateICmpULT(position, k_end));
      values.push_back(read(entry, loader.input, from));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value* place =
          b.CreateAdd(b.CreateMul(loader.depths[i], entry.number(kTile + kSkew)), loader.rows[i]);
      b.CreateStore(values[i], b.CreateInBoundsGEP(type(), loader.memory, place));
    }
  }

  llvm::Type* type() { return register_type(writer_.code.module->getContext(), dtype_, 1); }

  Value* with_product(llvm::IRBuilder<>& b, Value* sum, Value* x, Value* y) {
    if (!ir::is_floating(dtype_)) return b.CreateAdd(sum, b.CreateMul(x, y));
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {type()}, {x, y, sum});
  }

  void store(GpuEntry& entry, const Digits& digits, Value* value) {
    llvm::IRBuilder<>& b = entry.builder();
    const DType to = writer_.instruction.shape().dtype();
    llvm::Type* element = memory_type(b.getContext(), to, 1);
    Value* address = b.CreateInBoundsGEP(element, entry.function().output(0),
                                         place(entry, c_.out, digits).offset);
    b.CreateStore(to_memory(b, emit_convert(b, value, dtype_, to), to), address);
  }

  // Part `part` of result (batch, m, n) in the workspace.
  Value* partial(GpuEntry& entry, Value* part, Value* result) {
    llvm::IRBuilder<>& b = entry.builder();
    Value* place =
        b.CreateAdd(b.CreateMul(b.CreateZExt(part, b.getInt64Ty()),
                                b.getInt64(static_cast<std::uint64_t>(batch_ * m_ * n_))),
                    b.CreateZExt(result, b.getInt64Ty()));
    return b.CreateInBoundsGEP(type(), entry.function().workspace, place);
  }

  void write_products() {
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* rest = entry.block_in_grid();
    Value* n_first = b.CreateMul(entry.split(&rest, n_tiles_), entry.number(kTile));
    Value* m_first = b.CreateMul(entry.split(&rest, m_tiles_), entry.number(kTile));
    Value* batch = entry.split(&rest, batch_);
    Value* part = rest;
    Value* k_first = b.CreateMul(part, entry.number(part_));
    Value* k_end = parts_ == 1 ? static_cast<Value*>(entry.number(k_))
                               : b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, entry.number(k_),
                                                         b.CreateAdd(k_first, entry.number(part_)));
    Digits of_batch;
    split(entry, batch, c_.batch, of_batch);
    const Loader lhs = make_loader(entry, 0, c_.lhs, c_.m, m_, m_first, of_batch);
    const Loader rhs = make_loader(entry, 1, c_.rhs, c_.n, n_, n_first, of_batch);
    Value* thread = b.CreateIntCast(entry.thread_in_block(), entry.index_type(), false);
    Value* m_own = thread;
    Value* n_own = b.CreateMul(entry.split(&m_own, kSide), entry.number(kOwn));
    m_own = b.CreateMul(m_own, entry.number(kOwn));

    llvm::IRBuilder<> start(entry.function().entry_anchor);
    std::vector<Value*> sums;
    for (std::int64_t i = 0; i < kOwn * kOwn; ++i) {
      sums.push_back(start.CreateAlloca(type()));
      start.CreateStore(llvm::Constant::getNullValue(type()), sums.back());
    }
    auto* vector = llvm::FixedVectorType::get(type(), kOwn);
    Loop depths = Loop::open(b, k_first, k_end, kDepth);
    load_tile(entry, lhs, depths.variable, k_end);
    load_tile(entry, rhs, depths.variable, k_end);
    entry.barrier();
    for (std::int64_t depth = 0; depth < kDepth; ++depth) {
      const auto four = [&](const Loader& loader, Value* first) {
        Value* place = b.CreateAdd(first, entry.number(depth * (kTile + kSkew)));
        return b.CreateAlignedLoad(vector, b.CreateInBoundsGEP(type(), loader.memory, place),
                                   llvm::Align(kGpuAlignment));
      };
      Value* left = four(lhs, m_own);
      Value* right = four(rhs, n_own);
      for (std::int64_t i = 0; i < kOwn; ++i) {
        Value* x = b.CreateExtractElement(left, static_cast<std::uint64_t>(i));
        for (std::int64_t j = 0; j < kOwn; ++j) {
          Value* y = b.CreateExtractElement(right, static_cast<std::uint64_t>(j));
          Value* slot = sums[at(i * kOwn + j)];
          b.CreateStore(with_product(b, b.CreateLoad(type(), slot), x, y), slot);
        }
      }
    }
    entry.barrier();
    depths.close(b);

    for (std::int64_t i = 0; i < kOwn; ++i) {
      Value* m = b.CreateAdd(b.CreateAdd(m_first, m_own), entry.number(i));
      entry.when(b.CreateICmpULT(m, entry.number(m_)), [&] {
        for (std::int64_t j = 0; j < kOwn; ++j) {
          Value* n = b.CreateAdd(b.CreateAdd(n_first, n_own), entry.number(j));
          entry.when(b.CreateICmpULT(n, entry.number(n_)), [&] {
            Value* sum = b.CreateLoad(type(), sums[at(i * kOwn + j)]);
            if (parts_ > 1) {
              Value* row = b.CreateAdd(b.CreateMul(batch, entry.number(m_)), m);
              Value* result = b.CreateAdd(b.CreateMul(row, entry.number(n_)), n);
              b.CreateStore(sum, partial(entry, part, result));
              return;
            }
            Digits digits = of_batch;
            split(entry, m, c_.m, digits);
            split(entry, n, c_.n, digits);
            store(entry, digits, sum);
          });
        }
      });
    }
    entry.launch(parts_ * batch_ * m_tiles_ * n_tiles_ * kBlockThreads);
  }

  void write_sums() {
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    const std::int64_t results = batch_ * m_ * n_;
    Value* result = entry.thread();
    entry.when(b.CreateICmpULT(result, entry.number(results)), [&] {
      Value* sum = b.CreateLoad(type(), partial(entry, entry.number(0), result));
      llvm::BasicBlock* before = b.GetInsertBlock();
      Loop parts = Loop::open(b, entry.number(1), entry.number(parts_), 1);
      auto* running = b.CreatePHI(type(), 2);
      running->addIncoming(sum, before);
      Value* next = b.CreateLoad(type(), partial(entry, parts.variable, result));
      Value* total =
          ir::is_floating(dtype_) ? b.CreateFAdd(running, next) : b.CreateAdd(running, next);
      running->addIncoming(total, b.GetInsertBlock());
      parts.close(b);
      auto* end = b.CreatePHI(type(), 2);
      end->addIncoming(sum, before);
      end->addIncoming(total, parts.variable->getParent());
      Value* rest = result;
      Value* n = entry.split(&rest, n_);
      Value* m = entry.split(&rest, m_);
      Digits digits;
      split(entry, rest, c_.batch, digits);
      split(entry, m, c_.m, digits);
      split(entry, n, c_.n, digits);
      store(entry, digits, end);
    });
    entry.launch(results);
  }

  GpuWriter& writer_;
  const Contraction& c_;
  const DType dtype_;
  const std::int64_t batch_, m_, n_, k_, m_tiles_, n_tiles_;
  std::int64_t part_ = 0, parts_ = 1;
};

}  // namespace

std::int64_t Contraction::extent(const std::vector<int>& of) const {
  std::int64_t product = 1;
  for (const int digit : of) product *= digits[at(digit)];
  return product;
}

Status write_gpu_contraction(GpuWriter& writer, const Contraction& contraction) {
  const ir::Instruction& instruction = writer.instruction;
  for (const ir::Shape* shape :
       {&instruction.operand(0)->shape(), &instruction.operand(1)->shape(), &instruction.shape()}) {
    if (shape->dtype() == DType::pred) return refuse(instruction, "is of truth values");
  }
  if (instruction.shape().element_count() == 0) return ok_status();
  return ContractionWriter(writer, contraction).write();
}

}  // namespace plimsoll::jit
