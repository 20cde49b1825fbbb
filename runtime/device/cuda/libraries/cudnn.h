// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/device/cuda/driver_types.h"
#include "runtime/device/cuda/libraries/cudnn_types.h"

namespace plimsoll::device::cuda {

// cuDNN as a table of functions (cudnn.def): those of the library, or, in tests, of something that
// behaves as it does. Must outlive what is made with it.
struct Cudnn {
#define PLIMSOLL_CUDNN_CALL(result, member, symbol, parameters) \
  result(*member) parameters = nullptr;
#include "runtime/device/cuda/libraries/cudnn.def"
#undef PLIMSOLL_CUDNN_CALL
};

// The library of this machine, for a driver of this version (12040 for 12.4), and where it lies.
// It stays open for as long as the process runs, as do those that it opens itself. `folders` are
// looked in first. NOT_FOUND, with the reason and the remedy, where there is none that the driver
// can do with.
struct FoundCudnn {
  const Cudnn* functions = nullptr;
  std::string name;  // "cuDNN 9.14.0"
  std::string file;  // as it was opened
};
Result<FoundCudnn> open_cudnn(int driver_version, const std::string& folders);

// What a call that did not succeed comes to: `cudnnConvolutionForward: CUDNN_STATUS_BAD_PARAM
// (2000)`. RESOURCE_EXHAUSTED where memory is short, UNIMPLEMENTED for what the library or the GPU
// has not, INTERNAL for what only a mistake of ours explains, else UNAVAILABLE.
Status failure(const Cudnn& library, DnnResult result, std::string_view symbol);

// The symbol of a member at so many bytes of the table.
std::string_view cudnn_symbol_at(std::size_t offset);

// Calls a member of the table; names it where that fails.
template <typename... Parameters, typename... Arguments>
Status call(const Cudnn& library, DnnResult (*Cudnn::*member)(Parameters...),
            Arguments... arguments) {
  const DnnResult result = (library.*member)(arguments...);
  if (result == DnnResult::success) return ok_status();
  const auto offset =
      reinterpret_cast<const char*>(&(library.*member)) - reinterpret_cast<const char*>(&library);
  return failure(library, result, cudnn_symbol_at(static_cast<std::size_t>(offset)));
}

}  // namespace plimsoll::device::cuda
