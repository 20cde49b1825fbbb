// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/product.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "kernels/cuda/product_description.h"

namespace plimsoll::kernels::cuda {
namespace {

using device::cuda::BlasChoice;
using device::cuda::BlasHandle;
using device::cuda::Cublaslt;

class Product final : public device::Kernel {
 public:
  Product(std::shared_ptr<const ProductLibrary> library, const ProductShape& shape,
          std::unique_ptr<const ProductDescription> description, const BlasChoice& choice)
      : library_(std::move(library)),
        shape_(shape),
        description_(std::move(description)),
        choice_(choice) {}

  // Pointers of calls are those of the arrays, some strides further.
  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    const auto& on = static_cast<device::cuda::CudaStream&>(stream);
    const auto work = [&](BlasHandle handle) -> Status {
      for (std::int64_t i = 0; i < shape_.calls(); ++i) {
        PLIMSOLL_RETURN_IF_ERROR(multiply(handle, i, arguments, on.handle()));
      }
      return ok_status();
    };
    // The library loads code when it is first needed.
    const Status status = is_loaded_ ? library_->run(work) : library_->load(work);
    if (!status.ok()) return failed_launch(on, status, name_);
    is_loaded_ = true;
    return status;
  }
  std::int64_t workspace_bytes() const override {
    return with_room_to_align(static_cast<std::int64_t>(choice_.workspace_bytes));
  }
  device::KernelOrigin origin() const override { return device::KernelOrigin::library; }
  const std::string& name() const override { return name_; }

 private:
  Status multiply(BlasHandle handle, std::int64_t call, const device::KernelArguments& arguments,
                  device::cuda::StreamHandle stream) const {
    std::int64_t lhs = 0, rhs = 0, result = 0;
    for (auto turn = shape_.turns.rbegin(); turn != shape_.turns.rend(); ++turn) {
      const std::int64_t index = call % turn->count;
      lhs += index * turn->lhs_stride;
      rhs += index * turn->rhs_stride;
      result += index * turn->result_stride;
      call /= turn->count;
    }
    const auto place = [](const void* array, std::int64_t elements, ir::DType dtype) {
      return static_cast<const std::byte*>(array) + elements * ir::dtype_bytes(dtype);
    };
    const std::byte* const a = place(arguments.inputs[1], rhs, shape_.operands);
    const std::byte* const b = place(arguments.inputs[0], lhs, shape_.operands);
    auto* const d = const_cast<std::byte*>(place(arguments.outputs[0], result, shape_.result));
    return device::cuda::call(
        library_->functions(), &Cublaslt::multiply, handle, description_->operation(),
        description_->one(), static_cast<const void*>(a), description_->a(),
        static_cast<const void*>(b), description_->b(), description_->zero(),
        static_cast<const void*>(d), description_->d(), static_cast<void*>(d), description_->d(),
        &choice_.algorithm, aligned_workspace(arguments.workspace), choice_.workspace_bytes,
        stream);
  }

  const std::shared_ptr<const ProductLibrary> library_;
  const ProductShape shape_;
  const std::string name_ = "cublaslt.product";
  const std::unique_ptr<const ProductDescription> description_;
  const BlasChoice choice_;
  mutable std::atomic<bool> is_loaded_{false};
};

}  // namespace

std::int64_t most_workspace_bytes(const ProductShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{32} << 20, kShare = 2;
  const std::int64_t products = shape.batch * shape.calls();
  const std::int64_t bytes =
      products * ((shape.m + shape.n) * shape.k * ir::dtype_bytes(shape.operands) +
                  shape.m * shape.n * ir::dtype_bytes(shape.result));
  return std::min(bytes / kShare, kMost);
}

Result<std::shared_ptr<const device::Kernel>> make_product(
    std::shared_ptr<const ProductLibrary> library, const ProductShape& shape) {
  std::unique_ptr<const ProductDescription> description;
  BlasChoice choice;
  const Status chosen = library->load([&](BlasHandle handle) -> Status {
    PLIMSOLL_ASSIGN_OR_RETURN(description, ProductDescription::create(library->functions(), shape,
                                                                      library->allows_tf32()));
    PLIMSOLL_ASSIGN_OR_RETURN(choice, description->choose(handle, most_workspace_bytes(shape)));
    return ok_status();
  });
  // Another one would answer so as well.
  if (chosen.code() == StatusCode::unimplemented) return std::shared_ptr<const device::Kernel>();
  PLIMSOLL_RETURN_IF_ERROR(chosen);
  return std::shared_ptr<const device::Kernel>(
      std::make_shared<Product>(std::move(library), shape, std::move(description), choice));
}

}  // namespace plimsoll::kernels::cuda
