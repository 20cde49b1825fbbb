// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/driver_types.h"

namespace plimsoll::device::cuda {

// The CUDA driver as a table of functions (driver.def): those of libcuda, or, in tests, of
// something that behaves as it does. All of them are thread-safe. Must outlive what is made with
// it.
struct Driver {
#define PLIMSOLL_CUDA_CALL(member, symbol, parameters) DriverResult(*member) parameters = nullptr;
#include "runtime/device/cuda/driver.def"
#undef PLIMSOLL_CUDA_CALL
};

inline constexpr const char* kDriverLibrary = "libcuda.so.1";

// The functions of this machine's driver, initialized. The library stays open for as long as the
// process runs. NOT_FOUND, with the reason and the remedy, where there is none, it is too old, or
// it has no GPU.
Result<const Driver*> open_driver(const std::string& library = kDriverLibrary);

// What a call that did not succeed comes to: `cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2): out of
// memory`. RESOURCE_EXHAUSTED where memory is short, UNIMPLEMENTED for what the driver or the
// device has not, INTERNAL for what only a mistake of ours explains, else UNAVAILABLE.
Status failure(const Driver& driver, DriverResult result, std::string_view symbol);

// The symbol of a member at so many bytes of the table.
std::string_view symbol_at(std::size_t offset);

// Calls a member of the table; names it where that fails.
template <typename... Parameters, typename... Arguments>
Status call(const Driver& driver, DriverResult (*Driver::*member)(Parameters...),
            Arguments... arguments) {
  const DriverResult result = (driver.*member)(arguments...);
  if (result == DriverResult::success) return ok_status();
  const auto offset =
      reinterpret_cast<const char*>(&(driver.*member)) - reinterpret_cast<const char*>(&driver);
  return failure(driver, result, symbol_at(static_cast<std::size_t>(offset)));
}

}  // namespace plimsoll::device::cuda
