// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "kernels/cpu/scalar/combine.h"
#include "kernels/cpu/scalar/scalar_program.h"
#include "kernels/cpu/vector_loops.h"
#include "kernels/cpu/window/window.h"
#include "kernels/cpu/window/window_rows.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kLanes = ScalarProgram::kLanes;
// Running sums of single elements that go on side by side.
constexpr int kScannedLines = 8;

// The running values of up to kLanes neighbouring windows, for a reducer with a loop of its own.
template <typename T, Combiner kKind>
class TypedFold {
 public:
  using Value = std::conditional_t<kIsHalf<T>, float, T>;
  explicit TypedFold(const device::KernelArguments& arguments)
      : in_(static_cast<const T*>(arguments.inputs[0])),
        init_(static_cast<Value>(*static_cast<const T*>(arguments.inputs[1]))),
        out_(static_cast<T*>(arguments.outputs[0])) {}

  void start(std::int64_t lanes) { std::fill(values_, values_ + lanes, init_); }
  void take(std::int64_t offset, std::int64_t lanes) {
    if constexpr (kHasLoop) {
      if (lanes > 1) {
        offsets_[pending_] = offset;
        if (++pending_ == kPending) flush(lanes);
        return;
      }
    }
    if constexpr (std::is_same_v<T, Float16> && kIsCommon) {
      if (lanes > 1) {
        float wide[kLanes];
        from_f16(in_ + offset, wide, lanes);
        combine_rows(wide, &kBegin, 1, lanes);
        return;
      }
    }
    const T* from = in_ + offset;
    for (std::int64_t i = 0; i < lanes; ++i)
      values_[i] = combine<kKind>(values_[i], static_cast<Value>(from[i]));
  }
  void store(std::int64_t offset, std::int64_t lanes) {
    if constexpr (kHasLoop) {
      if (pending_ > 0) flush(lanes);
    }
    if constexpr (std::is_same_v<T, Bfloat16>) {
      to_bf16(values_, out_ + offset, lanes);
    } else if constexpr (std::is_same_v<T, Float16>) {
      to_f16(values_, out_ + offset, lanes);
    } else {
      for (std::int64_t i = 0; i < lanes; ++i) out_[offset + i] = static_cast<T>(values_[i]);
    }
  }
  // Lines of `length` elements that start at `begins`, each running by itself: none waits for the
  // one before it.
  void scan_lines(const std::int64_t* begins, std::int64_t length, std::int64_t stride) {
    // Some of each at a time: lines a power of two apart do not stay in the cache together.
    constexpr std::int64_t kBlock = 16;
    Value running[kScannedLines], block[kBlock][kScannedLines];
    std::fill_n(running, kScannedLines, init_);
    for (std::int64_t first = 0; first < length; first += kBlock) {
      const std::int64_t count = std::min(kBlock, length - first);
      for (int line = 0; line < kScannedLines; ++line) {
        const T* const from = in_ + begins[line] + first * stride;
        for (std::int64_t i = 0; i < count; ++i) {
          block[i][line] = static_cast<Value>(from[i * stride]);
        }
      }
      for (std::int64_t i = 0; i < count; ++i) {
        for (int line = 0; line < kScannedLines; ++line) {
          running[line] = combine<kKind>(running[line], block[i][line]);
          block[i][line] = running[line];
        }
      }
      for (int line = 0; line < kScannedLines; ++line) {
        T* const to = out_ + begins[line] + first * stride;
        for (std::int64_t i = 0; i < count; ++i) to[i * stride] = static_cast<T>(block[i][line]);
      }
    }
  }

 private:
  // The common reducers take several elements per call, of f16 one after the other as f32.
  static constexpr bool kIsCommon = kKind == Combiner::add || kKind == Combiner::maximum;
  static constexpr bool kHasLoop =
      (std::is_same_v<T, float> || std::is_same_v<T, Bfloat16>) && kIsCommon;
  static constexpr int kPending = 16;
  static constexpr std::int64_t kBegin = 0;

  template <typename From>
  void combine_rows(const From* from, const std::int64_t* offsets, int rows, std::int64_t lanes) {
    if constexpr (kKind == Combiner::add) {
      add_rows(values_, from, offsets, rows, lanes);
    } else {
      maximum_rows(values_, from, offsets, rows, lanes);
    }
  }
  void flush(std::int64_t lanes) {
    combine_rows(in_, offsets_, pending_, lanes);
    pending_ = 0;
  }

  const T* in_;
  Value init_;
  T* out_;
  int pending_ = 0;
  std::int64_t offsets_[kPending];
  Value values_[kLanes];
};

// The same for any computation, over any number of arrays at once.
class ProgramFold {
 public:
  ProgramFold(const ScalarProgram& program, const std::vector<ir::DType>& dtypes,
              const device::KernelArguments& arguments)
      : program_(program), evaluator_(program), dtypes_(dtypes), arguments_(arguments) {}

