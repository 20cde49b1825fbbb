// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/driver_types.h"
#include "runtime/device/cuda/libraries/cublaslt_types.h"

namespace plimsoll::device::cuda {

// cuBLASLt as a table of functions (cublaslt.def): those of the library, or, in tests, of something
// that behaves as it does. Must outlive what is made with it.
struct Cublaslt {
#define PLIMSOLL_CUBLASLT_CALL(result, member, symbol, parameters) \
  result(*member) parameters = nullptr;
#include "runtime/device/cuda/libraries/cublaslt.def"
#undef PLIMSOLL_CUBLASLT_CALL
};

// The library of this machine, for a driver of this version (12040 for 12.4), and where it lies.
// It stays open for as long as the process runs. `folders` are looked in first. NOT_FOUND, with the
// reason and the remedy, where there is none that the driver can do with.
struct FoundCublaslt {
  const Cublaslt* functions = nullptr;
  std::string name;  // "cuBLASLt 13.1.0"
  std::string file;  // as it was opened
};
Result<FoundCublaslt> open_cublaslt(int driver_version, const std::string& folders);

// What a call that did not succeed comes to: `cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15):
// ...`. RESOURCE_EXHAUSTED where memory is short, UNIMPLEMENTED for what the library or the GPU has
// not, INTERNAL for what only a mistake of ours explains, else UNAVAILABLE.
Status failure(const Cublaslt& library, BlasResult result, std::string_view symbol);

// The symbol of a member at so many bytes of the table.
std::string_view cublaslt_symbol_at(std::size_t offset);

// Calls a member of the table; names it where that fails.
template <typename... Parameters, typename... Arguments>
Status call(const Cublaslt& library, BlasResult (*Cublaslt::*member)(Parameters...),
            Arguments... arguments) {
  const BlasResult result = (library.*member)(arguments...);
  if (result == BlasResult::success) return ok_status();
  const auto offset =
      reinterpret_cast<const char*>(&(library.*member)) - reinterpret_cast<const char*>(&library);
  return failure(library, result, cublaslt_symbol_at(static_cast<std::size_t>(offset)));
}

}  // namespace plimsoll::device::cuda
