// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/context.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace plimsoll::device::cuda {
namespace {

// Machine code is no longer than twice its text, and the driver takes memory for code in pieces of
// 2 MiB, of which it has a few begun.
std::int64_t most_code_bytes(std::int64_t text_bytes) {
  return 2 * text_bytes + (std::int64_t{8} << 20);
}

}  // namespace

Context::Current::Current(const Context& context) : context_(context) {
  status_ = context.mark_.check(context.name_);
  if (!status_.ok()) return;
  const Driver& driver = context.driver_;
  ContextHandle current = nullptr;
  const DriverResult known = driver.context_get_current(&current);
  if (known == DriverResult::success && current == context.handle_) return;
  status_ = cuda::call(driver, &Driver::context_push, context.handle_);
  pushed_ = status_.ok();
  if (!pushed_) status_ = status_.with_context(context.name_);
}

Context::Current::~Current() {
  ContextHandle popped = nullptr;
  if (pushed_) (void)context_.driver_.context_pop(&popped);
}

Context::Context(const Driver& driver, int ordinal)
    : driver_(driver), name_(fmt::format("cuda:{}", ordinal)) {
  facts_.ordinal = ordinal;
}

Context::~Context() {
  // A child that was forked has no context to let go of.
  if (handle_ != nullptr && !mark_.is_inherited()) (void)driver_.primary_context_release(device_);
}

Result<std::shared_ptr<const Context>> Context::create(const Driver& driver, int ordinal) {
  std::shared_ptr<Context> made(new Context(driver, ordinal));
  const Status status = made->open();
  if (!status.ok()) return status.with_context(made->name_);
  return std::shared_ptr<const Context>(std::move(made));
}

Status Context::open() {
  int count = 0;
  PLIMSOLL_RETURN_IF_ERROR(cuda::call(driver_, &Driver::device_get_count, &count));
  if (facts_.ordinal < 0 || facts_.ordinal >= count) {
    return not_found(fmt::format("there is no such GPU: the driver shows {} of them ({})", count,
                                 "CUDA_VISIBLE_DEVICES says which"));
  }
  PLIMSOLL_RETURN_IF_ERROR(cuda::call(driver_, &Driver::device_get, &device_, facts_.ordinal));
  PLIMSOLL_RETURN_IF_ERROR(read_facts());
  PLIMSOLL_RETURN_IF_ERROR(cuda::call(driver_, &Driver::primary_context_retain, &handle_, device_));
  PLIMSOLL_ASSIGN_OR_RETURN(bytes_at_start_, free_bytes());
  return ok_status();
}

Status Context::read_facts() {
  std::array<char, 256> name{};
  PLIMSOLL_RETURN_IF_ERROR(cuda::call(driver_, &Driver::device_get_name, name.data(),
                                      static_cast<int>(name.size() - 1), device_));
  facts_.model = name.data();
  PLIMSOLL_RETURN_IF_ERROR(
      cuda::call(driver_, &Driver::driver_get_version, &facts_.driver_version));
  Status status;
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    const Status read = cuda::call(driver_, &Driver::device_get_attribute, &value, which, device_);
    if (status.ok()) status = read;
    return value;
  };
  facts_.compute_capability = 10 * attribute(DeviceAttribute::compute_capability_major) +
                              attribute(DeviceAttribute::compute_capability_minor);
  facts_.multiprocessors = attribute(DeviceAttribute::multiprocessor_count);
  facts_.threads_per_multiprocessor = attribute(DeviceAttribute::max_threads_per_multiprocessor);
  facts_.most_threads_per_block = attribute(DeviceAttribute::max_threads_per_block);
  facts_.most_shared_bytes = attribute(DeviceAttribute::max_shared_memory_per_block_optin);
  facts_.cache_bytes = attribute(DeviceAttribute::l2_cache_size);
  // Two transfers a clock: memory of double data rate.
  facts_.bytes_per_second = 2e3 * attribute(DeviceAttribute::memory_clock_rate) *
                            attribute(DeviceAttribute::global_memory_bus_width) / 8;
  facts_.maps_memory = attribute(DeviceAttribute::virtual_memory_management_supported) != 0;
  return status;
}

Status Context::within(const std::function<Status()>& work) const {
  const Current current(*this);
  if (!current.status().ok()) return current.status();
  return work().with_context(name_);
}

Result<std::int64_t> Context::measure_library(const std::function<Status()>& work,
                                              std::int64_t most_bytes) const {
  const std::lock_guard lock(taking_);
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t before, free_bytes());
  PLIMSOLL_RETURN_IF_ERROR(work());
  const auto after = free_bytes();
  return after.ok() ? std::clamp<std::int64_t>(before - *after, 0, most_bytes) : 0;
}

Result<std::int64_t> Context::measure(const std::function<Status()>& work,
                                      std::size_t text_bytes) const {
  const std::lock_guard lock(taking_);
  text_bytes_ += static_cast<std::int64_t>(text_bytes);
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t before, free_bytes());
  PLIMSOLL_RETURN_IF_ERROR(work());
  const auto after = free_bytes();
  // Another process may have given some back meanwhile.
  const std::int64_t most =
      std::max<std::int64_t>(most_code_bytes(text_bytes_) - overhead_bytes_, 0);
  const std::int64_t taken = after.ok() ? std::clamp<std::int64_t>(before - *after, 0, most) : 0;
  overhead_bytes_ += taken;
  return taken;
}

void Context::forget(std::int64_t bytes, std::size_t text_bytes) const {
  const std::lock_guard lock(taking_);
  overhead_bytes_ -= bytes;
  text_bytes_ -= static_cast<std::int64_t>(text_bytes);
}

Result<std::int64_t> Context::free_bytes() const {
  std::size_t free = 0, total = 0;
  PLIMSOLL_RETURN_IF_ERROR(call(&Driver::mem_get_info, &free, &total));
  return static_cast<std::int64_t>(free);
}

}  // namespace plimsoll::device::cuda