  void start(std::int64_t lanes) {
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        convert(dtypes_[i], arguments_.inputs[dtypes_.size() + i], program_.parameters()[i],
                evaluator_.parameter(i) + lane * dtype_bytes(program_.parameters()[i]), 1);
      }
    }
  }
  void take(std::int64_t offset, std::int64_t lanes) {
    const std::size_t count = dtypes_.size();
    for (std::size_t i = 0; i < count; ++i) {
      convert(dtypes_[i], byte_offset(arguments_.inputs[i], offset * dtype_bytes(dtypes_[i])),
              program_.parameters()[count + i], evaluator_.parameter(count + i), lanes);
    }
    evaluator_.run(lanes);
    // Results are copied aside first: one may be the other's register.
    std::vector<std::byte>& aside = aside_;
    aside.resize(count * kLanes * 8);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(aside.data() + i * kLanes * 8, evaluator_.result(i),
                  static_cast<std::size_t>(lanes * dtype_bytes(program_.results()[i])));
    }
    for (std::size_t i = 0; i < count; ++i) {
      convert(program_.results()[i], aside.data() + i * kLanes * 8, program_.parameters()[i],
              evaluator_.parameter(i), lanes);
    }
  }
  void store(std::int64_t offset, std::int64_t lanes) {
    for (std::size_t i = 0; i < dtypes_.size(); ++i) {
      convert(program_.parameters()[i], evaluator_.parameter(i), dtypes_[i],
              byte_offset(arguments_.outputs[i], offset * dtype_bytes(dtypes_[i])), lanes);
    }
  }

 private:
  static void convert(ir::DType from, const void* data, ir::DType to, std::byte* out,
                      std::int64_t count) {
    ir::interpreter::convert_elements({from, static_cast<const std::byte*>(data)}, to, out, count);
  }

  const ScalarProgram& program_;
  ScalarProgram::Evaluator evaluator_;
  const std::vector<ir::DType>& dtypes_;
  const device::KernelArguments& arguments_;
  std::vector<std::byte> aside_;
};

class ReduceWindow final : public KernelBase {
 public:
  ReduceWindow(const ir::Instruction& instruction, ScalarProgram program)
      : KernelBase("reduce-window", device::KernelOrigin::own),
        geometry_(instruction.operand(0)->shape().dims(),
                  ir::leaves(instruction.shape())[0]->dims(), instruction.attributes().window),
        program_(std::move(program)) {
    for (int i = 0; i < instruction.operand_count() / 2; ++i)
      dtypes_.push_back(instruction.operand(i)->shape().dtype());
    if (dtypes_.size() == 1) combiner_ = recognize_combiner(*instruction.to_apply());
    for (const WindowAxisGeometry& axis : geometry_.axes) outputs_ *= axis.out_size;
    taps_ = 1;
    for (const WindowAxisGeometry& axis : geometry_.axes) taps_ *= axis.window.size;
    chunks_ = (geometry_.lanes + kLanes - 1) / kLanes;
    find_scan();
    const bool is_half = dtypes_[0] == ir::DType::f16 || dtypes_[0] == ir::DType::bf16;
    if (scan_axis_ < 0 && (dtypes_[0] == ir::DType::f32 || is_half) &&
        (combiner_ == Combiner::add || combiner_ == Combiner::maximum)) {
      rows_ = WindowRows::make(geometry_);
      // With lanes a whole plane is more than what a window of it takes.
      if (is_half && rows_ && (geometry_.lanes > 1 || !rows_->has_small_planes())) rows_.reset();
    }
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (combiner_ == Combiner::none) {
      run([&] { return ProgramFold(program_, dtypes_, arguments); });
      return ok_status();
    }
    if (rows_) {
      if (dtypes_[0] == ir::DType::f16) {
        run_rows<Float16>(arguments);
      } else if (dtypes_[0] == ir::DType::bf16) {
        run_rows<Bfloat16>(arguments);
      } else {
        run_rows<float>(arguments);
      }
      return ok_status();
    }
    ir::visit_dtype(dtypes_[0], [&](auto zero) {
      using T = decltype(zero);
      visit_combiner(combiner_, [&]<Combiner kKind>() {
        run([&] { return TypedFold<T, kKind>(arguments); });
      });
    });
    return ok_status();
  }

 private:
  // A window that ends at its own position and reaches back to the start is a running sum: each
  // result is the one before it and one more element, in the very order of the definition.
  void find_scan() {
    int windowed = 0;
    for (std::size_t d = 0; d < geometry_.axes.size(); ++d) {
      const WindowAxisGeometry& axis = geometry_.axes[d];
      if (axis.is_trivial()) continue;
      ++windowed;
      const ir::WindowDimension& w = axis.window;
      const bool is_scan = w.size >= axis.in_size && w.padding_low == w.size - 1 && w.stride == 1 &&
                           w.base_dilation == 1 && w.window_dilation == 1 && !w.reversal &&
                           axis.out_size == axis.in_size;
      scan_axis_ = is_scan ? static_cast<int>(d) : -1;
    }
    if (windowed != 1) scan_axis_ = -1;
  }

