// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "jit/emit/elementwise.h"
#include "jit/emit/scalar_computation.h"
#include "jit/gpu/gpu_library.h"
#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"

namespace plimsoll::jit {
namespace {

using ir::DType;
using ir::Opcode;
using llvm::Value;
using Values = std::vector<Value*>;

// One dimension that windows move along, with the numbers of elements of what they read and of the
// windows.
struct WindowSpan {
  ir::WindowDimension window;
  std::int64_t elements = 1, windows = 1;
  std::int64_t element_stride = 0, window_stride = 0;

  bool is_trivial() const {
    return window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
           window.base_dilation == 1 && elements == windows;
  }
};

std::vector<WindowSpan> spans_of(const ir::Instruction& instruction, const ir::Dims& elements,
                                 const ir::Dims& windows) {
  const ir::Dims element_strides = ir::row_major_strides(elements);
  const ir::Dims window_strides = ir::row_major_strides(windows);
  const auto& given = instruction.attributes().window;
  std::vector<WindowSpan> spans;
  for (int d = 0; d < elements.size(); ++d) {
    spans.push_back({at(d) < given.size() ? given[at(d)] : ir::WindowDimension{}, elements[d],
                     windows[d], element_strides[d], window_strides[d]});
  }
  return spans;
}

// Code of one thread that goes over windows.
class WindowCode {
 public:
  WindowCode(GpuEntry& entry, const std::vector<WindowSpan>& spans)
      : entry_(entry), b_(entry.builder()), spans_(spans) {}

  // visit(position of the element) for every element of the window at `windows` (its number in
  // every dimension), in row-major order of the window's positions.
  void for_elements(const Values& windows, const std::function<void(Value*)>& visit) {
    for_elements(windows, 0, entry_.number(0), visit);
  }

  // visit(position of the window) for every window that may hold the element at `elements`, in
  // row-major order.
  void for_windows(const Values& elements, const std::function<void(Value*)>& visit) {
    for_windows(elements, 0, entry_.number(0), visit);
  }

  // The number in every dimension of `position`, by `extent` of the dimensions.
  Values split(Value* position, const std::function<std::int64_t(const WindowSpan&)>& extent) {
    Values numbers(spans_.size());
    Value* rest = position;
    for (std::size_t d = spans_.size(); d-- > 0;) {
      numbers[d] = d == 0 ? rest : entry_.split(&rest, extent(spans_[d]));
    }
    return numbers;
  }

 private:
  Value* number(std::int64_t n) { return entry_.number(n); }

  void for_elements(const Values& windows, std::size_t d, Value* position,
                    const std::function<void(Value*)>& visit) {
    if (d == spans_.size()) {
      visit(position);
      return;
    }
    const WindowSpan& span = spans_[d];
    const auto with = [&](Value* element) {
      Value* there = b_.CreateAdd(position, b_.CreateMul(element, number(span.element_stride)));
      for_elements(windows, d + 1, there, visit);
    };
    if (span.is_trivial()) {
      with(windows[d]);
      return;
    }
    const ir::WindowDimension& w = span.window;
    Loop taps = Loop::open(b_, number(0), number(w.size), 1);
    Value* tap = w.reversal ? b_.CreateSub(number(w.size - 1), taps.variable) : taps.variable;
    Value* place = b_.CreateAdd(b_.CreateMul(windows[d], number(w.stride)),
                                b_.CreateMul(tap, number(w.window_dilation)));
    place = b_.CreateSub(place, number(w.padding_low));
    // Unsigned: what is below zero is past the end.
    Value* exists = b_.CreateICmpULE(place, number((span.elements - 1) * w.base_dilation));
    if (w.base_dilation > 1) {
      exists = b_.CreateAnd(exists, b_.CreateIsNull(b_.CreateURem(place, number(w.base_dilation))));
      place = b_.CreateUDiv(place, number(w.base_dilation));
    }
    entry_.when(span.elements == 0 ? b_.getFalse() : exists, [&] { with(place); });
    taps.close(b_);
  }

