// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/convolution_library.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/contraction/convolution_onednn.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kLeastGroups = 8;  // fewer leave threads without work
constexpr std::int64_t kMostSlots = 16;
// What padding may add to the filters is this many times their bytes, and no less than these bytes.
constexpr std::int64_t kMostGrowth = 4;
constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20;

LibraryConvolution one_group_of(LibraryConvolution c) {
  const std::int64_t groups = std::exchange(c.weights.dims[0], 1);
  c.src.dims[1] /= groups;
  c.dst.dims[1] /= groups;
  return c;
}

class GroupwiseConvolution final : public KernelBase {
 public:
  GroupwiseConvolution(const LibraryConvolution& all, std::shared_ptr<const OnednnConvolution> one)
      : KernelBase(one->name() + ".groupwise", device::KernelOrigin::library),
        groups_(all.weights.dims[0]),
        slots_(std::min(groups_, kMostSlots)),
        is_forward_(all.mode == ConvolutionMode::forward),
        src_step_(all.src.dims[1] / groups_ * all.src.strides[1] * dtype_bytes(all.src.dtype)),
        dst_step_(all.dst.dims[1] / groups_ * all.dst.strides[1] * dtype_bytes(all.dst.dtype)),
        weights_step_(all.weights.strides[0] * dtype_bytes(all.weights.dtype)),
        one_(std::move(one)),
        slot_bytes_(aligned_bytes(one_->workspace_bytes())) {
    reserve_workspace(slots_ * slot_bytes_);
  }

  Status launch(device::Stream&, const device::KernelArguments& arguments) const override {
    const void *src = arguments.inputs[0], *dst = arguments.outputs[0];
    if (!is_forward_) std::swap(src, dst);
    onednn::FirstFailure failure;
    device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) {
        void* const memory = byte_offset(arguments.workspace, slot * slot_bytes_);
        const std::int64_t last = groups_ * (slot + 1) / slots_;
        for (std::int64_t g = groups_ * slot / slots_; g < last; ++g) {
          failure.add(one_->run_alone(byte_offset(src, g * src_step_),
                                      byte_offset(arguments.inputs[1], g * weights_step_),
                                      byte_offset(dst, g * dst_step_), memory));
        }
      }
    });
    return failure.status();
  }

 private:
  std::int64_t groups_, slots_;
  bool is_forward_;
  std::int64_t src_step_, dst_step_, weights_step_;  // bytes from group to group
  std::shared_ptr<const OnednnConvolution> one_;
  std::int64_t slot_bytes_;
};

// Null where `whole` pads little, and for gradients of filters.
std::shared_ptr<const device::Kernel> make_groupwise(const LibraryConvolution& convolution,
                                                     const OnednnConvolution& whole) {
  if (convolution.mode == ConvolutionMode::filter_gradient ||
      convolution.weights.dims[0] < kLeastGroups) {
    return nullptr;
  }
  std::int64_t filters = dtype_bytes(convolution.weights.dtype);
  for (const std::int64_t size : convolution.weights.dims) filters *= size;
  const std::int64_t added = whole.library_filter_bytes() - filters;
  if (added < kLeastBytes || added < kMostGrowth * filters) return nullptr;
  auto one = std::make_shared<OnednnConvolution>(one_group_of(convolution));
  if (!one->prepare()) return nullptr;
  auto kernel = std::make_shared<GroupwiseConvolution>(convolution, std::move(one));
  if (kernel->workspace_bytes() > whole.workspace_bytes() / 2) return nullptr;
  return kernel;
}

}  // namespace

std::shared_ptr<const device::Kernel> make_library_convolution(
    const LibraryConvolution& convolution) {
  auto whole = std::make_shared<OnednnConvolution>(convolution);
  if (!whole->prepare()) return nullptr;
  if (auto groupwise = make_groupwise(convolution, *whole)) return groupwise;
  return whole;
}

}  // namespace plimsoll::kernels
