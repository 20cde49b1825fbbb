// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/libraries/libraries.h"

#include "runtime/base/environment.h"
#include "runtime/base/log.h"

namespace plimsoll::device::cuda {
namespace {

// What is computed, and by what; the log says it where that is slower.
template <typename Found>
void take(const char* what, const Result<Found>& found, bool with_tf32, Libraries& libraries) {
  std::string name, about;
  if (found.ok()) {
    name = found->name + (with_tf32 ? " with TF32" : "");
    about = std::string(what) + " by " + name + " (" + found->file + ")";
  } else {
    name = std::string("own ") + what;
    about = std::string(what) + " by own kernels, slower: " + found.status().message();
    log_line(LogLevel::warning, "GPUs: " + about);
  }
  libraries.name += (libraries.name.empty() ? "" : ", ") + name;
  libraries.about += (libraries.about.empty() ? "" : "; ") + about;
}

Result<Libraries> find_libraries(int driver_version) {
  Libraries found;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string tf32, choice_variable(Variable::tf32));
  const std::string folders = variable_text(Variable::cuda_libraries).text;
  if (folders == "none") {
    found.name = "own products, own convolutions";
    found.about = found.name + " (PLIMSOLL_CUDA_LIBRARIES=none)";
    return found;
  }
  found.allows_tf32 = tf32 == "1";
  const auto products = open_cublaslt(driver_version, folders);
  if (products.ok()) found.products = products->functions;
  take("products", products, found.allows_tf32, found);
  const auto convolutions = open_cudnn(driver_version, folders);
  if (convolutions.ok()) found.convolutions = convolutions->functions;
  take("convolutions", convolutions, found.allows_tf32, found);
  return found;
}

}  // namespace

const Result<Libraries>& machine_libraries(int driver_version) {
  static const auto* const found = new Result<Libraries>(find_libraries(driver_version));
  return *found;
}

}  // namespace plimsoll::device::cuda