  void for_windows(const Values& elements, std::size_t d, Value* position,
                   const std::function<void(Value*)>& visit) {
    if (d == spans_.size()) {
      visit(position);
      return;
    }
    const WindowSpan& span = spans_[d];
    const auto with = [&](Value* window) {
      Value* there = b_.CreateAdd(position, b_.CreateMul(window, number(span.window_stride)));
      for_windows(elements, d + 1, there, visit);
    };
    if (span.is_trivial()) {
      with(elements[d]);
      return;
    }
    const ir::WindowDimension& w = span.window;
    const auto extreme = [&](llvm::Intrinsic::ID which, Value* x, std::int64_t n) {
      return b_.CreateBinaryIntrinsic(which, x, number(n));
    };
    Value* place =
        b_.CreateAdd(b_.CreateMul(elements[d], number(w.base_dilation)), number(w.padding_low));
    // place - (size - 1) * dilation <= window * stride <= place.
    Value* low = b_.CreateSub(place, number((w.size - 1) * w.window_dilation));
    low = extreme(llvm::Intrinsic::smax, b_.CreateAdd(low, number(w.stride - 1)), 0);
    Value* first = b_.CreateUDiv(low, number(w.stride));
    Value* high = extreme(llvm::Intrinsic::smax, b_.CreateAdd(place, number(w.stride)), 0);
    Value* end =
        extreme(llvm::Intrinsic::smin, b_.CreateUDiv(high, number(w.stride)), span.windows);
    Loop windows = Loop::open(b_, first, end, 1);
    with(windows.variable);
    windows.close(b_);
  }

  GpuEntry& entry_;
  llvm::IRBuilder<>& b_;
  const std::vector<WindowSpan>& spans_;
};

// Registers that change from turn to turn.
class Running {
 public:
  Running(GpuEntry& entry, const std::vector<DType>& dtypes)
      : b_(entry.builder()), dtypes_(dtypes) {
    llvm::IRBuilder<> start(entry.function().entry_anchor);
    for (const DType dtype : dtypes) {
      memory_.push_back(start.CreateAlloca(memory_type(b_.getContext(), dtype, 1)));
    }
  }
  Values load() {
    Values values;
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      Value* loaded = b_.CreateLoad(memory_type(b_.getContext(), dtypes_[i], 1), memory_[i]);
      values.push_back(to_register(b_, loaded, dtypes_[i]));
    }
    return values;
  }
  void store(const Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      b_.CreateStore(to_memory(b_, values[i], dtypes_[i]), memory_[i]);
    }
  }

 private:
  llvm::IRBuilder<>& b_;
  const std::vector<DType> dtypes_;
  Values memory_;
};

// How the values of windows are combined: plain operations on 16-bit floats in f32, rounded once.
struct WindowFold {
  const ir::Computation& computation;
  std::vector<DType> dtypes, accumulators;
  bool is_wide = false;

  explicit WindowFold(const ir::Instruction& instruction) : computation(*instruction.to_apply()) {
    const int count = instruction.operand_count() / 2;
    for (int i = 0; i < count; ++i) {
      dtypes.push_back(instruction.operand(i)->shape().dtype());
      accumulators.push_back(computation.parameters()[at(i)]->shape().dtype());
    }
    const bool is_plain = std::any_of(std::begin(kPlain), std::end(kPlain), [&](Opcode opcode) {
      return ir::is_binary_computation(computation, opcode);
    });
    is_wide = count == 1 && is_plain && ir::is_floating(dtypes[0]) &&
              ir::dtype_bytes(dtypes[0]) == 2 && accumulators[0] == dtypes[0];
    if (is_wide) accumulators[0] = DType::f32;
  }

  Result<Values> combine(llvm::IRBuilder<>& b, const Values& running, const Values& next) const {
    if (is_wide) {
      return Values{emit_binary(b, computation.root()->opcode(), running[0], next[0], DType::f32)};
    }
    Values arguments = running;
    arguments.insert(arguments.end(), next.begin(), next.end());
    PLIMSOLL_ASSIGN_OR_RETURN(Values results, apply_scalars(b, computation, arguments));
    const ir::Instruction& root = *computation.root();
    for (std::size_t i = 0; i < results.size(); ++i) {
      const ir::Shape& shape =
          root.shape().is_tuple() ? root.operand(static_cast<int>(i))->shape() : root.shape();
      results[i] = emit_convert(b, results[i], shape.dtype(), accumulators[i]);
    }
    return results;
  }

