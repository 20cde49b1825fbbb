// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

using KernelResult = Result<std::shared_ptr<const device::Kernel>>;

// What all kernels here share: a name, an origin and a workspace size fixed at creation.
class KernelBase : public device::Kernel {
 public:
  KernelBase(std::string name, device::KernelOrigin origin)
      : name_(std::move(name)), origin_(origin) {}
  std::int64_t workspace_bytes() const final { return workspace_bytes_; }
  device::KernelOrigin origin() const final { return origin_; }
  const std::string& name() const final { return name_; }

 protected:
  // Takes `bytes` of the workspace at a multiple of the buffer alignment; returns the offset.
  std::int64_t reserve_workspace(std::int64_t bytes) {
    const std::int64_t offset = workspace_bytes_;
    workspace_bytes_ += aligned_bytes(bytes);
    return offset;
  }

 private:
  std::string name_;
  device::KernelOrigin origin_;
  std::int64_t workspace_bytes_ = 0;
};

// A kernel made of a function `Status(Stream&, const KernelArguments&)` without workspace.
template <typename F>
class FunctionKernel final : public KernelBase {
 public:
  FunctionKernel(std::string name, F function)
      : KernelBase(std::move(name), device::KernelOrigin::own), function_(std::move(function)) {}
  Status launch(device::Stream& stream, const device::KernelArguments& arguments) const override {
    return function_(stream, arguments);
  }

 private:
  F function_;
};

template <typename F>
std::shared_ptr<const device::Kernel> make_function_kernel(std::string name, F function) {
  return std::make_shared<FunctionKernel<F>>(std::move(name), std::move(function));
}

inline std::byte* byte_offset(void* base, std::int64_t bytes) {
  return static_cast<std::byte*>(base) + bytes;
}
inline const std::byte* byte_offset(const void* base, std::int64_t bytes) {
  return static_cast<const std::byte*>(base) + bytes;
}

}  // namespace plimsoll::kernels
