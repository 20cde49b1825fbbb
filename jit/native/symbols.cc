// SPDX-License-Identifier: Apache-2.0
#include "jit/native/symbols.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <llvm/ExecutionEngine/Orc/DebugObjectManagerPlugin.h>
#include <llvm/ExecutionEngine/Orc/EPCDebugObjectRegistrar.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

namespace plimsoll::jit {
namespace {

llvm::orc::ObjectLinkingLayer& linking_layer(llvm::orc::LLJIT& jit) {
  // What LLJIT makes for x86-64 and AArch64 ELF targets.
  return static_cast<llvm::orc::ObjectLinkingLayer&>(jit.getObjLinkingLayer());
}

// The process's map: opened once, shared by all compilers.
class PerfMap {
 public:
  static PerfMap& instance() {
    static PerfMap map;
    return map;
  }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }

  void add(const std::string& lines) {
    const std::lock_guard lock(mutex_);
    if (file_ >= 0 && ::write(file_, lines.data(), lines.size()) < 0) {
      ::close(file_);
      file_ = -1;
    }
  }

 private:
  PerfMap() : path_(fmt::format("/tmp/perf-{}.map", ::getpid())) {
    // Everybody may write to /tmp: no links are followed, and what is there must be ours.
    file_ = ::open(path_.c_str(),
                   O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat info;
    if (file_ < 0 || ::fstat(file_, &info) != 0) {
      error_ = path_ + ": " + std::strerror(errno);
    } else if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || info.st_nlink != 1) {
      error_ = path_ + ": belongs to another user";
    } else if (::ftruncate(file_, 0) != 0) {  // left by an earlier process of this number
      error_ = path_ + ": " + std::strerror(errno);
    }
    if (error_.empty() || file_ < 0) return;
    ::close(file_);
    file_ = -1;
  }

  std::string path_, error_;
  std::mutex mutex_;
  int file_ = -1;
};

class PerfMapPlugin final : public llvm::orc::ObjectLinkingLayer::Plugin {
 public:
  void modifyPassConfig(llvm::orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& config) override {
    config.PostFixupPasses.emplace_back([](llvm::jitlink::LinkGraph& graph) {
      std::string lines;
      for (const llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
        if (!symbol->hasName() || !symbol->isCallable() || symbol->getSize() == 0) continue;
        char place[64];
        std::snprintf(place, sizeof place, "%" PRIx64 " %" PRIx64 " ",
                      symbol->getAddress().getValue(), std::uint64_t{symbol->getSize()});
        lines += place + symbol->getName().str() + '\n';
      }
      PerfMap::instance().add(lines);
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(llvm::orc::MaterializationResponsibility&) override {
    return llvm::Error::success();
  }
  llvm::Error notifyRemovingResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey) override {
    return llvm::Error::success();
  }
  void notifyTransferringResources(llvm::orc::JITDylib&, llvm::orc::ResourceKey,
                                   llvm::orc::ResourceKey) override {}
};

}  // namespace

Status register_with_debuggers(llvm::orc::LLJIT& jit) {
  llvm::orc::ExecutionSession& session = jit.getExecutionSession();
  auto registrar = std::make_unique<llvm::orc::EPCDebugObjectRegistrar>(
      session, llvm::orc::ExecutorAddr::fromPtr(&llvm_orc_registerJITLoaderGDBWrapper));
  linking_layer(jit).addPlugin(std::make_shared<llvm::orc::DebugObjectManagerPlugin>(
      session, std::move(registrar), /*RequireDebugSections=*/false, /*AutoRegisterCode=*/true));
  return ok_status();
}

Status write_perf_map(llvm::orc::LLJIT& jit) {
  const PerfMap& map = PerfMap::instance();
  if (!map.error().empty()) return unavailable("the map of kernels for perf: " + map.error());
  linking_layer(jit).addPlugin(std::make_shared<PerfMapPlugin>());
  return ok_status();
}

}  // namespace plimsoll::jit
