// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/cublaslt.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <span>

#include "runtime/device/cuda/libraries/library_file.h"

namespace plimsoll::device::cuda {
namespace {

constexpr std::array kCublasltSymbols = {
#define PLIMSOLL_CUBLASLT_CALL(result, member, symbol, parameters) #symbol,
#include "runtime/device/cuda/libraries/cublaslt.def"
#undef PLIMSOLL_CUBLASLT_CALL
};
static_assert(sizeof(Cublaslt) == kCublasltSymbols.size() * sizeof(void*));

constexpr std::array kCublasltFiles = {"libcublasLt.so.13", "libcublasLt.so.12",
                                       "libcublasLt.so.11"};

StatusCode code_of(BlasResult result) {
  switch (result) {
    case BlasResult::alloc_failed:
      return StatusCode::resource_exhausted;
    case BlasResult::not_supported:
    case BlasResult::arch_mismatch:
      return StatusCode::unimplemented;
    case BlasResult::invalid_value:
    case BlasResult::internal_error:
      return StatusCode::internal;
    default:
      return StatusCode::unavailable;
  }
}

// "13.1.0".
std::string version_text(const Cublaslt& library) {
  int numbers[3] = {};
  for (int i = 0; i < 3; ++i) (void)library.get_property(static_cast<BlasProperty>(i), numbers + i);
  return fmt::format("{}.{}.{}", numbers[0], numbers[1], numbers[2]);
}

Result<FoundCublaslt> open_one(const char* name, int driver_version, const std::string& folders) {
  PLIMSOLL_ASSIGN_OR_RETURN(const LibraryFile file, open_library(std::span(&name, 1), folders));
  auto table = std::make_unique<Cublaslt>();
  PLIMSOLL_RETURN_IF_ERROR(read_symbols(file, kCublasltSymbols, table.get()));
  // A driver runs libraries of its own major version of CUDA, and of those before.
  const auto needed = static_cast<int>(table->get_runtime_version());
  if (needed / 1000 > driver_version / 1000) {
    return not_found(fmt::format("{} is for drivers of CUDA {}, this one has {}.{}", file.name,
                                 needed / 1000, driver_version / 1000, driver_version % 1000 / 10));
  }
  FoundCublaslt found;
  found.name = "cuBLASLt " + version_text(*table);
  found.file = file.name;
  found.functions = table.release();  // as the library, for as long as the process runs
  return found;
}

}  // namespace

std::string_view cublaslt_symbol_at(std::size_t offset) {
  return kCublasltSymbols[offset / sizeof(void*)];
}

Status failure(const Cublaslt& library, BlasResult result, std::string_view symbol) {
  const char* const name =
      library.get_status_name == nullptr ? nullptr : library.get_status_name(result);
  const char* const text =
      library.get_status_string == nullptr ? nullptr : library.get_status_string(result);
  return Status(code_of(result),
                fmt::format("{}: {} ({}): {}", symbol, name == nullptr ? "unknown error" : name,
                            static_cast<int>(result), text == nullptr ? "no text" : text));
}

Result<FoundCublaslt> open_cublaslt(int driver_version, const std::string& folders) {
  std::string why;
  for (const char* const name : kCublasltFiles) {
    auto found = open_one(name, driver_version, folders);
    if (found.ok()) return found;
    if (why.empty()) why = found.status().message();
  }
  return not_found(why + " (install NVIDIA's cuBLAS of CUDA " +
                   std::to_string(driver_version / 1000) +
                   ", or name its folder in PLIMSOLL_CUDA_LIBRARIES)");
}

}  // namespace plimsoll::device::cuda
