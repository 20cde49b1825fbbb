// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <type_traits>

#include "kernels/cpu/indexing/indexing.h"
#include "kernels/cpu/indexing/start_indices.h"
#include "kernels/cpu/scalar/combine.h"
#include "kernels/cpu/scalar/scalar_program.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

bool contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

constexpr std::int64_t kMaxTasks = 16, kCacheBytes = 1 << 22;
constexpr int kMaxReaders = 4;

// combine for loops that do not vectorize: of floats the greater or smaller one without a branch on
// which. Numbers that are equal have the same bits, but for zeros, whose signs are joined.
template <Combiner kKind, typename T>
T combine_one(T a, T b) {
  if constexpr (kKind == Combiner::maximum || kKind == Combiner::minimum) {
    if constexpr (kIsHalf<T>) {
      return T(combine_one<kKind>(static_cast<float>(a), static_cast<float>(b)));
    } else if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
      if (a == a && b == b) [[likely]] {
        if constexpr (kKind == Combiner::maximum) {
          return std::bit_cast<T>(std::bit_cast<Bits>(a > b ? a : b) &
                                  std::bit_cast<Bits>(b > a ? b : a));
        } else {
          return std::bit_cast<T>(std::bit_cast<Bits>(a < b ? a : b) |
                                  std::bit_cast<Bits>(b < a ? b : a));
        }
      }
    }
  }
  return combine<kKind>(a, b);
}

