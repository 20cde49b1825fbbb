// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/nccl.h"

#include <fmt/core.h>

#include <array>
#include <memory>
#include <span>

#include "runtime/base/environment.h"
#include "runtime/device/cuda/libraries/library_file.h"

namespace plimsoll::device::cuda {
namespace {

constexpr std::array kNcclSymbols = {
#define PLIMSOLL_NCCL_CALL(result, member, symbol, parameters) #symbol,
#include "runtime/device/cuda/libraries/nccl.def"
#undef PLIMSOLL_NCCL_CALL
};
static_assert(sizeof(Nccl) == kNcclSymbols.size() * sizeof(void*));

constexpr int kOldestNccl = 21400;

Result<FoundNccl> open_nccl(const std::string& folders) {
  constexpr std::array kFiles = {"libnccl.so.2"};
  constexpr std::string_view kRemedy =
      " (install NVIDIA's NCCL 2.14 or newer, or name its folder in PLIMSOLL_CUDA_LIBRARIES; "
      "PLIMSOLL_COMMUNICATOR=gloo needs none)";
  const Result<LibraryFile> file =
      folders == "none" ? Result<LibraryFile>(not_found("PLIMSOLL_CUDA_LIBRARIES=none"))
                        : open_library(kFiles, folders);
  if (!file.ok()) return not_found(file.status().message() + std::string(kRemedy));
  auto table = std::make_unique<Nccl>();
  int version = 0;
  const Status read = read_symbols(*file, kNcclSymbols, table.get());
  if (read.ok()) (void)table->get_version(&version);
  if (version < kOldestNccl) {
    return not_found(fmt::format("{}: {}{}", file->name,
                                 read.ok() ? fmt::format("version {}", version) : read.message(),
                                 kRemedy));
  }
  FoundNccl found;
  found.name = fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  found.file = file->name;
  found.functions = table.release();  // as the library, for as long as the process runs
  return found;
}

}  // namespace

const Result<FoundNccl>& machine_nccl() {
  static const auto* const found =
      new Result<FoundNccl>(open_nccl(variable_text(Variable::cuda_libraries).text));
  return *found;
}

std::string_view nccl_symbol_at(std::size_t offset) { return kNcclSymbols[offset / sizeof(void*)]; }

Status failure(const Nccl& library, NcclResult result, std::string_view symbol) {
  const char* const name =
      library.get_error_string == nullptr ? nullptr : library.get_error_string(result);
  const char* const last =
      library.get_last_error == nullptr ? nullptr : library.get_last_error(nullptr);
  const bool is_ours =
      result == NcclResult::invalid_argument || result == NcclResult::invalid_usage;
  return Status(is_ours ? StatusCode::internal : StatusCode::unavailable,
                fmt::format("{}: {} ({}){}{}", symbol, name == nullptr ? "unknown error" : name,
                            static_cast<int>(result), last == nullptr || *last == '\0' ? "" : ": ",
                            last == nullptr ? "" : last));
}

}  // namespace plimsoll::device::cuda
