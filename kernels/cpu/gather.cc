// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "kernels/cpu/indexing.h"
#include "kernels/cpu/start_indices.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

bool contains(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

class Gather final : public KernelBase {
 public:
  explicit Gather(const ir::Instruction& instruction)
      : KernelBase("gather", device::KernelOrigin::own),
        starts_(instruction.operand(1)->shape(), instruction.attributes().gather->index_vector_dim,
                instruction.attributes().gather->start_index_map,
                instruction.attributes().gather->operand_batching_dims,
                instruction.attributes().gather->start_indices_batching_dims),
        element_bytes_(dtype_bytes(instruction.shape().dtype())) {
    const ir::GatherDimensions& d = *instruction.attributes().gather;
    const auto& sizes = instruction.attributes().slice_sizes;
    const ir::Dims& dims = instruction.operand(0)->shape().dims();
    const ir::Dims& out = instruction.shape().dims();
    operand_strides_ = ir::row_major_strides(dims);
    const ir::Dims out_strides = ir::row_major_strides(out);
    std::vector<WindowAxis> axes;
    std::size_t next_offset = 0;
    std::vector<std::int64_t> offset_dims = d.offset_dims;
    for (int i = 0; i < dims.size(); ++i) {
      last_start_.push_back(dims[i] - sizes[static_cast<std::size_t>(i)]);
      if (contains(d.collapsed_slice_dims, i) || contains(d.operand_batching_dims, i)) continue;
      const int at = static_cast<int>(offset_dims[next_offset++]);
      axes.push_back({sizes[static_cast<std::size_t>(i)], operand_strides_[i], out_strides[at]});
    }
    for (int i = 0; i < out.size(); ++i) {
      if (!contains(offset_dims, i)) batch_strides_.push_back(out_strides[i]);
    }
    axes_ = merge_axes(std::move(axes));
    // The innermost axis is a run when both sides are contiguous.
    if (!axes_.empty() && axes_.back().operand_stride == 1 && axes_.back().other_stride == 1) {
      run_ = axes_.back().size;
      axes_.pop_back();
    }
    for (const WindowAxis& axis : axes_) runs_ *= axis.size;
    empty_ = instruction.shape().element_count() == 0;
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    if (empty_) return ok_status();
    const std::byte* operand = static_cast<const std::byte*>(arguments.inputs[0]);
    const void* indices = arguments.inputs[1];
    std::byte* out = static_cast<std::byte*>(arguments.outputs[0]);
    const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (run_ * element_bytes_ + 32));
    device::parallel_for(starts_.batch_count() * runs_, grain,
                         [&](std::int64_t begin, std::int64_t end) {
                           switch (element_bytes_) {
                             case 1:
                               return copy<1>(operand, indices, out, begin, end);
                             case 2:
                               return copy<2>(operand, indices, out, begin, end);
                             case 4:
                               return copy<4>(operand, indices, out, begin, end);
                             default:
                               return copy<8>(operand, indices, out, begin, end);
                           }
                         });
    return ok_status();
  }

 private:
  // Items are runs: batch position major, place in the window minor.
  template <std::int64_t kBytes>
  void copy(const std::byte* operand, const void* indices, std::byte* out, std::int64_t begin,
            std::int64_t end) const {
    ir::Dims start(std::vector<std::int64_t>(static_cast<std::size_t>(operand_strides_.size()), 0));
    std::int64_t read = -1, from_base = 0, to_base = 0;
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t batch = item / runs_;
      if (batch != read) {
        read = batch;
        starts_.read(indices, batch, start);
        from_base = to_base = 0;
        for (int i = 0; i < start.size(); ++i) {
          from_base +=
              std::clamp<std::int64_t>(start[i], 0, last_start_[static_cast<std::size_t>(i)]) *
              operand_strides_[i];
        }
        std::int64_t rest = batch;
        const auto& sizes = starts_.batch_dims();
        for (std::size_t d = sizes.size(); d-- > 0;) {
          to_base += rest % sizes[d] * batch_strides_[d];
          rest /= sizes[d];
        }
      }
      std::int64_t from = from_base, to = to_base, rest = item % runs_;
      for (std::size_t a = axes_.size(); a-- > 0;) {
        const std::int64_t at = rest % axes_[a].size;
        rest /= axes_[a].size;
        from += at * axes_[a].operand_stride;
        to += at * axes_[a].other_stride;
      }
      if (run_ == 1) {
        std::memcpy(out + to * kBytes, operand + from * kBytes, kBytes);
      } else {
        std::memcpy(out + to * kBytes, operand + from * kBytes,
                    static_cast<std::size_t>(run_ * kBytes));
      }
    }
  }

  StartIndices starts_;
  std::int64_t element_bytes_;
  ir::Dims operand_strides_;
  std::vector<std::int64_t> last_start_, batch_strides_;
  std::vector<WindowAxis> axes_;
  std::int64_t run_ = 1, runs_ = 1;
  bool empty_ = false;
};

}  // namespace

KernelResult make_gather(const ir::Instruction& instruction) {
  if (instruction.attributes().gather == nullptr)
    return invalid_argument("gather " + instruction.name() + ": no dimension numbers");
  return KernelResult(std::make_shared<Gather>(instruction));
}

}  // namespace plimsoll::kernels