// Windows go in batch order, in runs that are contiguous on both sides where they can be. That is
// the updates' own order for each element when the window dims are the minor ones, or when windows
// with different starts are disjoint (only dims of extent 1 are indexed); otherwise windows are
// taken apart and elements go one by one in the updates' order.
class Scatter final : public KernelBase {
 public:
  // Additions of floats must come in the order of the updates, for every element of the operand,
  // whatever the number of workers. Tasks therefore share out the operand and not the updates:
  // every task reads all indices and does the windows that start in its share. That needs windows
  // which do not reach into another's share (disjoint).
  Scatter(const ir::Instruction& instruction, std::optional<ScalarProgram> program)
      : KernelBase("scatter", device::KernelOrigin::own),
        combiner_(recognize_combiner(*instruction.to_apply())),
        program_(std::move(program)) {
    const ir::ScatterDimensions& d = *instruction.attributes().scatter;
    const int count = instruction.operand_count() / 2;
    for (int i = 0; i < count; ++i) dtypes_.push_back(instruction.operand(i)->shape().dtype());
    if (count != 1) combiner_ = Combiner::none;
    const ir::Dims& dims = instruction.operand(0)->shape().dims();
    const ir::Dims& updates = instruction.operand(count + 1)->shape().dims();
    operand_count_ = instruction.operand(0)->shape().element_count();
    update_count_ = instruction.operand(count + 1)->shape().element_count();
    const ir::Dims operand_strides = ir::row_major_strides(dims);
    const ir::Dims update_strides = ir::row_major_strides(updates);
    std::vector<std::int64_t> last_start, batch_strides;
    std::vector<WindowAxis> axes;
    std::size_t next = 0;
    for (int i = 0; i < dims.size(); ++i) {
      std::int64_t extent = 1;
      if (!contains(d.inserted_window_dims, i) && !contains(d.input_batching_dims, i)) {
        const int at = static_cast<int>(d.update_window_dims[next++]);
        extent = updates[at];
        axes.push_back({extent, operand_strides[i], update_strides[at]});
      }
      last_start.push_back(dims[i] - extent);
      if (contains(d.scatter_dims_to_operand_dims, i) && extent != 1) disjoint_ = false;
    }
    std::int64_t last_batch_dim = -1;
    for (int i = 0; i < updates.size(); ++i) {
      if (contains(d.update_window_dims, i)) continue;
      batch_strides.push_back(update_strides[i]);
      last_batch_dim = i;
    }
    starts_.emplace(instruction.operand(0)->shape(), instruction.operand(count)->shape(), d,
                    last_start, batch_strides);
    const bool window_minor =
        d.update_window_dims.empty() || d.update_window_dims.front() > last_batch_dim;
    if (disjoint_ || window_minor) {
      axes_ = merge_axes(std::move(axes));
      if (!axes_.empty() && axes_.back().operand_stride == 1 && axes_.back().other_stride == 1) {
        run_ = axes_.back().size;
        axes_.pop_back();
      }
    } else {
      in_update_order_ = true;
      update_dims_ = updates;
      update_window_dims_ = d.update_window_dims;
      window_axes_ = std::move(axes);
    }
    window_count_ = run_;
    for (const WindowAxis& axis : axes_) window_count_ *= axis.size;
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    const std::size_t count = dtypes_.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (arguments.inputs[i] == arguments.outputs[i]) continue;
      const std::int64_t bytes = dtype_bytes(dtypes_[i]);
      const std::byte* from = static_cast<const std::byte*>(arguments.inputs[i]);
      std::byte* to = static_cast<std::byte*>(arguments.outputs[i]);
      device::parallel_for(
          operand_count_ * bytes, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
            std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
          });
    }
    if (update_count_ == 0 || operand_count_ == 0) return ok_status();
    if (in_update_order_) {
      one_by_one(arguments);
      return ok_status();
    }
    const std::int64_t tasks = task_count();
    device::parallel_for(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
      run_share(operand_count_ * begin / tasks, operand_count_ * end / tasks, arguments);
    });
    return ok_status();
  }

 private:
  // Every task reads all indices again. That is next to nothing beside large windows; small ones
  // must be many and not find the operand in a cache, and get no more tasks than workers.
  std::int64_t task_count() const {
    if (!disjoint_) return 1;
    std::int64_t most = std::min(window_count_ / 16, kMaxTasks);
    if (operand_count_ * dtype_bytes(dtypes_[0]) > kCacheBytes || combiner_ == Combiner::none)
      most = std::max<std::int64_t>(most, std::min(device::thread_count(), kMaxReaders));
    return std::clamp<std::int64_t>(update_count_ / 16384, 1, std::max<std::int64_t>(most, 1));
  }

  // The windows that start in [low, high) of the operand. All windows that touch an element have
  // the same start, so shares touch disjoint elements.
  void run_share(std::int64_t low, std::int64_t high,
                 const device::KernelArguments& arguments) const {
    StartIndices::Reader reader(*starts_, arguments.inputs[dtypes_.size()], low, high);
    if (combiner_ == Combiner::none) {
      ScalarProgram::Evaluator evaluator(*program_);
      walk(reader, [&](std::int64_t to, std::int64_t from, const WindowStarts& starts) {
        for (std::int64_t i = 0; i < starts.count; ++i)
          evaluate_run(evaluator, arguments, to + starts.to[i], from + starts.from[i], run_);
      });
      return;
    }
    ir::visit_dtype(dtypes_[0], [&](auto zero) {
      using T = decltype(zero);
      T* const out = static_cast<T*>(arguments.outputs[0]);
      const T* const updates = static_cast<const T*>(arguments.inputs[2]);
      visit_combiner(combiner_, [&]<Combiner kKind>() {
        walk(reader, [&](std::int64_t to, std::int64_t from, const WindowStarts& starts) {
          combine_runs<kKind>(out + to, updates + from, starts, run_);
        });
      });
    });
  }

  template <Combiner kKind, typename T>
  static void combine_runs(T* out, const T* updates, WindowStarts starts, std::int64_t length) {
    if (length == 1) {
      for (std::int64_t i = 0; i < starts.count; ++i)
        out[starts.to[i]] = combine_one<kKind>(out[starts.to[i]], updates[starts.from[i]]);
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      const auto at = [&](auto loop) {
        loop(out, updates, starts.to, starts.from, starts.count, length);
      };
      if constexpr (kKind == Combiner::add) return at(add_at);
      if constexpr (kKind == Combiner::maximum) return at(maximum_at);
      if constexpr (kKind == Combiner::minimum) return at(minimum_at);
    }
    for (std::int64_t i = 0; i < starts.count; ++i) {
      T* const a = out + starts.to[i];
      const T* const b = updates + starts.from[i];
      for (std::int64_t k = 0; k < length; ++k) a[k] = combine<kKind>(a[k], b[k]);
    }
  }

  // Calls `on_runs` with where a run starts in its window, on both sides, and the starts of
  // windows. Windows that overlap are done one after the other; of disjoint ones the same run of
  // many comes before the next run.
  template <typename F>
  void walk(StartIndices::Reader& reader, F&& on_runs) const {
    while (!reader.at_end()) {
      const WindowStarts starts = reader.next();
      const std::int64_t together = disjoint_ ? starts.count : 1;
      for (std::int64_t i = 0; i < starts.count; i += together)
        walk_window({starts.to + i, starts.from + i, together}, on_runs);
    }
  }

  template <typename F>
  void walk_window(const WindowStarts& starts, F&& on_runs) const {
    std::int64_t position[ir::kMaxRank] = {};
    std::int64_t to = 0, from = 0;
    for (;;) {
      on_runs(to, from, starts);
      std::size_t a = axes_.size();
      for (; a > 0; --a) {
        const WindowAxis& axis = axes_[a - 1];
        const bool wraps = ++position[a - 1] == axis.size;
        const std::int64_t steps = wraps ? 1 - axis.size : 1;
        to += steps * axis.operand_stride;
        from += steps * axis.other_stride;
        if (!wraps) break;
        position[a - 1] = 0;
      }
      if (a == 0) return;
    }
  }

  // Elements of one window are distinct, so they may be combined side by side.
  void evaluate_run(ScalarProgram::Evaluator& evaluator, const device::KernelArguments& arguments,
                    std::int64_t to, std::int64_t from, std::int64_t length) const {
    const std::size_t count = dtypes_.size();
    for (std::int64_t done = 0; done < length; done += ScalarProgram::kLanes) {
      const std::int64_t lanes = std::min(ScalarProgram::kLanes, length - done);
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t bytes = dtype_bytes(dtypes_[i]);
        const auto span = static_cast<std::size_t>(lanes * bytes);
        std::memcpy(evaluator.parameter(i), byte_offset(arguments.outputs[i], (to + done) * bytes),
                    span);
        std::memcpy(evaluator.parameter(count + i),
                    byte_offset(arguments.inputs[count + 1 + i], (from + done) * bytes), span);
      }
      evaluator.run(lanes);
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t bytes = dtype_bytes(dtypes_[i]);
        std::memcpy(byte_offset(arguments.outputs[i], (to + done) * bytes), evaluator.result(i),
                    static_cast<std::size_t>(lanes * bytes));
      }
    }
  }

  void one_by_one(const device::KernelArguments& arguments) const {
    ScalarProgram::Evaluator evaluator(*program_);
    StartIndices::Reader reader(*starts_, arguments.inputs[dtypes_.size()], 0, operand_count_);
    const ir::Dims strides = ir::row_major_strides(update_dims_);
    for (std::int64_t at = 0; at < update_count_; ++at) {
      std::int64_t batch = 0, offset = 0;
      std::size_t window = 0;
      for (int d = 0; d < update_dims_.size(); ++d) {
        const std::int64_t position = at / strides[d] % update_dims_[d];
        if (contains(update_window_dims_, d)) {
          offset += position * window_axes_[window++].operand_stride;
        } else {
          batch = batch * update_dims_[d] + position;
        }
      }
      reader.seek(batch);
      const WindowStarts starts = reader.next(1);
      if (starts.count > 0) evaluate_run(evaluator, arguments, *starts.to + offset, at, 1);
    }
  }

  std::optional<StartIndices> starts_;
  Combiner combiner_;
  std::optional<ScalarProgram> program_;
  std::vector<ir::DType> dtypes_;
  std::int64_t operand_count_ = 0, update_count_ = 0;
  // Of a window: the axes around its runs, the length of a run, and all elements.
  std::vector<WindowAxis> axes_;
  std::int64_t run_ = 1, window_count_ = 1;
  bool disjoint_ = true, in_update_order_ = false;
  ir::Dims update_dims_;
  std::vector<std::int64_t> update_window_dims_;
  std::vector<WindowAxis> window_axes_;
};

}  // namespace

KernelResult make_scatter(const ir::Instruction& instruction) {
  if (instruction.attributes().scatter == nullptr)
    return invalid_argument("scatter " + instruction.name() + ": no dimension numbers");
  PLIMSOLL_ASSIGN_OR_RETURN(ScalarProgram program,
                            ScalarProgram::compile(*instruction.to_apply(), false));
  return KernelResult(std::make_shared<Scatter>(instruction, std::move(program)));
}

}  // namespace plimsoll::kernels
