// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "jit/gpu/gpu_code.h"
#include "jit/gpu/gpu_kernel.h"
#include "jit/keys/structural_key.h"
#include "runtime/base/hash.h"
#include "runtime/base/lru_cache.h"

namespace plimsoll::jit {
namespace {

constexpr int kLowest = 75;
constexpr std::size_t kMostKernels = 4096;

class CachingGpuCompiler final : public GpuCompiler {
 public:
  explicit CachingGpuCompiler(GpuTarget target) : target_(target) {}

  Result<std::shared_ptr<const GpuKernel>> compile(const ir::Instruction& instruction) override {
    // The key says nothing of attributes that only a library kernel reads.
    const auto written =
        is_gpu_library_kernel(instruction) ? std::nullopt : structural_key(instruction);
    const std::string key(written.value_or(std::string_view()));
    if (!key.empty()) {
      const std::lock_guard lock(mutex_);
      if (const auto* known = kernels_.find(key)) return *known;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const GpuCode code, write_gpu_code(instruction, target_));
    auto kernel = std::make_shared<GpuKernel>();
    PLIMSOLL_ASSIGN_OR_RETURN(kernel->ptx, to_ptx(code, target_));
    kernel->name = code.name;
    kernel->launches = code.launches;
    kernel->inputs = code.inputs;
    kernel->outputs = code.outputs;
    kernel->workspace_bytes = code.workspace_bytes;
    kernel->is_library = code.is_library;
    std::shared_ptr<const GpuKernel> result = std::move(kernel);
    if (!key.empty()) {
      const std::lock_guard lock(mutex_);
      kernels_.insert(key, result);
    }
    return result;
  }

 private:
  const GpuTarget target_;
  std::mutex mutex_;
  LruCache<std::string, std::shared_ptr<const GpuKernel>, TextHash> kernels_{kMostKernels};
};

}  // namespace

Result<std::unique_ptr<GpuCompiler>> GpuCompiler::create(GpuTarget target) {
  PLIMSOLL_RETURN_IF_ERROR(check_ptx_target());
  if (target.compute_capability < kLowest) {
    return unimplemented(fmt::format("compile for a GPU: compute capability {} (from {} on)",
                                     target.compute_capability, kLowest));
  }
  return std::unique_ptr<GpuCompiler>(std::make_unique<CachingGpuCompiler>(target));
}

}  // namespace plimsoll::jit
