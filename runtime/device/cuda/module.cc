// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/module.h"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace plimsoll::device::cuda {
namespace {

// A block gets so much without asking for it.
constexpr std::uint32_t kSharedBytesOfAll = 48 << 10;

}  // namespace

Result<std::shared_ptr<Module>> Module::load(std::shared_ptr<const Context> context,
                                             const std::string& image) {
  std::shared_ptr<Module> made(new Module(std::move(context)));
  std::array<char, 4096> log{};
  std::array<JitOption, 2> options{JitOption::error_log_buffer, JitOption::error_log_buffer_bytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  made->text_bytes_ = image.size();
  const auto load = [&] {
    return made->context_->call(&Driver::module_load, &made->handle_, image.c_str(),
                                static_cast<unsigned>(options.size()), options.data(),
                                values.data());
  };
  const auto taken = made->context_->measure(load, image.size());
  if (!taken.ok()) {
    log.back() = '\0';
    const std::string text = log.data();
    const Status status = taken.status();
    return text.empty() ? status
                        : Status(status.code(), fmt::format("{}: {}", status.message(), text));
  }
  made->device_bytes_ = *taken;
  return made;
}

Module::~Module() {
  if (handle_ != nullptr) (void)context_->call(&Driver::module_unload, handle_);
  context_->forget(device_bytes_, text_bytes_);
}

Result<FunctionHandle> Module::function(const std::string& entry, std::uint32_t shared_bytes) {
  FunctionHandle found = nullptr;
  const auto find = [&] {
    return context_->call(&Driver::module_get_function, &found, handle_, entry.c_str());
  };
  const auto taken = context_->measure(find, 0);
  if (!taken.ok()) return taken.status().with_context("entry '" + entry + "'");
  device_bytes_ += *taken;
  if (shared_bytes > kSharedBytesOfAll) {
    const Status allowed =
        context_->call(&Driver::function_set_attribute, found,
                       FunctionAttribute::max_dynamic_shared_bytes, static_cast<int>(shared_bytes));
    if (!allowed.ok()) {
      return allowed.with_context(
          fmt::format("entry '{}' with {} bytes of shared memory a block", entry, shared_bytes));
    }
  }
  return found;
}

}  // namespace plimsoll::device::cuda
