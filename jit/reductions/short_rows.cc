// SPDX-License-Identifier: Apache-2.0
// Row kernels for rows of a few elements: a vector holds several rows, each in a segment of as many
// lanes as the reduction has, and what there is once a row stands in all lanes of its segment.
#include <algorithm>
#include <memory>

#include "jit/emit/elementwise.h"
#include "jit/emit/kernel_traits.h"
#include "jit/reductions/row_writer.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

// Vectors computed together, sweep by sweep: what waits in one of them leaves time for another.
constexpr int kShortVectorsTogether = 4;

// What writes the code of one vector.
struct VectorCode {
  VectorCode(RowPlan& plan, llvm::IRBuilder<>& builder, PhaseFunction& function,
             llvm::Value* first_row)
      : emitter(plan.graph, plan.space, builder, function, 1),
        stages(plan, builder, emitter, builder.getContext()),
        first_row(first_row) {}

  ValueEmitter emitter;
  RowStages stages;
  llvm::Value* first_row;
};

// Example: rows of 3 elements, whose reduction has 4 lanes. A vector of 16 lanes holds 4 rows, each
// in a segment of 4 lanes, the last of which repeats an element and counts for nothing:
//   lanes    0  1  2  3   4  5  6  7   8  9 10 11  12 13 14 15
//   row      r  r  r  r  +1 +1 +1 +1  +2 +2 +2 +2  +3 +3 +3 +3
//   element  0  1  2  -   0  1  2  -   0  1  2  -   0  1  2  -
// In memory the 12 elements lie side by side: one masked load, and a shuffle that spreads them. A
// reduction folds within segments (lane l takes in lane l + 2, then l + 1), and one shuffle copies
// the result to all lanes of its segment, where whatever follows finds it at its own place.
class ShortRows {
 public:
  ShortRows(RowPlan& plan, llvm::Module& module, const std::string& name)
      : plan_(plan),
        b_(module.getContext()),
        function_(PhaseFunction::create(module, name, b_)),
        minor_(static_cast<int>(plan.shape.minor)),
        segment_(static_cast<int>(plan.cut.lanes)),
        rows_(kRowWidth / segment_) {
    element_ = plan.space.add(plan.space.scale(plan.row, minor_), plan.lane);
  }

  std::int64_t units() const { return (plan_.shape.rows + rows_ - 1) / rows_; }
  int rows_per_unit() const { return rows_; }

