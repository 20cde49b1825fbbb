// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "kernels/cuda/convolution_description.h"
#include "runtime/base/alignment.h"

namespace plimsoll::kernels::cuda {
namespace {

using device::cuda::Cudnn;
using device::cuda::DnnHandle;

const char* name_of(ConvolutionMode mode) {
  switch (mode) {
    case ConvolutionMode::forward:
      return "cudnn.convolution.forward";
    case ConvolutionMode::input_gradient:
      return "cudnn.convolution.backward_data";
    case ConvolutionMode::filter_gradient:
      break;
  }
  return "cudnn.convolution.backward_filter";
}

class Convolution final : public device::Kernel {
 public:
  Convolution(std::shared_ptr<const ConvolutionLibrary> library, const ConvolutionShape& shape,
              std::shared_ptr<const device::Kernel> reorder,
              std::unique_ptr<const ConvolutionDescription> description,
              const ConvolutionAlgorithm& algorithm)
      : library_(std::move(library)),
        shape_(shape),
        name_(name_of(shape.mode)),
        reorder_(std::move(reorder)),
        description_(std::move(description)),
        algorithm_(algorithm) {
    if (reorder_ == nullptr) return;
    filters_bytes_ = aligned_bytes(shape.filter_elements() * ir::dtype_bytes(shape.dtype));
    reorder_bytes_ = aligned_bytes(reorder_->workspace_bytes());
  }

  // The workspace: filters in the library's order, what reordering needs, the algorithm's.
  std::int64_t workspace_bytes() const override {
    return filters_bytes_ + reorder_bytes_ +
           with_room_to_align(static_cast<std::int64_t>(algorithm_.workspace_bytes));
  }
  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    auto* const filters = static_cast<std::byte*>(arguments.workspace);
    std::byte* const between = filters + filters_bytes_;
    const bool gives_filters = shape_.mode == ConvolutionMode::filter_gradient;
    const void* w = gives_filters ? nullptr : arguments.inputs[1];
    void* result = arguments.outputs[0];
    if (reorder_ != nullptr && gives_filters) result = filters;
    if (reorder_ != nullptr && !gives_filters) {
      PLIMSOLL_RETURN_IF_ERROR(reorder(stream, w, filters, between));
      w = filters;
    }
    const void* const x =
        shape_.mode == ConvolutionMode::input_gradient ? nullptr : arguments.inputs[0];
    const void* const y = shape_.mode == ConvolutionMode::forward ? nullptr
                          : gives_filters                         ? arguments.inputs[1]
                                                                  : arguments.inputs[0];
    const auto& on = static_cast<device::cuda::CudaStream&>(stream);
    const auto work = [&](DnnHandle handle) -> Status {
      PLIMSOLL_RETURN_IF_ERROR(
          device::cuda::call(library_->functions(), &Cudnn::set_stream, handle, on.handle()));
      return description_->run(handle, algorithm_, x, w, y, result,
                               aligned_workspace(between + reorder_bytes_));
    };
    // The library loads code when it is first needed.
    const Status status = is_loaded_ ? library_->run(work) : library_->load(work);
    if (!status.ok()) return failed_launch(on, status, name_);
    is_loaded_ = true;
    if (reorder_ == nullptr || !gives_filters) return ok_status();
    return reorder(stream, filters, arguments.outputs[0], between);
  }
  device::KernelOrigin origin() const override { return device::KernelOrigin::library; }
  const std::string& name() const override { return name_; }

 private:
  Status reorder(device::Stream& stream, const void* from, void* to, void* workspace) const {
    return reorder_->launch(stream, {std::span(&from, 1), std::span(&to, 1), workspace});
  }

  const std::shared_ptr<const ConvolutionLibrary> library_;
  const ConvolutionShape shape_;
  const std::string name_;
  const std::shared_ptr<const device::Kernel> reorder_;
  const std::unique_ptr<const ConvolutionDescription> description_;
  const ConvolutionAlgorithm algorithm_;
  std::int64_t filters_bytes_ = 0, reorder_bytes_ = 0;
  mutable std::atomic<bool> is_loaded_{false};
};

}  // namespace

std::int64_t most_workspace_bytes(const ConvolutionShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{32} << 20, kShare = 8;
  const auto elements = [&](std::int64_t channels, const std::vector<std::int64_t>& places) {
    std::int64_t count = shape.batch * channels;
    for (const std::int64_t size : places) count *= size;
    return count;
  };
  const std::int64_t bytes = (elements(shape.inputs, shape.x) + elements(shape.outputs, shape.y) +
                              shape.filter_elements()) *
                             ir::dtype_bytes(shape.dtype);
  return std::min(bytes / kShare, kMost);
}

Result<std::shared_ptr<const device::Kernel>> make_convolution(
    std::shared_ptr<const ConvolutionLibrary> library, const ConvolutionShape& shape,
    std::shared_ptr<const device::Kernel> reorder) {
  std::unique_ptr<const ConvolutionDescription> description;
  ConvolutionAlgorithm algorithm;
  const Status chosen = library->load([&](DnnHandle handle) -> Status {
    PLIMSOLL_ASSIGN_OR_RETURN(
        description,
        ConvolutionDescription::create(library->functions(), shape, library->allows_tf32()));
    PLIMSOLL_ASSIGN_OR_RETURN(algorithm, description->choose(handle, most_workspace_bytes(shape)));
    return ok_status();
  });
  if (chosen.code() == StatusCode::unimplemented) return std::shared_ptr<const device::Kernel>();
  PLIMSOLL_RETURN_IF_ERROR(chosen);
  return std::shared_ptr<const device::Kernel>(std::make_shared<Convolution>(
      std::move(library), shape, std::move(reorder), std::move(description), algorithm));
}

}  // namespace plimsoll::kernels::cuda
