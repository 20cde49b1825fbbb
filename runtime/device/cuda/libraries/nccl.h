// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/driver_types.h"
#include "runtime/device/cuda/libraries/nccl_types.h"

namespace plimsoll::device::cuda {

// NCCL as a table of functions (nccl.def): those of the library, or, in tests, of something that
// behaves as it does. Must outlive what is made with it.
struct Nccl {
#define PLIMSOLL_NCCL_CALL(result, member, symbol, parameters) result(*member) parameters = nullptr;
#include "runtime/device/cuda/libraries/nccl.def"
#undef PLIMSOLL_NCCL_CALL
};

// The library of this machine, and where it lies; looked for once, in the folders that
// PLIMSOLL_CUDA_LIBRARIES names and then where the loader looks. It stays open for as long as the
// process runs. NOT_FOUND, with the reason and the remedy, where there is none, or one older than
// 2.14. Thread-safe.
struct FoundNccl {
  const Nccl* functions = nullptr;
  std::string name;  // "NCCL 2.27.3"
  std::string file;  // as it was opened
};
const Result<FoundNccl>& machine_nccl();

// What a call that did not succeed comes to: `ncclAllReduce: unhandled system error (2): ...`, with
// what the library said last. INTERNAL for what only a mistake of ours explains, else UNAVAILABLE.
Status failure(const Nccl& library, NcclResult result, std::string_view symbol);

// The symbol of a member at so many bytes of the table.
std::string_view nccl_symbol_at(std::size_t offset);

// Calls a member of the table; names it where that fails. What goes on in the background has not
// failed yet: ncclCommGetAsyncError says how it ends.
template <typename... Parameters, typename... Arguments>
Status call(const Nccl& library, NcclResult (*Nccl::*member)(Parameters...),
            Arguments... arguments) {
  const NcclResult result = (library.*member)(arguments...);
  if (result == NcclResult::success || result == NcclResult::in_progress) return ok_status();
  const auto offset =
      reinterpret_cast<const char*>(&(library.*member)) - reinterpret_cast<const char*>(&library);
  return failure(library, result, nccl_symbol_at(static_cast<std::size_t>(offset)));
}

}  // namespace plimsoll::device::cuda