  Status write() {
    const std::int64_t whole = plan_.shape.rows / rows_;
    const auto rest = static_cast<int>(plan_.shape.rows % rows_);
    llvm::Value* end =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, function_.end, number(whole));
    llvm::Value* begin = function_.begin;
    if (whole >= kShortVectorsTogether) {
      // No less than none: `end` lies before `begin` where only the rest is asked for.
      llvm::Value* count =
          b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(end, begin), number(0));
      llvm::Value* together = b_.CreateAdd(
          begin, b_.CreateSub(count, b_.CreateURem(count, number(kShortVectorsTogether))));
      Loop groups = Loop::open(b_, begin, together, kShortVectorsTogether);
      PLIMSOLL_RETURN_IF_ERROR(write_vectors(groups.variable, kShortVectorsTogether, rows_));
      groups.close(b_);
      begin = together;
    }
    Loop units = Loop::open(b_, begin, end, 1);
    PLIMSOLL_RETURN_IF_ERROR(write_vectors(units.variable, 1, rows_));
    units.close(b_);
    if (rest > 0) {
      auto* tail = llvm::BasicBlock::Create(b_.getContext(), "tail", function_.function);
      auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", function_.function);
      b_.CreateCondBr(b_.CreateICmpSGT(function_.end, number(whole)), tail, done);
      b_.SetInsertPoint(tail);
      PLIMSOLL_RETURN_IF_ERROR(write_vectors(number(whole), 1, rest));
      b_.CreateBr(done);
      b_.SetInsertPoint(done);
    }
    b_.CreateRetVoid();
    return ok_status();
  }

 private:
  llvm::Value* number(std::int64_t n) { return b_.getInt64(static_cast<std::uint64_t>(n)); }
  const KernelNode& root_node(int root) const { return plan_.graph.roots()[at(root)]; }
  // Which row and element lane `lane` stands for; idle lanes repeat one that exists.
  int row_of(int lane) const { return std::min(lane / segment_, count_ - 1); }
  int element_of(int lane) const { return lane % segment_ < minor_ ? lane % segment_ : 0; }

  template <typename F>
  llvm::Value* shuffled(llvm::Value* value, F lane_of) {
    std::vector<int> lanes;
    bool changes = false;
    for (int l = 0; l < kRowWidth; ++l) {
      lanes.push_back(lane_of(l));
      changes = changes || (lanes.back() >= 0 && lanes.back() != l);
    }
    return changes ? b_.CreateShuffleVector(value, lanes) : value;
  }

  template <typename F>
  llvm::Constant* constants(F value_of) {
    std::vector<llvm::Constant*> values;
    for (int l = 0; l < kRowWidth; ++l) values.push_back(value_of(l));
    return llvm::ConstantVector::get(values);
  }
  llvm::Constant* first_lanes(int count) {
    return constants([&](int l) { return b_.getInt1(l < count); });
  }

  llvm::Align alignment(ir::DType dtype) const {
    return llvm::Align(static_cast<std::uint64_t>(ir::dtype_bytes(dtype)));
  }

  // `count` elements of input `node` from `begin` on.
  llvm::Value* load(const KernelNode& node, llvm::Value* begin, int count) {
    const ir::DType dtype = node.dtype();
    llvm::Type* type = memory_type(b_.getContext(), dtype, kRowWidth);
    llvm::Value* address = b_.CreateInBoundsGEP(memory_type(b_.getContext(), dtype, 1),
                                                function_.input(node.input), begin);
    llvm::Value* value =
        count == kRowWidth
            ? static_cast<llvm::Value*>(b_.CreateAlignedLoad(type, address, alignment(dtype)))
            : b_.CreateMaskedLoad(type, address, alignment(dtype), first_lanes(count),
                                  llvm::Constant::getNullValue(type));
    return to_register(b_, value, dtype);
  }

  void store(int root, llvm::Value* begin, llvm::Value* value, int count) {
    const ir::DType dtype = root_node(root).dtype();
    llvm::Value* address =
        b_.CreateInBoundsGEP(memory_type(b_.getContext(), dtype, 1), function_.output(root), begin);
    value = to_memory(b_, value, dtype);
    if (count == kRowWidth) {
      b_.CreateAlignedStore(value, address, alignment(dtype));
    } else {
      b_.CreateMaskedStore(value, address, alignment(dtype), first_lanes(count));
    }
  }

  // Inputs that are read side by side are loaded whole and spread over the lanes.
  void load_inputs(VectorCode& code) {
    llvm::Value* first_row = code.first_row;
    for (const RowValue& read : plan_.inputs) {
      const Affine position = plan_.space.linearize(read.index, read.node.dims());
      llvm::Value* value = nullptr;
      if (position == element_) {
        value = load(read.node, b_.CreateMul(first_row, number(minor_)), count_ * minor_);
        value = shuffled(value, [&](int l) { return row_of(l) * minor_ + element_of(l); });
      } else if (position == plan_.row) {
        value = load(read.node, first_row, count_);
        value = shuffled(value, [&](int l) { return row_of(l); });
      } else if (position == plan_.lane) {
        value = load(read.node, number(0), minor_);
        value = shuffled(value, [&](int l) { return element_of(l); });
      } else {
        continue;
      }
      code.emitter.assume(read.node, read.index, value);
    }
  }

  // `vectors` vectors from number `first` on, with `count` rows each.
  Status write_vectors(llvm::Value* first, int vectors, int count) {
    count_ = count;
    std::vector<std::unique_ptr<VectorCode>> codes;
    for (int v = 0; v < vectors; ++v) {
      llvm::Value* row = b_.CreateMul(b_.CreateNSWAdd(first, number(v)), number(rows_));
      codes.push_back(std::make_unique<VectorCode>(plan_, b_, function_, row));
      open(*codes.back());
    }
    for (int s = 0; s + 1 < plan_.sweeps(); ++s) {
      std::vector<Values> totals(codes.size());
      for (std::size_t v = 0; v < codes.size(); ++v) {
        for (const int reduce : plan_.reduces[at(s)]) {
          totals[v].push_back(total(*codes[v], reduce));
        }
      }
      for (std::size_t v = 0; v < codes.size(); ++v) {
        codes[v]->stages.finish_sweep(s, totals[v]);
      }
    }
    for (const auto& code : codes) {
      write_results(*code);
      PLIMSOLL_RETURN_IF_ERROR(code->emitter.status());
    }
    return ok_status();
  }

  void open(VectorCode& code) {
    code.emitter.open_lanes(kRowWidth, kRowWidth);
    llvm::Constant* rows =
        constants([&](int l) { return b_.getInt64(static_cast<std::uint64_t>(row_of(l))); });
    code.emitter.bind_lanes(plan_.row,
                            b_.CreateAdd(b_.CreateVectorSplat(kRowWidth, code.first_row), rows));
    code.emitter.bind_lanes(plan_.lane, constants([&](int l) {
                              return b_.getInt64(static_cast<std::uint64_t>(element_of(l)));
                            }));
    load_inputs(code);
  }

  llvm::Value* total(VectorCode& code, int reduce) {
    RowStages& stages = code.stages;
    llvm::Value* value = stages.element(reduce, code.emitter);
    if (minor_ < segment_) {
      llvm::Constant* exists = constants([&](int l) { return b_.getInt1(l % segment_ < minor_); });
      value =
          b_.CreateSelect(exists, value, b_.CreateVectorSplat(kRowWidth, stages.identity(reduce)));
    }
    for (int half = segment_ / 2; half > 0; half /= 2) {
      llvm::Value* upper =
          shuffled(value, [&](int l) { return l % segment_ + half < segment_ ? l + half : l; });
      value = stages.combined(reduce, value, upper);
    }
    value = shuffled(value, [&](int l) { return l / segment_ * segment_; });
    return stages.combined(reduce, stages.initial(reduce), value);
  }

  void write_results(VectorCode& code) {
    Values full;
    for (const int root : plan_.stores.back()) {
      const KernelNode& node = root_node(root);
      full.push_back(code.emitter.widen(code.emitter.value(node, plan_.own_index(node.dims()))));
    }
    const auto once_a_row = code.stages.row_results();
    for (std::size_t i = 0; i < full.size(); ++i) {
      llvm::Value* value = shuffled(full[i], [&](int l) {
        return l < count_ * minor_ ? l / minor_ * segment_ + l % minor_ : -1;
      });
      store(plan_.stores.back()[i], b_.CreateMul(code.first_row, number(minor_)), value,
            count_ * minor_);
    }
    for (const auto& [root, result] : once_a_row) {
      llvm::Value* value = shuffled(code.emitter.widen(result),
                                    [&](int l) { return l < count_ ? l * segment_ : -1; });
      store(root, code.first_row, value, count_);
    }
  }

  RowPlan& plan_;
  llvm::IRBuilder<> b_;
  PhaseFunction function_;
  const int minor_, segment_, rows_;  // elements, lanes and rows of a vector
  int count_ = 0;                     // rows that exist
  Affine element_;
};

}  // namespace

Result<Phase> write_short_rows(RowPlan& plan, llvm::Module& module, const std::string& name) {
  ShortRows writer(plan, module, name);
  PLIMSOLL_RETURN_IF_ERROR(writer.write());
  Phase phase;
  phase.function = name;
  phase.units = writer.units();
  phase.unit_seconds = seconds_per_element(plan.graph) *
                           static_cast<double>(plan.shape.minor * writer.rows_per_unit()) +
                       2e-9;
  return phase;
}

}  // namespace plimsoll::jit
