// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <array>
#include <cstring>
#include <memory>

namespace plimsoll::device::cuda {
namespace {

constexpr std::array kSymbols = {
#define PLIMSOLL_CUDA_CALL(member, symbol, parameters) #symbol,
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL
};
static_assert(sizeof(Driver) == kSymbols.size() * sizeof(void*));

StatusCode code_of(DriverResult result) {
  switch (result) {
    case DriverResult::out_of_memory:
    case DriverResult::launch_out_of_resources:
      return StatusCode::resource_exhausted;
    case DriverResult::not_supported:
    case DriverResult::no_binary_for_gpu:
      return StatusCode::unimplemented;
    case DriverResult::invalid_value:
    case DriverResult::invalid_context:
    case DriverResult::invalid_ptx:
    case DriverResult::invalid_handle:
    case DriverResult::not_found:
    case DriverResult::illegal_address:
    case DriverResult::stream_capture_unsupported:
    case DriverResult::stream_capture_invalidated:
      return StatusCode::internal;
    default:
      return StatusCode::unavailable;
  }
}

}  // namespace

std::string_view symbol_at(std::size_t offset) { return kSymbols[offset / sizeof(void*)]; }

Status failure(const Driver& driver, DriverResult result, std::string_view symbol) {
  const char* name = nullptr;
  const char* text = nullptr;
  // An unknown number leaves them null.
  if (driver.get_error_name != nullptr) (void)driver.get_error_name(result, &name);
  if (driver.get_error_string != nullptr) (void)driver.get_error_string(result, &text);
  return Status(code_of(result),
                fmt::format("{}: {} ({}): {}", symbol, name == nullptr ? "unknown error" : name,
                            static_cast<int>(result), text == nullptr ? "no text" : text));
}

Result<const Driver*> open_driver(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return not_found(fmt::format("{} (install NVIDIA's driver)", why == nullptr ? library : why));
  }
  auto driver = std::make_unique<Driver>();
  for (std::size_t i = 0; i < kSymbols.size(); ++i) {
    void* const found = dlsym(handle, kSymbols[i]);
    if (found == nullptr) {
      dlclose(handle);
      return not_found(fmt::format("{} has no {} (install a driver of CUDA 11.4 or newer)", library,
                                   kSymbols[i]));
    }
    std::memcpy(reinterpret_cast<char*>(driver.get()) + i * sizeof(found), &found, sizeof(found));
  }
  // From here on the library may have threads of its own, and stays open whatever comes.
  const auto refused = [&](const Status& status) {
    return not_found(fmt::format("{}: {}", library, status.message()));
  };
  if (const Status status = call(*driver, &Driver::init, 0U); !status.ok()) return refused(status);
  int count = 0;
  if (const Status status = call(*driver, &Driver::device_get_count, &count); !status.ok()) {
    return refused(status);
  }
  if (count == 0) return not_found(fmt::format("{}: there is no GPU that it can use", library));
  return driver.release();  // for as long as the process runs, as the library is
}

}  // namespace plimsoll::device::cuda
