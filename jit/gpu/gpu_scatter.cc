// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "jit/emit/elementwise.h"
#include "jit/emit/scalar_computation.h"
#include "jit/gpu/gpu_library.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;

// Blocks that a scatter is shared out to, if there are elements for so many.
constexpr std::int64_t kScatterBlocks = 1024;
// Marks that are looked at together, in one register.
constexpr std::int64_t kMarks = 8;

bool is_in(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Updates of one element of the operand are combined in the order of the updates, whatever runs
// beside them. So threads share out the operand, and all updates are gone over for each share:
// - windows that differ or are the same one (only dimensions of extent 1 are indexed): a block has
//   a range of the operand. Its threads look where 256 windows start, one each, and mark those that
//   start in the range; then all go over the marks, eight at a time, and take in what is marked,
//   each at its places in the window. Several small windows' threads fit into a block, each with
//   its share of the range;
// - windows that may overlap, in the updates' own order: a thread has one element of the operand,
//   and finds its place in each window;
// - windows that may overlap with batch dimensions inside of them: one thread does all.
//
// Example: the gradient of an embedding, f32[50257,768], 8,192 updates of rows: 1,024 blocks have
// 49 rows each, and a thread three places in them; it reads 32 times 32 registers of marks, and
// takes in some eight updates.
class ScatterWriter {
 public:
  explicit ScatterWriter(GpuWriter& writer)
      : writer_(writer),
        instruction_(writer.instruction),
        numbers_(*instruction_.attributes().scatter),
        count_(instruction_.operand_count() / 2),
        operand_(instruction_.operand(0)->shape()),
        indices_(instruction_.operand(count_)->shape()),
        updates_(instruction_.operand(count_ + 1)->shape()) {
    const ir::Dims strides = ir::row_major_strides(operand_.dims());
    const ir::Dims update_strides = ir::row_major_strides(updates_.dims());
    std::size_t next = 0;
    for (int d = 0; d < operand_.rank(); ++d) {
      Axis axis{1, strides[d], 0, d, operand_.dim(d)};
      if (!is_in(numbers_.inserted_window_dims, d) && !is_in(numbers_.input_batching_dims, d)) {
        const auto from = static_cast<int>(numbers_.update_window_dims[next++]);
        axis.extent = updates_.dim(from);
        axis.update_stride = update_strides[from];
      }
      if (is_in(numbers_.scatter_dims_to_operand_dims, d) && axis.extent != 1) disjoint_ = false;
      fits_ = fits_ && axis.extent <= axis.operand_size;
      window_ *= axis.extent;
      axes_.push_back(axis);
    }
    std::int64_t last_batch = -1;
    for (int d = 0; d < updates_.rank(); ++d) {
      if (is_in(numbers_.update_window_dims, d)) continue;
      batches_.push_back({updates_.dim(d), update_strides[d]});
      batch_ *= updates_.dim(d);
      last_batch = d;
    }
    window_minor_ =
        numbers_.update_window_dims.empty() || numbers_.update_window_dims.front() > last_batch;
  }

  Status write() {
    for (int i = 0; i < count_; ++i) write_copy(i);
    if (!fits_ || updates_.element_count() == 0 || operand_.element_count() == 0) {
      return ok_status();
    }
    if (disjoint_) return write_shares();
    return window_minor_ ? write_elements() : write_in_order();
  }

 private:
  struct Axis {
    std::int64_t extent, stride, update_stride;
    int dimension;
    std::int64_t operand_size;
  };
  struct Batch {
    std::int64_t size, update_stride;
  };
  // Where a window lies: its start in every dimension of the operand, if it lies inside.
  struct Window {
    std::vector<Value*> starts;
    Value* start = nullptr;  // as a position
    Value* is_inside = nullptr;
    Value* updates = nullptr;  // where its updates begin
  };

  DType dtype(int i) const { return instruction_.operand(i)->shape().dtype(); }

  // The operand, where the result is not in its buffer.
  void write_copy(int i) {
    const std::int64_t elements = operand_.element_count();
    if (elements == 0) return;
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* thread = entry.thread();
    entry.when(b.CreateICmpULT(thread, entry.number(elements)), [&] {
      llvm::Type* type = memory_type(b.getContext(), dtype(i), 1);
      Value* from = b.CreateInBoundsGEP(type, entry.function().input(i), thread);
      b.CreateStore(b.CreateLoad(type, from),
                    b.CreateInBoundsGEP(type, entry.function().output(i), thread));
    });
    GpuLaunch& launch = entry.launch(elements);
    launch.unless_input = writer_.inputs[at(i)];
    launch.unless_output = writer_.outputs[at(i)];
  }

  Value* add(GpuEntry& entry, Value* sum, Value* x, std::int64_t factor) {
    llvm::IRBuilder<>& b = entry.builder();
    if (factor == 0) return sum;
    return b.CreateAdd(sum, b.CreateMul(x, entry.number(factor)));
  }

  // The window of batch position `batch`. An index is compared as it is, so that none wraps.
  Window window_of(GpuEntry& entry, Value* batch) {
    llvm::IRBuilder<>& b = entry.builder();
    std::vector<Value*> places(batches_.size());
    Value* rest = batch;
    for (std::size_t i = batches_.size(); i-- > 0;) {
      places[i] = i == 0 ? rest : entry.split(&rest, batches_[i].size);
    }
    Window window;
    window.updates = entry.number(0);
    for (std::size_t i = 0; i < places.size(); ++i) {
      window.updates = add(entry, window.updates, places[i], batches_[i].update_stride);
    }
    // The indices' dimensions are the batch's with the vector's put in.
    const ir::Dims strides = ir::row_major_strides(indices_.dims());
    Value* vector = entry.number(0);
    std::int64_t vector_stride = 0;
    std::vector<Value*> of_dimension(at(indices_.rank()));
    std::size_t next = 0;
    for (int d = 0; d < indices_.rank(); ++d) {
      if (d == numbers_.index_vector_dim) {
        vector_stride = strides[d];
        continue;
      }
      of_dimension[at(d)] = places[next];
      vector = add(entry, vector, places[next++], strides[d]);
    }
    window.starts.assign(axes_.size(), entry.number(0));
    for (std::size_t i = 0; i < numbers_.input_batching_dims.size(); ++i) {
      window.starts[at(numbers_.input_batching_dims[i])] =
          of_dimension[at(numbers_.scatter_indices_batching_dims[i])];
    }
    llvm::Type* type = memory_type(b.getContext(), indices_.dtype(), 1);
    const bool is_signed = ir::dtype_class(indices_.dtype()) == ir::DTypeClass::signed_int;
    for (std::size_t i = 0; i < numbers_.scatter_dims_to_operand_dims.size(); ++i) {
      const std::int64_t d = numbers_.scatter_dims_to_operand_dims[i];
      if (is_in(numbers_.input_batching_dims, d)) continue;
      Value* place =
          b.CreateAdd(vector, entry.number(static_cast<std::int64_t>(i) * vector_stride));
      Value* index =
          b.CreateLoad(type, b.CreateInBoundsGEP(type, entry.function().input(count_), place));
      index = b.CreateIntCast(index, b.getInt64Ty(), is_signed);
      const Axis& axis = axes_[at(d)];
      Value* inside = b.CreateICmpULE(
          index, b.getInt64(static_cast<std::uint64_t>(axis.operand_size - axis.extent)));
      window.is_inside =
          window.is_inside == nullptr ? inside : b.CreateAnd(window.is_inside, inside);
      window.starts[at(d)] = b.CreateIntCast(index, entry.index_type(), true);
    }
    window.start = entry.number(0);
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      window.start = add(entry, window.start, window.starts[i], axes_[i].stride);
    }
    if (window.is_inside == nullptr) window.is_inside = b.getTrue();
    return window;
  }

  // Combines update `from` into element `to` of every result.
  void combine(GpuEntry& entry, Value* to, Value* from) {
    llvm::IRBuilder<>& b = entry.builder();
    const auto address = [&](Value* base, DType dtype, Value* place) {
      return b.CreateInBoundsGEP(memory_type(b.getContext(), dtype, 1), base, place);
    };
    const auto load = [&](Value* where, DType dtype) {
      return to_register(b, b.CreateLoad(memory_type(b.getContext(), dtype, 1), where), dtype);
    };
    const ir::Computation& computation = *instruction_.to_apply();
    std::vector<Value*> addresses, arguments;
    for (int i = 0; i < count_; ++i) {
      addresses.push_back(address(entry.function().output(i), dtype(i), to));
      arguments.push_back(load(addresses.back(), dtype(i)));
    }
    for (int i = 0; i < count_; ++i) {
      arguments.push_back(
          load(address(entry.function().input(count_ + 1 + i), dtype(i), from), dtype(i)));
    }
    auto results = apply_scalars(b, computation, arguments);
    if (!results.ok()) {
      status_ = results.status();
      return;
    }
    for (int i = 0; i < count_; ++i) {
      b.CreateStore(to_memory(b, (*results)[at(i)], dtype(i)), addresses[at(i)]);
    }
  }

  // Windows start at multiples of it.
  std::int64_t between_starts() const {
    std::int64_t step = 0;
    for (const Axis& axis : axes_) {
      if (is_in(numbers_.scatter_dims_to_operand_dims, axis.dimension) ||
          is_in(numbers_.input_batching_dims, axis.dimension)) {
        step = std::gcd(step, axis.stride);
      }
    }
    return step == 0 ? operand_.element_count() : step;
  }

  // Where places of a window lie in the operand, and in the updates.
  std::pair<Value*, Value*> offsets(GpuEntry& entry, Value* place) {
    Value* to = entry.number(0);
    Value* from = entry.number(0);
    for (std::size_t i = axes_.size(); i-- > 0;) {
      Value* along = entry.split(&place, axes_[i].extent);
      to = add(entry, to, along, axes_[i].stride);
      from = add(entry, from, along, axes_[i].update_stride);
    }
    return {to, from};
  }

  Status write_shares() {
    constexpr std::int64_t kThreads = kBlockThreads;
    const std::int64_t columns = std::min(window_, kThreads), slots = kThreads / columns;
    const std::int64_t places = divide_up(operand_.element_count(), between_starts());
    const std::int64_t share =
        divide_up(places, std::min(kScatterBlocks * slots, places)) * between_starts();
    const std::int64_t range = share * slots;
    const std::int64_t blocks = divide_up(operand_.element_count(), range);
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    llvm::Type* type = entry.index_type();
    Value* starts = entry.share(type, kThreads);
    Value* updates = entry.share(type, kThreads);
    Value* marks = entry.share(b.getInt8Ty(), kThreads);
    const auto at_place = [&](llvm::Type* of, Value* base, Value* place) {
      return b.CreateInBoundsGEP(of, base, place);
    };
    Value* thread = b.CreateIntCast(entry.thread_in_block(), type, false);
    Value* first = b.CreateMul(entry.block_in_grid(), entry.number(range));
    Value* slot = thread;
    Value* column = entry.split(&slot, columns);
    Value* own = b.CreateAdd(first, b.CreateMul(slot, entry.number(share)));
    Loop tiles = Loop::open(b, entry.number(0), entry.number(batch_), kThreads);
    Value* batch = b.CreateAdd(tiles.variable, thread);
    b.CreateStore(b.getInt8(0), at_place(b.getInt8Ty(), marks, thread));
    entry.when(b.CreateICmpULT(batch, entry.number(batch_)), [&] {
      const Window window = window_of(entry, batch);
      b.CreateStore(window.start, at_place(type, starts, thread));
      b.CreateStore(window.updates, at_place(type, updates, thread));
      Value* is_here = b.CreateICmpULT(b.CreateSub(window.start, first), entry.number(range));
      b.CreateStore(b.CreateZExt(b.CreateAnd(window.is_inside, is_here), b.getInt8Ty()),
                    at_place(b.getInt8Ty(), marks, thread));
    });
    entry.barrier();
    Loop words = Loop::open(b, entry.number(0), entry.number(kThreads), kMarks);
    Value* word = b.CreateAlignedLoad(
        b.getInt64Ty(), at_place(b.getInt8Ty(), marks, words.variable), llvm::Align(kMarks));
    entry.when(b.CreateIsNotNull(word), [&] {
      Loop each = Loop::open(b, entry.number(0), entry.number(kMarks), 1);
      Value* shift =
          b.CreateMul(b.CreateZExtOrTrunc(each.variable, b.getInt64Ty()), b.getInt64(kMarks));
      Value* is_marked = b.CreateTrunc(b.CreateLShr(word, shift), b.getInt1Ty());
      entry.when(is_marked, [&] {
        Value* place = b.CreateAdd(words.variable, each.variable);
        Value* start = b.CreateLoad(type, at_place(type, starts, place));
        Value* is_own = b.CreateAnd(b.CreateICmpULT(b.CreateSub(start, own), entry.number(share)),
                                    b.CreateICmpULT(slot, entry.number(slots)));
        entry.when(is_own, [&] {
          Value* update = b.CreateLoad(type, at_place(type, updates, place));
          const auto take_in = [&](Value* of_window) {
            const auto [to, from] = offsets(entry, of_window);
            combine(entry, b.CreateAdd(start, to), b.CreateAdd(update, from));
          };
          if (window_ == columns) {
            take_in(column);
            return;
          }
          Loop turns = Loop::open(b, column, entry.number(window_), columns);
          take_in(turns.variable);
          turns.close(b);
        });
      });
      each.close(b);
    });
    words.close(b);
    entry.barrier();
    tiles.close(b);
    entry.launch(blocks * kThreads);
    return status_;
  }

  Status write_elements() {
    const std::int64_t elements = operand_.element_count();
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* thread = entry.thread();
    entry.when(b.CreateICmpULT(thread, entry.number(elements)), [&] {
      std::vector<Value*> own(axes_.size());
      Value* rest = thread;
      for (std::size_t i = axes_.size(); i-- > 0;) {
        own[i] = entry.split(&rest, axes_[i].operand_size);
      }
      Loop batches = Loop::open(b, entry.number(0), entry.number(batch_), 1);
      const Window window = window_of(entry, batches.variable);
      Value* covers = window.is_inside;
      Value* from = window.updates;
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        Value* place = b.CreateSub(own[i], window.starts[i]);
        covers = b.CreateAnd(covers, b.CreateICmpULT(place, entry.number(axes_[i].extent)));
        from = add(entry, from, place, axes_[i].update_stride);
      }
      entry.when(covers, [&] { combine(entry, thread, from); });
      batches.close(b);
    });
    entry.launch(elements);
    return status_;
  }

  Status write_in_order() {
    GpuEntry entry(writer_, kWarp);
    llvm::IRBuilder<>& b = entry.builder();
    entry.when(b.CreateIsNull(entry.thread()), [&] {
      Loop all = Loop::open(b, entry.number(0), entry.number(updates_.element_count()), 1);
      Value* rest = all.variable;
      Value* batch = entry.number(0);
      Value* to = entry.number(0);
      std::int64_t batch_stride = 1;
      for (int d = updates_.rank(); d-- > 0;) {
        Value* place = entry.split(&rest, updates_.dim(d));
        const auto& window = numbers_.update_window_dims;
        const auto it = std::find(window.begin(), window.end(), d);
        if (it == window.end()) {
          batch = add(entry, batch, place, batch_stride);
          batch_stride *= updates_.dim(d);
          continue;
        }
        std::ptrdiff_t number = it - window.begin();
        for (const Axis& axis : axes_) {
          if (is_in(numbers_.inserted_window_dims, axis.dimension) ||
              is_in(numbers_.input_batching_dims, axis.dimension)) {
            continue;
          }
          if (number-- == 0) to = add(entry, to, place, axis.stride);
        }
      }
      const Window window = window_of(entry, batch);
      entry.when(window.is_inside,
                 [&] { combine(entry, b.CreateAdd(window.start, to), all.variable); });
      all.close(b);
    });
    entry.launch(1);
    return status_;
  }

  GpuWriter& writer_;
  const ir::Instruction& instruction_;
  const ir::ScatterDimensions& numbers_;
  const int count_;
  const ir::Shape &operand_, &indices_, &updates_;
  std::vector<Axis> axes_;
  std::vector<Batch> batches_;
  std::int64_t window_ = 1, batch_ = 1;
  bool disjoint_ = true, window_minor_ = true, fits_ = true;
  Status status_;
};

}  // namespace

Status write_gpu_scatter(GpuWriter& writer) {
  PLIMSOLL_RETURN_IF_ERROR(check_scalar_computation(writer.instruction));
  return ScatterWriter(writer).write();
}

}  // namespace plimsoll::jit