  template <typename MakeFold>
  void run(const MakeFold& make_fold) const {
    const std::int64_t width = std::min(geometry_.lanes, kLanes);
    if (scan_axis_ >= 0) {
      const WindowAxisGeometry& axis = geometry_.axes[at(scan_axis_)];
      const std::int64_t lines = outputs_ / std::max<std::int64_t>(1, axis.out_size) * chunks_;
      const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (axis.out_size * width + 1));
      device::parallel_for(axis.out_size == 0 ? 0 : lines, grain,
                           [&](std::int64_t begin, std::int64_t end) {
                             auto fold = make_fold();
                             std::int64_t i = begin;
                             if constexpr (requires { fold.scan_lines(nullptr, 0, 0); }) {
                               for (; width == 1 && i + kScannedLines <= end; i += kScannedLines) {
                                 scan_together(fold, axis, i);
                               }
                             }
                             for (; i < end; ++i) scan(fold, axis, i);
                           });
      return;
    }
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (taps_ * width + 16));
    device::parallel_for(outputs_ * chunks_, grain, [&](std::int64_t begin, std::int64_t end) {
      auto fold = make_fold();
      for (std::int64_t i = begin; i < end; ++i) reduce(fold, i);
    });
  }

  // The common reducers over floats, a row of results at a time.
  template <typename T>
  void run_rows(const device::KernelArguments& arguments) const {
    if (outputs_ == 0 || geometry_.lanes == 0) return;
    const auto* in = static_cast<const T*>(arguments.inputs[0]);
    const auto init = static_cast<float>(*static_cast<const T*>(arguments.inputs[1]));
    auto* out = static_cast<T*>(arguments.outputs[0]);
    const std::int64_t grain =
        std::max<std::int64_t>(1, 65536 / (taps_ * rows_->elements_per_row() + 16));
    const auto fold =
        combiner_ == Combiner::add ? WindowRows::Fold::sum : WindowRows::Fold::maximum;
    device::parallel_for(rows_->count(), grain, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (kIsHalf<T>) {
        rows_->run_narrow(fold, in, out, init, begin, end);
      } else {
        rows_->run(fold, in, out, init, begin, end);
      }
    });
  }

  template <typename Fold>
  void reduce(Fold& fold, std::int64_t item) const {
    const std::int64_t lane = item % chunks_ * kLanes;
    const std::int64_t lanes = std::min(kLanes, geometry_.lanes - lane);
    std::int64_t rest = item / chunks_, out = lane;
    Taps taps[ir::kMaxRank];
    for (std::size_t d = geometry_.axes.size(); d-- > 0;) {
      const WindowAxisGeometry& axis = geometry_.axes[d];
      const std::int64_t at = rest % axis.out_size;
      rest /= axis.out_size;
      out += at * axis.out_stride;
      taps[d] = axis.taps[static_cast<std::size_t>(at)];
    }
    fold.start(lanes);
    for_each_tap(geometry_.axes, taps,
                 [&](std::int64_t offset) { fold.take(offset + lane, lanes); });
    fold.store(out, lanes);
  }

  // Where line `item` begins.
  std::int64_t line_begin(const WindowAxisGeometry& along, std::int64_t item) const {
    std::int64_t rest = item / chunks_, at = item % chunks_ * kLanes;
    for (std::size_t d = geometry_.axes.size(); d-- > 0;) {
      const WindowAxisGeometry& axis = geometry_.axes[d];
      if (&axis == &along) continue;
      at += rest % axis.out_size * axis.out_stride;
      rest /= axis.out_size;
    }
    return at;
  }

  template <typename Fold>
  void scan(Fold& fold, const WindowAxisGeometry& along, std::int64_t item) const {
    const std::int64_t lanes = std::min(kLanes, geometry_.lanes - item % chunks_ * kLanes);
    std::int64_t at = line_begin(along, item);
    fold.start(lanes);
    for (std::int64_t i = 0; i < along.out_size; ++i, at += along.out_stride) {
      fold.take(at, lanes);
      fold.store(at, lanes);
    }
  }

  template <typename Fold>
  void scan_together(Fold& fold, const WindowAxisGeometry& along, std::int64_t first) const {
    std::int64_t begins[kScannedLines];
    for (int line = 0; line < kScannedLines; ++line) begins[line] = line_begin(along, first + line);
    fold.scan_lines(begins, along.out_size, along.out_stride);
  }

  WindowGeometry geometry_;
  ScalarProgram program_;
  std::vector<ir::DType> dtypes_;
  Combiner combiner_ = Combiner::none;
  std::int64_t outputs_ = 1, chunks_ = 1, taps_ = 1;
  int scan_axis_ = -1;
  std::optional<WindowRows> rows_;
};

}  // namespace

KernelResult make_reduce_window(const ir::Instruction& instruction) {
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram program,
                            ScalarProgram::compile(*instruction.to_apply(), true));
  return KernelResult(std::make_shared<ReduceWindow>(instruction, std::move(program)));
}

}  // namespace plimsoll::kernels
