// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "jit/cache/disk_cache.h"
#include "jit/gpu/gpu_code.h"
#include "jit/gpu/gpu_codec.h"
#include "jit/gpu/gpu_kernel.h"
#include "jit/gpu/gpu_kernel_text.h"
#include "jit/keys/structural_key.h"
#include "jit/native/generator_version.h"
#include "jit/native/native_code.h"
#include "runtime/base/hash.h"
#include "runtime/base/lru_cache.h"
#include "runtime/ir/fusions/attention.h"

namespace plimsoll::jit {
namespace {

using KernelResult = Result<std::shared_ptr<const GpuKernel>>;

constexpr int kLowest = 75;
constexpr std::size_t kMostKernels = 4096;

// Everything but the kernel that decides its PTX.
std::string identity_of(const GpuTarget& target) {
  return fmt::format("generator {}\nllvm {}\n{}", generator_version(), llvm_version(),
                     ptx_target(target));
}

class CachingGpuCompiler final : public GpuCompiler {
 public:
  CachingGpuCompiler(GpuTarget target, const DiskCacheOptions& disk_cache)
      : target_(target), disk_(disk_cache, identity_of(target)) {}

  KernelResult compile(const ir::Instruction& instruction) override {
    const auto written = structural_key(instruction);
    std::string key;
    if (written) key = "instruction " + std::string(*written);
    // What no other kernel reads, and no key says.
    if (written && ir::claims_attention(instruction)) {
      key.append(" ").append(instruction.attributes().find_extra("backend_config"));
    }
    return find_or_make(key, [&] { return write_gpu_code(instruction, target_); });
  }

  Result<GpuCodec> codec(const ir::Codec& codec, const ir::Shape& shape) override {
    GpuCodec made;
    for (const bool encode : {true, false}) {
      const std::string key = fmt::format("{} {}, seed {}, of {}", encode ? "encode" : "decode",
                                          ir::to_string(codec), codec.seed, shape.to_string());
      std::shared_ptr<const GpuKernel>& kernel = encode ? made.encode : made.decode;
      PLIMSOLL_ASSIGN_OR_RETURN(kernel, find_or_make(key, [&] {
                                  return encode ? write_gpu_encoder(codec, shape)
                                                : write_gpu_decoder(codec, shape);
                                }));
    }
    return made;
  }

 private:
  // Of two threads that want the same kernel both may make it, which is the same text.
  template <typename Write>
  KernelResult find_or_make(const std::string& key, Write write) {
    if (!key.empty()) {
      const std::lock_guard lock(mutex_);
      if (const auto* known = kernels_.find(key)) return *known;
    }
    std::shared_ptr<const GpuKernel> kernel;
    const auto text = key.empty() ? std::nullopt : disk_.find(key);
    if (auto stored = text ? read_gpu_kernel(*text) : std::nullopt) {
      kernel = std::make_shared<GpuKernel>(*std::move(stored));
    } else {
      PLIMSOLL_ASSIGN_OR_RETURN(const GpuCode code, write());
      PLIMSOLL_ASSIGN_OR_RETURN(kernel, assemble(code));
      if (!key.empty()) disk_.store(key, write_gpu_kernel(*kernel));
    }
    if (key.empty()) return kernel;
    const std::lock_guard lock(mutex_);
    kernels_.insert(key, kernel);
    return kernel;
  }

  KernelResult assemble(const GpuCode& code) const {
    auto kernel = std::make_shared<GpuKernel>();
    PLIMSOLL_ASSIGN_OR_RETURN(kernel->ptx, to_ptx(code, target_));
    kernel->name = code.name;
    kernel->launches = code.launches;
    kernel->inputs = code.inputs;
    kernel->outputs = code.outputs;
    kernel->workspace_bytes = code.workspace_bytes;
    kernel->is_library = code.is_library;
    return std::shared_ptr<const GpuKernel>(std::move(kernel));
  }

  const GpuTarget target_;
  DiskCache disk_;
  std::mutex mutex_;
  LruCache<std::string, std::shared_ptr<const GpuKernel>, TextHash> kernels_{kMostKernels};
};

}  // namespace

Result<std::unique_ptr<GpuCompiler>> GpuCompiler::create(GpuTarget target,
                                                         const DiskCacheOptions& disk_cache) {
  PLIMSOLL_RETURN_IF_ERROR(check_ptx_target());
  if (target.compute_capability < kLowest) {
    return unimplemented(fmt::format("compile for a GPU: compute capability {} (from {} on)",
                                     target.compute_capability, kLowest));
  }
  return std::unique_ptr<GpuCompiler>(std::make_unique<CachingGpuCompiler>(target, disk_cache));
}

}  // namespace plimsoll::jit
