// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "jit/emit/elementwise.h"
#include "jit/emit/scalar_computation.h"
#include "jit/gpu/gpu_library.h"
#include "jit/graph/reduction_shape.h"
#include "runtime/base/index.h"
#include "runtime/ir/fusions/comparator.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using llvm::Value;
using Values = std::vector<Value*>;

// Positions that a block sorts in shared memory.
constexpr std::int64_t kSortedByBlock = 1024;
constexpr std::int64_t kTurns = kSortedByBlock / kBlockThreads;

// Merges of doubling width, as kernels/cpu/indexing/sort.cc: of positions, those of a line in two
// arrays that take turns. Lines of up to 1,024 elements are a block's, as many side by side as
// fit; of longer ones blocks sort pieces, which launches merge, one a width, in the workspace.
//
// A merge of two sorted runs is shared out: each entry finds its place by counting, in the other
// run, what goes before it, a search by halves (as in Satish, Harris and Garland, "Designing
// efficient sorting algorithms for manycore GPUs", IPDPS 2009). That gives what a merge entry by
// entry gives where the comparator is an order. Where it is none, as where NaNs are compared
// naturally, what comes out depends on which entries meet: there one thread merges two runs entry
// by entry, as the CPU does.
class SortWriter {
 public:
  explicit SortWriter(GpuWriter& writer)
      : writer_(writer),
        instruction_(writer.instruction),
        count_(instruction_.operand_count()),
        elements_(instruction_.operand(0)->shape().element_count()) {
    const ir::Dims& dims = instruction_.operand(0)->shape().dims();
    const int along = static_cast<int>(instruction_.attributes().dimensions[0]);
    length_ = dims[along];
    stride_ = ir::row_major_strides(dims)[along];
    lines_ = length_ == 0 ? 0 : elements_ / length_;
    padded_ =
        std::min(kSortedByBlock,
                 static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length_))));
    pieces_ = std::max<std::int64_t>(divide_up(length_, kSortedByBlock), 1);
    for (int i = 0; i < count_; ++i) dtypes_.push_back(instruction_.operand(i)->shape().dtype());
    const ir::Computation& comparator = *instruction_.to_apply();
    const auto numbers = ir::order_of_numbers(comparator);
    merge_ = ir::is_total_order(comparator) ? Merge::shared_out
             : numbers.has_value()          ? Merge::by_flag
                                            : Merge::by_one;
    if (merge_ == Merge::by_flag) {
      // Whether a key is a NaN: whether it differs from itself.
      ir::Computation* differs = flags_of_.add_clone(comparator);
      differs->root()->attributes().comparison_direction = ir::ComparisonDirection::ne;
      differs_ = differs;
    }
  }

  Status write() {
    if (elements_ == 0) return ok_status();
    if (pieces_ > 1) {
      const std::int64_t bytes = aligned(elements_ * kPositionBytes);
      second_ = bytes;
      flags_ = 2 * bytes;
      writer_.code.workspace_bytes =
          2 * bytes + (merge_ == Merge::by_flag ? aligned(lines_ * kPositionBytes) : 0);
      if (merge_ == Merge::by_flag) write_flags();
    }
    write_blocks();
    bool is_first = true;
    for (std::int64_t width = kSortedByBlock; width < length_; width *= 2, is_first = !is_first) {
      write_merges(width, is_first, 2 * width >= length_);
    }
    return status_;
  }

 private:
  enum class Merge { shared_out, by_one, by_flag };
  static constexpr std::int64_t kPositionBytes = 4;

  // An entry that is to be merged.
  struct Entry {
    Value* place;      // in its piece
    Value* count;      // entries of the piece
    Value* base;       // where in the operands the piece begins
    Value *from, *to;  // its positions, and where they go
    Value* has_nan;    // Merge::by_flag: whether the line has one
  };
  // What is done with a position that goes to `place`.
  using Give = llvm::function_ref<void(Value* place, Value* position)>;

  static std::int64_t aligned(std::int64_t bytes) {
    return divide_up(bytes, kGpuAlignment) * kGpuAlignment;
  }

  llvm::Type* position_type(GpuEntry& entry) { return entry.builder().getInt32Ty(); }
  Value* at_position(GpuEntry& entry, Value* base, Value* place) {
    return entry.builder().CreateInBoundsGEP(position_type(entry), base, place);
  }
  Value* load_position(GpuEntry& entry, Value* base, Value* place) {
    llvm::IRBuilder<>& b = entry.builder();
    Value* loaded = b.CreateLoad(position_type(entry), at_position(entry, base, place));
    return b.CreateIntCast(loaded, entry.index_type(), false);
  }
  void store_position(GpuEntry& entry, Value* base, Value* place, Value* position) {
    llvm::IRBuilder<>& b = entry.builder();
    b.CreateStore(b.CreateIntCast(position, position_type(entry), false),
                  at_position(entry, base, place));
  }

  // Of the line's first element.
  Value* base_of(GpuEntry& entry, Value* line) {
    llvm::IRBuilder<>& b = entry.builder();
    Value* rest = line;
    Value* low = entry.split(&rest, stride_);
    return b.CreateAdd(b.CreateMul(rest, entry.number(stride_ * length_)), low);
  }
  Value* element_of(GpuEntry& entry, Value* base, Value* position) {
    llvm::IRBuilder<>& b = entry.builder();
    return b.CreateAdd(base, b.CreateMul(position, entry.number(stride_)));
  }

  Values values_at(GpuEntry& entry, Value* base, Value* position) {
    Value* element = element_of(entry, base, position);
    Values values;
    for (int i = 0; i < count_; ++i) {
      values.push_back(entry.load_element(entry.function().input(i), dtypes_[at(i)], element));
    }
    return values;
  }

  Value* compare(GpuEntry& entry, const ir::Computation& comparator, const Values& first,
                 const Values& second) {
    Values arguments;
    for (int i = 0; i < count_; ++i) {
      arguments.push_back(first[at(i)]);
      arguments.push_back(second[at(i)]);
    }
    auto results = apply_scalars(entry.builder(), comparator, arguments);
    if (results.ok()) return (*results)[0];
    status_ = results.status();
    return entry.builder().getFalse();
  }
  Value* is_before(GpuEntry& entry, const Values& first, const Values& second) {
    return compare(entry, *instruction_.to_apply(), first, second);
  }
  Value* is_nan(GpuEntry& entry, Value* base, Value* position) {
    const Values values = values_at(entry, base, position);
    return compare(entry, *differs_, values, values);
  }

  // The merge of runs of 1 << log entries, as far as this entry goes.
  void merge(GpuEntry& entry, const Entry& own, Value* log, Give give) {
    llvm::IRBuilder<>& b = entry.builder();
    switch (merge_) {
      case Merge::shared_out:
        return merge_shared_out(entry, own, log, give);
      case Merge::by_one:
        return merge_by_one(entry, own, log, give);
      case Merge::by_flag:
        entry.when(own.has_nan, [&] { merge_by_one(entry, own, log, give); });
        entry.when(b.CreateNot(own.has_nan), [&] { merge_shared_out(entry, own, log, give); });
    }
  }

  struct Runs {
    Value *begin, *middle, *end;
  };
  Runs runs_of(GpuEntry& entry, const Entry& own, Value* log) {
    llvm::IRBuilder<>& b = entry.builder();
    Value* width = b.CreateShl(entry.number(1), log);
    Value* begin = b.CreateAnd(own.place, b.CreateNeg(b.CreateShl(width, 1)));
    const auto inside = [&](Value* place) {
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, place, own.count);
    };
    return {begin, inside(b.CreateAdd(begin, width)),
            inside(b.CreateAdd(begin, b.CreateShl(width, 1)))};
  }

  void merge_shared_out(GpuEntry& entry, const Entry& own, Value* log, Give give) {
    llvm::IRBuilder<>& b = entry.builder();
    const Runs runs = runs_of(entry, own, log);
    Value* is_second = b.CreateICmpUGE(own.place, runs.middle);
    Value* begin = b.CreateSelect(is_second, runs.begin, runs.middle);
    Value* position = load_position(entry, own.from, own.place);
    const Values values = values_at(entry, own.base, position);
    llvm::IRBuilder<> start(entry.function().entry_anchor);
    Value* low = start.CreateAlloca(entry.index_type());
    Value* high = start.CreateAlloca(entry.index_type());
    b.CreateStore(begin, low);
    b.CreateStore(b.CreateSelect(is_second, runs.middle, runs.end), high);
    // As many halvings as a whole run takes, of all threads alike.
    Loop halvings = Loop::open(b, entry.number(0), b.CreateAdd(log, entry.number(1)), 1);
    Value* from = b.CreateLoad(entry.index_type(), low);
    Value* to = b.CreateLoad(entry.index_type(), high);
    entry.when(b.CreateICmpULT(from, to), [&] {
      Value* middle = b.CreateLShr(b.CreateAdd(from, to), 1);
      const Values others = values_at(entry, own.base, load_position(entry, own.from, middle));
      Values first, second;
      for (int i = 0; i < count_; ++i) {
        first.push_back(b.CreateSelect(is_second, values[at(i)], others[at(i)]));
        second.push_back(b.CreateSelect(is_second, others[at(i)], values[at(i)]));
      }
      // Of the second run goes first what is before; of the first run what the other is not before.
      Value* goes_first = b.CreateXor(is_before(entry, first, second), is_second);
      b.CreateStore(b.CreateSelect(goes_first, b.CreateAdd(middle, entry.number(1)), from), low);
      b.CreateStore(b.CreateSelect(goes_first, to, middle), high);
    });
    halvings.close(b);
    // Its place among its own, behind those of the other run.
    Value* among_own = b.CreateSub(own.place, b.CreateSelect(is_second, runs.middle, runs.begin));
    Value* of_others = b.CreateSub(b.CreateLoad(entry.index_type(), low), begin);
    give(b.CreateAdd(runs.begin, b.CreateAdd(among_own, of_others)), position);
  }

  // The first entry's thread merges both runs.
  void merge_by_one(GpuEntry& entry, const Entry& own, Value* log, Give give) {
    llvm::IRBuilder<>& b = entry.builder();
    const Runs runs = runs_of(entry, own, log);
    llvm::IRBuilder<> start(entry.function().entry_anchor);
    Value* first = start.CreateAlloca(entry.index_type());
    Value* second = start.CreateAlloca(entry.index_type());
    entry.when(b.CreateICmpEQ(own.place, runs.begin), [&] {
      b.CreateStore(runs.begin, first);
      b.CreateStore(runs.middle, second);
      Loop places = Loop::open(b, runs.begin, runs.end, 1);
      Value* a = b.CreateLoad(entry.index_type(), first);
      Value* c = b.CreateLoad(entry.index_type(), second);
      Value* has_first = b.CreateICmpULT(a, runs.middle);
      Value* has_second = b.CreateICmpULT(c, runs.end);
      // What is not there is read as what is.
      const auto position_of = [&](Value* exists, Value* place) {
        return load_position(entry, own.from, b.CreateSelect(exists, place, runs.begin));
      };
      Value* of_first = position_of(has_first, a);
      Value* of_second = position_of(has_second, c);
      Value* before = is_before(entry, values_at(entry, own.base, of_second),
                                values_at(entry, own.base, of_first));
      Value* takes_second = b.CreateOr(b.CreateNot(has_first), b.CreateAnd(has_second, before));
      give(places.variable, b.CreateSelect(takes_second, of_second, of_first));
      Value* one = b.CreateZExt(takes_second, entry.index_type());
      b.CreateStore(b.CreateAdd(c, one), second);
      b.CreateStore(b.CreateAdd(a, b.CreateSub(entry.number(1), one)), first);
      places.close(b);
    });
  }

  // The element at `position` of the piece goes to `place` of every result.
  void write_results(GpuEntry& entry, Value* base, Value* place, Value* position) {
    const Values values = values_at(entry, base, position);
    Value* element = element_of(entry, base, place);
    for (int i = 0; i < count_; ++i) {
      entry.store_element(entry.function().output(i), dtypes_[at(i)], element, values[at(i)]);
    }
  }

  Value* in_workspace(GpuEntry& entry, std::int64_t offset) {
    return entry.builder().CreateConstInBoundsGEP1_64(entry.builder().getInt8Ty(),
                                                      entry.function().workspace,
                                                      static_cast<std::uint64_t>(offset));
  }

  // Whether a line has a NaN: of lines that several blocks sort, a word each.
  void write_flags() {
    {
      GpuEntry entry(writer_, kBlockThreads);
      llvm::IRBuilder<>& b = entry.builder();
      Value* line = entry.thread();
      entry.when(b.CreateICmpULT(line, entry.number(lines_)), [&] {
        store_position(entry, in_workspace(entry, flags_), line, entry.number(0));
      });
      entry.launch(lines_);
    }
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* line = entry.thread();
    entry.when(b.CreateICmpULT(line, entry.number(elements_)), [&] {
      Value* place = entry.split(&line, length_);
      entry.when(is_nan(entry, base_of(entry, line), place), [&] {
        store_position(entry, in_workspace(entry, flags_), line, entry.number(1));
      });
    });
    entry.launch(elements_);
  }

  // Blocks sort lines, or pieces of them.
  void write_blocks() {
    const std::int64_t side_by_side = pieces_ > 1 ? 1 : kSortedByBlock / padded_;
    const std::int64_t blocks = pieces_ > 1 ? lines_ * pieces_ : divide_up(lines_, side_by_side);
    const bool is_whole = pieces_ == 1;
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* positions = entry.share(position_type(entry), 2 * kSortedByBlock);
    Value* nans = merge_ == Merge::by_flag && is_whole
                      ? entry.share(position_type(entry), side_by_side)
                      : nullptr;
    Value* thread = b.CreateIntCast(entry.thread_in_block(), entry.index_type(), false);
    Value* line = entry.block_in_grid();
    Value* piece = pieces_ > 1 ? entry.split(&line, pieces_) : nullptr;
    if (is_whole) line = b.CreateMul(line, entry.number(side_by_side));
    Value* begin =
        piece == nullptr ? entry.number(0) : b.CreateMul(piece, entry.number(kSortedByBlock));
    Value* count = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, entry.number(padded_),
                                           b.CreateSub(entry.number(length_), begin));
    // f(entry, its line in the block, its line) for this thread's entries.
    const auto for_entries = [&](Value* from, Value* to,
                                 llvm::function_ref<void(const Entry&, Value*, Value*)> f) {
      Loop turns = Loop::open(b, entry.number(0), entry.number(kTurns), 1);
      Value* own = b.CreateAdd(thread, b.CreateMul(turns.variable, entry.number(kBlockThreads)));
      Value* place = entry.split(&own, padded_);
      Value* own_line = b.CreateAdd(line, own);
      Value* exists = b.CreateAnd(b.CreateICmpULT(place, count),
                                  b.CreateICmpULT(own_line, entry.number(lines_)));
      entry.when(exists, [&] {
        Value* base = element_of(entry, base_of(entry, own_line), begin);
        Value* region = b.CreateMul(own, entry.number(padded_));
        Value* has_nan = nullptr;
        if (merge_ == Merge::by_flag) {
          Value* flag = nans != nullptr
                            ? load_position(entry, nans, own)
                            : load_position(entry, in_workspace(entry, flags_), own_line);
          has_nan = b.CreateIsNotNull(flag);
        }
        f({place, count, base, at_position(entry, from, region), at_position(entry, to, region),
           has_nan},
          own, own_line);
      });
      turns.close(b);
    };
    if (nans != nullptr) {
      for_entries(positions, positions, [&](const Entry& own, Value* in_block, Value*) {
        entry.when(b.CreateIsNull(own.place),
                   [&] { store_position(entry, nans, in_block, entry.number(0)); });
      });
      entry.barrier();
    }
    for_entries(positions, positions, [&](const Entry& own, Value* in_block, Value*) {
      store_position(entry, own.from, own.place, own.place);
      if (nans == nullptr) return;
      entry.when(is_nan(entry, own.base, own.place),
                 [&] { store_position(entry, nans, in_block, entry.number(1)); });
    });
    entry.barrier();
    const int passes = std::bit_width(static_cast<std::uint64_t>(padded_)) - 1;
    Loop logs = Loop::open(b, entry.number(0), entry.number(passes), 1);
    Value* odd =
        b.CreateMul(b.CreateAnd(logs.variable, entry.number(1)), entry.number(kSortedByBlock));
    Value* from = at_position(entry, positions, odd);
    Value* to = at_position(entry, positions, b.CreateSub(entry.number(kSortedByBlock), odd));
    for_entries(from, to, [&](const Entry& own, Value*, Value*) {
      merge(entry, own, logs.variable,
            [&](Value* place, Value* position) { store_position(entry, own.to, place, position); });
    });
    entry.barrier();
    logs.close(b);
    Value* sorted = at_position(entry, positions, entry.number(passes % 2 * kSortedByBlock));
    for_entries(sorted, sorted, [&](const Entry& own, Value*, Value* own_line) {
      Value* position = load_position(entry, own.from, own.place);
      if (is_whole) {
        write_results(entry, own.base, own.place, position);
        return;
      }
      Value* to =
          b.CreateAdd(b.CreateMul(own_line, entry.number(length_)), b.CreateAdd(begin, own.place));
      store_position(entry, entry.function().workspace, to, b.CreateAdd(begin, position));
    });
    entry.launch(blocks * static_cast<std::int64_t>(kBlockThreads));
  }

  // Runs of `width` positions, in the workspace, become runs of twice as many; the last ones
  // results.
  void write_merges(std::int64_t width, bool from_first, bool is_last) {
    GpuEntry entry(writer_, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    Value* thread = entry.thread();
    entry.when(b.CreateICmpULT(thread, entry.number(elements_)), [&] {
      Value* line = thread;
      Value* place = entry.split(&line, length_);
      Value* begin = b.CreateMul(line, entry.number(length_));
      Value* first = at_position(entry, in_workspace(entry, 0), begin);
      Value* second = at_position(entry, in_workspace(entry, second_), begin);
      Value* has_nan = nullptr;
      if (merge_ == Merge::by_flag) {
        has_nan = b.CreateIsNotNull(load_position(entry, in_workspace(entry, flags_), line));
      }
      const Entry own{place,
                      entry.number(length_),
                      base_of(entry, line),
                      from_first ? first : second,
                      from_first ? second : first,
                      has_nan};
      const int log = std::bit_width(static_cast<std::uint64_t>(width)) - 1;
      merge(entry, own, entry.number(log), [&](Value* to, Value* position) {
        if (is_last) {
          write_results(entry, own.base, to, position);
        } else {
          store_position(entry, own.to, to, position);
        }
      });
    });
    entry.launch(elements_);
  }

  GpuWriter& writer_;
  const ir::Instruction& instruction_;
  const int count_;
  const std::int64_t elements_;
  std::vector<DType> dtypes_;
  std::int64_t length_ = 0, stride_ = 1, lines_ = 0;
  std::int64_t padded_ = 1;  // entries of a line in a block, filled up to a power of two
  std::int64_t pieces_ = 1;  // of a line, each a block's
  std::int64_t second_ = 0, flags_ = 0;  // in the workspace
  Merge merge_ = Merge::by_one;
  ir::Module flags_of_{"differs"};
  const ir::Computation* differs_ = nullptr;
  Status status_;
};

}  // namespace

Status write_gpu_sort(GpuWriter& writer) {
  PLIMSOLL_RETURN_IF_ERROR(check_scalar_computation(writer.instruction));
  const ir::Dims& dims = writer.instruction.operand(0)->shape().dims();
  const auto along = static_cast<int>(writer.instruction.attributes().dimensions[0]);
  if (dims[along] > std::numeric_limits<std::int32_t>::max()) {
    return refuse(writer.instruction, "has a dimension of " + std::to_string(dims[along]) +
                                          " (2147483647 is the most)");
  }
  return SortWriter(writer).write();
}

}  // namespace plimsoll::jit
