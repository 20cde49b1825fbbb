// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cpu/indexing/indexing.h"
#include "kernels/cpu/indexing/start_indices.h"
#include "kernels/cpu/scalar/combine.h"
#include "kernels/cpu/scalar/scalar_program.h"
#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

bool contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

constexpr std::int64_t kMaxTasks = 16;

// Windows go in batch order, in runs that are contiguous on both sides where they can be. That is
// the updates' own order for each element when the window dims are the minor ones, or when windows
// with different starts are disjoint (only dims of extent 1 are indexed); otherwise windows are
// taken apart and elements go one by one in the updates' order.
class Scatter final : public KernelBase {
 public:
  // Additions of floats must come in the order of the updates, for every element of the operand,
  // whatever the number of workers. Tasks therefore share out the operand and not the updates:
  // every task reads all indices and does the windows that start in its share. That needs windows
  // which do not reach into another's share (disjoint), and windows large enough to be worth
  // reading all indices again.
  Scatter(const ir::Instruction& instruction, std::optional<ScalarProgram> program)
      : KernelBase("scatter", device::KernelOrigin::own),
        starts_(indices_of(instruction).shape(), dims_of(instruction).index_vector_dim,
                dims_of(instruction).scatter_dims_to_operand_dims,
                dims_of(instruction).input_batching_dims,
                dims_of(instruction).scatter_indices_batching_dims),
        combiner_(recognize_combiner(*instruction.to_apply())),
        program_(std::move(program)) {
    const ir::ScatterDimensions& d = dims_of(instruction);
    const std::size_t count = static_cast<std::size_t>(instruction.operand_count()) / 2;
    for (std::size_t i = 0; i < count; ++i)
      dtypes_.push_back(instruction.operand(static_cast<int>(i))->shape().dtype());
    if (count != 1) combiner_ = Combiner::none;
    const ir::Dims& dims = instruction.operand(0)->shape().dims();
    const ir::Dims& updates = instruction.operand(static_cast<int>(count) + 1)->shape().dims();
    operand_count_ = instruction.operand(0)->shape().element_count();
    update_count_ = instruction.operand(static_cast<int>(count) + 1)->shape().element_count();
    operand_strides_ = ir::row_major_strides(dims);
    const ir::Dims update_strides = ir::row_major_strides(updates);
    std::vector<WindowAxis> axes;
    std::size_t next = 0;
    bool disjoint = true;
    for (int i = 0; i < dims.size(); ++i) {
      std::int64_t extent = 1;
      if (!contains(d.inserted_window_dims, i) && !contains(d.input_batching_dims, i)) {
        const int at = static_cast<int>(d.update_window_dims[next++]);
        extent = updates[at];
        axes.push_back({extent, operand_strides_[i], update_strides[at]});
      }
      last_start_.push_back(dims[i] - extent);
      if (contains(d.scatter_dims_to_operand_dims, i) && extent != 1) disjoint = false;
    }
    std::int64_t last_batch_dim = -1;
    for (int i = 0; i < updates.size(); ++i) {
      if (contains(d.update_window_dims, i)) continue;
      batch_strides_.push_back(update_strides[i]);
      last_batch_dim = i;
    }
    const bool window_minor =
        d.update_window_dims.empty() || d.update_window_dims.front() > last_batch_dim;
    if (disjoint || window_minor) {
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
    for (const WindowAxis& axis : axes_) runs_ *= axis.size;
    // Every task reads all indices, so windows must be worth it.
    if (disjoint && !in_update_order_) {
      const std::int64_t by_window = std::clamp<std::int64_t>(run_ * runs_ / 16, 1, kMaxTasks);
      tasks_ = std::clamp<std::int64_t>(update_count_ / 16384, 1, by_window);
    }
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
    const void* indices = arguments.inputs[count];
    if (in_update_order_) {
      one_by_one(indices, arguments);
      return ok_status();
    }
    device::parallel_for(tasks_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) run_task(task, indices, arguments);
    });
    return ok_status();
  }

 private:
  static const ir::ScatterDimensions& dims_of(const ir::Instruction& instruction) {
    return *instruction.attributes().scatter;
  }
  static const ir::Instruction& indices_of(const ir::Instruction& instruction) {
    return *instruction.operand(instruction.operand_count() / 2);
  }

  // Where the window of batch position `batch` starts, in both arrays; false when it does not lie
  // wholly inside the operand.
  bool locate(const void* indices, std::int64_t batch, ir::Dims& start, std::int64_t& to,
              std::int64_t& from) const {
    starts_.read(indices, batch, start);
    to = from = 0;
    for (int i = 0; i < start.size(); ++i) {
      if (start[i] < 0 || start[i] > last_start_[at(i)]) return false;
      to += start[i] * operand_strides_[i];
    }
    const auto& sizes = starts_.batch_dims();
    for (std::size_t d = sizes.size(); d-- > 0;) {
      from += batch % sizes[d] * batch_strides_[d];
      batch /= sizes[d];
    }
    return true;
  }

  ir::Dims zero_start() const {
    return ir::Dims(
        std::vector<std::int64_t>(static_cast<std::size_t>(operand_strides_.size()), 0));
  }

  void run_task(std::int64_t task, const void* indices,
                const device::KernelArguments& arguments) const {
    // A task owns the windows whose start lies in its share of the operand. All windows that
    // touch an element have the same start, so shares touch disjoint elements.
    const std::int64_t low = operand_count_ * task / tasks_;
    const std::int64_t high = operand_count_ * (task + 1) / tasks_;
    if (combiner_ == Combiner::none) {
      ScalarProgram::Evaluator evaluator(*program_);
      walk(indices, low, high, [&](std::int64_t to, std::int64_t from) {
        evaluate_run(evaluator, arguments, to, from, run_);
      });
      return;
    }
    ir::visit_dtype(dtypes_[0], [&](auto zero) {
      using T = decltype(zero);
      T* out = static_cast<T*>(arguments.outputs[0]);
      const T* updates = static_cast<const T*>(arguments.inputs[2]);
      visit_combiner(combiner_, [&]<Combiner kKind>() {
        walk(indices, low, high, [&](std::int64_t to, std::int64_t from) {
          T* const a = out + to;
          const T* const b = updates + from;
          for (std::int64_t i = 0; i < run_; ++i) a[i] = combine<kKind>(a[i], b[i]);
        });
      });
    });
  }

  template <typename F>
  void walk(const void* indices, std::int64_t low, std::int64_t high, F&& on_run) const {
    ir::Dims start = zero_start();
    for (std::int64_t batch = 0; batch < starts_.batch_count(); ++batch) {
      std::int64_t to, from;
      if (!locate(indices, batch, start, to, from)) continue;
      if (tasks_ > 1 && (to < low || to >= high)) continue;
      for (std::int64_t run = 0; run < runs_; ++run) {
        std::int64_t to_run = to, from_run = from, rest = run;
        for (std::size_t a = axes_.size(); a-- > 0;) {
          const std::int64_t at = rest % axes_[a].size;
          rest /= axes_[a].size;
          to_run += at * axes_[a].operand_stride;
          from_run += at * axes_[a].other_stride;
        }
        on_run(to_run, from_run);
      }
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

  void one_by_one(const void* indices, const device::KernelArguments& arguments) const {
    ScalarProgram::Evaluator evaluator(*program_);
    ir::Dims start = zero_start();
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
      std::int64_t to, from;
      if (locate(indices, batch, start, to, from))
        evaluate_run(evaluator, arguments, to + offset, at, 1);
    }
  }

  StartIndices starts_;
  Combiner combiner_;
  std::optional<ScalarProgram> program_;
  std::vector<ir::DType> dtypes_;
  std::int64_t operand_count_ = 0, update_count_ = 0;
  ir::Dims operand_strides_;
  std::vector<std::int64_t> last_start_, batch_strides_;
  std::vector<WindowAxis> axes_;
  std::int64_t run_ = 1, runs_ = 1, tasks_ = 1;
  bool in_update_order_ = false;
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
