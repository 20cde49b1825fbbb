// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/cudnn.h"

#include <fmt/core.h>

#include <array>
#include <memory>

#include "runtime/device/cuda/libraries/library_file.h"

namespace plimsoll::device::cuda {
namespace {

constexpr std::array kCudnnSymbols = {
#define PLIMSOLL_CUDNN_CALL(result, member, symbol, parameters) #symbol,
#include "runtime/device/cuda/libraries/cudnn.def"
#undef PLIMSOLL_CUDNN_CALL
};
static_assert(sizeof(Cudnn) == kCudnnSymbols.size() * sizeof(void*));

constexpr std::array kCudnnFiles = {"libcudnn.so.9"};

StatusCode code_of(DnnResult result) {
  if (result == DnnResult::host_allocation_failed ||
      result == DnnResult::device_allocation_failed) {
    return StatusCode::resource_exhausted;
  }
  constexpr int kKind = 1000;
  switch (static_cast<int>(result) / kKind) {
    case 2:
    case 4:
      return StatusCode::internal;
    case 3:
      return StatusCode::unimplemented;
    default:
      return StatusCode::unavailable;
  }
}

Result<FoundCudnn> find_cudnn(int driver_version, const std::string& folders) {
  PLIMSOLL_ASSIGN_OR_RETURN(const LibraryFile file, open_library(kCudnnFiles, folders));
  auto table = std::make_unique<Cudnn>();
  PLIMSOLL_RETURN_IF_ERROR(read_symbols(file, kCudnnSymbols, table.get()));
  const auto needed = static_cast<int>(table->get_runtime_version());
  if (needed / 1000 > driver_version / 1000) {
    return not_found(fmt::format("{} is for drivers of CUDA {}, this one has {}.{}", file.name,
                                 needed / 1000, driver_version / 1000, driver_version % 1000 / 10));
  }
  const std::size_t version = table->get_version();
  FoundCudnn found;
  found.name = fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  found.file = file.name;
  found.functions = table.release();  // as the library, for as long as the process runs
  return found;
}

}  // namespace

std::string_view cudnn_symbol_at(std::size_t offset) {
  return kCudnnSymbols[offset / sizeof(void*)];
}

Status failure(const Cudnn& library, DnnResult result, std::string_view symbol) {
  const char* const name =
      library.get_error_string == nullptr ? nullptr : library.get_error_string(result);
  return Status(code_of(result),
                fmt::format("{}: {} ({})", symbol, name == nullptr ? "unknown error" : name,
                            static_cast<int>(result)));
}

Result<FoundCudnn> open_cudnn(int driver_version, const std::string& folders) {
  auto found = find_cudnn(driver_version, folders);
  if (found.ok()) return found;
  return not_found(found.status().message() + " (install NVIDIA's cuDNN 9 for CUDA " +
                   std::to_string(driver_version / 1000) +
                   ", or name its folder in PLIMSOLL_CUDA_LIBRARIES)");
}

}  // namespace plimsoll::device::cuda