  // The dtype in which the computation takes element `i`.
  DType taken(std::size_t i) const {
    return is_wide ? DType::f32 : computation.parameters()[dtypes.size() + i]->shape().dtype();
  }

 private:
  static constexpr Opcode kPlain[] = {Opcode::add, Opcode::multiply, Opcode::maximum,
                                      Opcode::minimum};
};

// The dimension along which every window reaches from the beginning to its own place, the only one
// with a window: a running sum. -1: none.
int scanned_dimension(const std::vector<WindowSpan>& spans) {
  int found = -1, windowed = 0;
  for (std::size_t d = 0; d < spans.size(); ++d) {
    const WindowSpan& span = spans[d];
    if (span.is_trivial()) continue;
    ++windowed;
    const ir::WindowDimension& w = span.window;
    const bool is_scan = w.size >= span.elements && w.padding_low == w.size - 1 && w.stride == 1 &&
                         w.base_dilation == 1 && w.window_dilation == 1 && !w.reversal &&
                         span.windows == span.elements;
    found = is_scan ? static_cast<int>(d) : -1;
  }
  return windowed == 1 ? found : -1;
}

}  // namespace

// A thread a window; a running sum is a thread's from beginning to end.
Status write_gpu_reduce_window(GpuWriter& writer) {
  const ir::Instruction& instruction = writer.instruction;
  PLIMSOLL_RETURN_IF_ERROR(check_scalar_computation(instruction));
  const ir::Shape& result = *ir::leaves(instruction.shape())[0];
  std::vector<WindowSpan> spans =
      spans_of(instruction, instruction.operand(0)->shape().dims(), result.dims());
  if (result.element_count() == 0) return ok_status();
  const WindowFold fold(instruction);
  const std::size_t count = fold.dtypes.size();
  const int scanned = scanned_dimension(spans);
  std::int64_t scan_length = 1, scan_stride = 0;
  if (scanned >= 0) {
    scan_length = spans[at(scanned)].elements;
    scan_stride = spans[at(scanned)].element_stride;
    spans[at(scanned)].elements = spans[at(scanned)].windows = 1;
    spans[at(scanned)].window = {};
  }
  const std::int64_t threads = result.element_count() / scan_length;
  Status status;
  GpuEntry entry(writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  WindowCode code(entry, spans);
  Running running(entry, fold.accumulators);
  const auto take = [&](Value* place) {
    Values next;
    for (std::size_t i = 0; i < count; ++i) {
      Value* value =
          entry.load_element(entry.function().input(static_cast<int>(i)), fold.dtypes[i], place);
      next.push_back(emit_convert(b, value, fold.dtypes[i], fold.taken(i)));
    }
    auto sum = fold.combine(b, running.load(), next);
    if (sum.ok()) {
      running.store(*sum);
    } else {
      status = sum.status();
    }
  };
  const auto give = [&](Value* place) {
    const Values values = running.load();
    const auto leaves = ir::leaves(instruction.shape());
    for (std::size_t i = 0; i < count; ++i) {
      const DType to = leaves[i]->dtype();
      entry.store_element(entry.function().output(static_cast<int>(i)), to, place,
                          emit_convert(b, values[i], fold.accumulators[i], to));
    }
  };
  Value* thread = entry.thread();
  entry.when(b.CreateICmpULT(thread, entry.number(threads)), [&] {
    Values initial;
    for (std::size_t i = 0; i < count; ++i) {
      Value* value = entry.load_element(entry.function().input(static_cast<int>(count + i)),
                                        fold.dtypes[i], entry.number(0));
      initial.push_back(emit_convert(b, value, fold.dtypes[i], fold.accumulators[i]));
    }
    running.store(initial);
    const Values windows = code.split(thread, [](const WindowSpan& span) { return span.windows; });
    if (scanned < 0) {
      code.for_elements(windows, take);
      give(thread);
      return;
    }
    Value* place = entry.number(0);
    for (std::size_t d = 0; d < spans.size(); ++d) {
      place = b.CreateAdd(place, b.CreateMul(windows[d], entry.number(spans[d].element_stride)));
    }
    Loop line = Loop::open(b, entry.number(0), entry.number(scan_length), 1);
    Value* there = b.CreateAdd(place, b.CreateMul(line.variable, entry.number(scan_stride)));
    take(there);
    give(there);
    line.close(b);
  });
  entry.launch(threads);
  return status;
}

// First every window chooses an element, into the workspace; then every element takes what the
// windows that chose it give, in their order.
Status write_gpu_select_and_scatter(GpuWriter& writer) {
  const ir::Instruction& instruction = writer.instruction;
  const ir::Shape& operand = instruction.operand(0)->shape();
  const ir::Shape& source = instruction.operand(1)->shape();
  const DType dtype = operand.dtype();
  const std::vector<WindowSpan> spans = spans_of(instruction, operand.dims(), source.dims());
  if (operand.element_count() == 0) return ok_status();
  const std::int64_t windows = source.element_count();
  Status status;
  const auto apply = [&](llvm::IRBuilder<>& b, const ir::Computation& computation, Value* x,
                         Value* y) -> Value* {
    auto results = apply_scalars(b, computation, {x, y});
    if (results.ok()) return (*results)[0];
    status = results.status();
    return x;
  };
  if (windows > 0) {
    GpuEntry entry(writer, kBlockThreads);
    llvm::IRBuilder<>& b = entry.builder();
    llvm::IntegerType* index = entry.index_type();
    writer.code.workspace_bytes = windows * (index->getBitWidth() / 8);
    WindowCode code(entry, spans);
    llvm::IRBuilder<> start(entry.function().entry_anchor);
    Value* chosen = start.CreateAlloca(index);
    Running best(entry, {dtype});
    Value* thread = entry.thread();
    entry.when(b.CreateICmpULT(thread, entry.number(windows)), [&] {
      b.CreateStore(entry.number(-1), chosen);
      best.store({llvm::Constant::getNullValue(register_type(b.getContext(), dtype, 1))});
      code.for_elements(code.split(thread, [](const WindowSpan& span) { return span.windows; }),
                        [&](Value* place) {
                          Value* candidate =
                              entry.load_element(entry.function().input(0), dtype, place);
                          Value* now = b.CreateLoad(index, chosen);
                          Value* before = best.load()[0];
                          Value* keeps = apply(b, *instruction.select(), before, candidate);
                          keeps = b.CreateAnd(keeps, b.CreateICmpNE(now, entry.number(-1)));
                          b.CreateStore(b.CreateSelect(keeps, now, place), chosen);
                          best.store({b.CreateSelect(keeps, before, candidate)});
                        });
      b.CreateStore(b.CreateLoad(index, chosen),
                    b.CreateInBoundsGEP(index, entry.function().workspace, thread));
    });
    entry.launch(windows);
  }
  GpuEntry entry(writer, kBlockThreads);
  llvm::IRBuilder<>& b = entry.builder();
  WindowCode code(entry, spans);
  Running running(entry, {dtype});
  Value* thread = entry.thread();
  entry.when(b.CreateICmpULT(thread, entry.number(operand.element_count())), [&] {
    running.store({entry.load_element(entry.function().input(2), dtype, entry.number(0))});
    if (windows > 0) {
      code.for_windows(
          code.split(thread, [](const WindowSpan& span) { return span.elements; }),
          [&](Value* window) {
            Value* choice = b.CreateLoad(
                entry.index_type(),
                b.CreateInBoundsGEP(entry.index_type(), entry.function().workspace, window));
            entry.when(b.CreateICmpEQ(choice, thread), [&] {
              Value* given = entry.load_element(entry.function().input(1), dtype, window);
              running.store({apply(b, *instruction.scatter(), running.load()[0], given)});
            });
          });
    }
    entry.store_element(entry.function().output(0), dtype, thread, running.load()[0]);
  });
  entry.launch(operand.element_count());
  return status;
}

}  // namespace plimsoll::jit
