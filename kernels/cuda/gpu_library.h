// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/cuda_stream.h"

namespace plimsoll::kernels::cuda {

// One of NVIDIA's libraries, by its table of functions, ready for one GPU. What it takes of the
// GPU's memory for itself is counted (Context::count_library). Its code comes when a kernel is
// first launched, after plans were made: so kAheadBytes are counted beside what it takes when it is
// opened, and anew where they were not enough, and plans leave room for them. Thread-safe: its
// calls come one after the other.
template <typename Functions, typename Handle>
class GpuLibrary {
 public:
  static constexpr std::int64_t kAheadBytes = std::int64_t{16} << 20;

  // Null where there is none.
  static Result<std::shared_ptr<const GpuLibrary>> create(
      std::shared_ptr<const device::cuda::Context> context, const Functions* functions,
      bool allows_tf32) {
    if (functions == nullptr) return std::shared_ptr<const GpuLibrary>();
    std::shared_ptr<GpuLibrary> made(new GpuLibrary(std::move(context), *functions, allows_tf32));
    const Status opened = made->load([&](Handle) {
      return device::cuda::call(made->functions_, &Functions::create, &made->handle_);
    });
    if (!opened.ok()) {
      return Status(
          opened.code(),
          opened.message() + " (PLIMSOLL_CUDA_LIBRARIES=none computes without it, slower)");
    }
    return std::shared_ptr<const GpuLibrary>(std::move(made));
  }
  ~GpuLibrary() {
    if (handle_ != nullptr) {
      (void)run([&](Handle handle) {
        return device::cuda::call(functions_, &Functions::destroy, handle);
      });
    }
    context_->count_library(-counted_bytes_);
  }
  GpuLibrary(const GpuLibrary&) = delete;
  GpuLibrary& operator=(const GpuLibrary&) = delete;

  const Functions& functions() const { return functions_; }
  // Whether kernels may take f32 for TF32.
  bool allows_tf32() const { return allows_tf32_; }
  // `work`, of calls of the library, with the device's context current on this thread.
  template <typename Work>
  Status run(Work&& work) const {
    const std::lock_guard lock(mutex_);
    return context_->within([&] { return work(handle_); });
  }
  // The same, of what may make the library load code, which it does at first need: what that takes
  // of the GPU's memory counts until the library is let go.
  Status load(const std::function<Status(Handle)>& work) const {
    // It takes no more at once.
    constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
    const std::lock_guard lock(mutex_);
    const auto inside = [&] { return context_->within([&] { return work(handle_); }); };
    const auto taken = context_->measure_library(inside, kMostBytes);
    PLIMSOLL_RETURN_IF_ERROR(taken.status());
    taken_bytes_ += *taken;
    // In steps, so that limits are the same as long as what is counted is enough.
    if (taken_bytes_ > counted_bytes_ || counted_bytes_ == 0) {
      const std::int64_t counted = taken_bytes_ + kAheadBytes;
      context_->count_library(counted - counted_bytes_);
      counted_bytes_ = counted;
    }
    return ok_status();
  }

 private:
  GpuLibrary(std::shared_ptr<const device::cuda::Context> context, const Functions& functions,
             bool allows_tf32)
      : context_(std::move(context)), functions_(functions), allows_tf32_(allows_tf32) {}

  const std::shared_ptr<const device::cuda::Context> context_;
  const Functions& functions_;
  const bool allows_tf32_;
  Handle handle_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::int64_t taken_bytes_ = 0, counted_bytes_ = 0;
};

// Where a library's workspace begins: at a multiple of so many bytes. A kernel's own begins where
// every buffer does, and has room for what is left out.
inline constexpr std::int64_t kWorkspaceAlignment = 256;
constexpr std::int64_t with_room_to_align(std::int64_t workspace_bytes) {
  return workspace_bytes == 0 ? 0 : workspace_bytes + kWorkspaceAlignment - kBufferAlignment;
}
inline void* aligned_workspace(void* kernels) {
  constexpr auto kAlignment = static_cast<std::uintptr_t>(kWorkspaceAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(kernels);
  return reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
}

// What a launch on the stream comes to by which a library's call has failed. A library may do what
// can't be captured: then it is UNIMPLEMENTED, and the run goes on without a graph.
inline Status failed_launch(const device::cuda::CudaStream& stream, const Status& status,
                            const std::string& kernel) {
  const StatusCode code = stream.is_capturing() ? StatusCode::unimplemented : status.code();
  return Status(code, "'" + kernel + "': " + status.message());
}

using ProductLibrary = GpuLibrary<device::cuda::Cublaslt, device::cuda::BlasHandle>;
using ConvolutionLibrary = GpuLibrary<device::cuda::Cudnn, device::cuda::DnnHandle>;

}  // namespace plimsoll::kernels::cuda
