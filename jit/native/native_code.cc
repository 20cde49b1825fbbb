// SPDX-License-Identifier: Apache-2.0
#include "jit/native/native_code.h"

#include <fmt/core.h>
#include <llvm-c/Core.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>

#include "jit/emit/clean_up.h"
#include "jit/emit/elementwise.h"
#include "jit/native/generator_version.h"
#include "jit/native/symbols.h"
#include "runtime/base/fork.h"
#include "runtime/base/log.h"

namespace plimsoll::jit {
namespace {

Status to_status(llvm::Error error, std::string_view what) {
  return internal_error(std::string(what) + ": " + llvm::toString(std::move(error)));
}

void initialize_llvm() {
  [[maybe_unused]] static const bool is_done = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
}

// Of the last word on a feature, which counts.
bool has_feature(const llvm::SubtargetFeatures& features, llvm::StringRef name) {
  for (const std::string& feature : llvm::reverse(features.getFeatures())) {
    if (llvm::StringRef(feature).drop_front() == name) return feature[0] == '+';
  }
  return false;
}

int vector_bytes(const llvm::SubtargetFeatures& features) {
  const auto has = [&](llvm::StringRef name) { return has_feature(features, name); };
  if (has("avx512f") && has("avx512vl") && has("avx512dq") && has("avx512bw")) return 64;
  return has("avx2") ? 32 : 16;
}

// Of the first CPU, as the system tells it (sysconf counts the caches of cores that are not ours).
std::int64_t last_level_cache_bytes() {
  std::int64_t kibibytes = 0;
  for (int i = 0; i < 8; ++i) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", i));
    std::int64_t size = 0;
    char unit = 0;
    if (file >> size >> unit && unit == 'K') kibibytes = std::max(kibibytes, size);
  }
  constexpr std::int64_t kUsual = 32 << 10;  // where the system does not say
  return (kibibytes > 0 ? kibibytes : kUsual) << 10;
}

std::int64_t host_streaming_bytes(std::int64_t asked) {
  if (!llvm::Triple(llvm::sys::getProcessTriple()).isX86()) {
    return std::numeric_limits<std::int64_t>::max();
  }
  if (asked > 0) return asked;
  return last_level_cache_bytes();
}

// Everything but the kernel that decides its object.
std::string identity_of(const llvm::orc::JITTargetMachineBuilder& target,
                        const KernelTarget& kernel_target, const Options& options) {
  // Fails to compile when a member is added: kernels depend on it, too.
  const auto& [vector_bytes, avx512, avx512_vnni, streaming_bytes] = kernel_target;
  std::string text = "generator " + std::string(generator_version());
  text += "\nllvm " + llvm_version();
  text += "\ntriple " + target.getTargetTriple().str();
  text += "\ncpu " + target.getCPU();
  text += "\nfeatures " + target.getFeatures().getString();
  text += "\nvectors " + std::to_string(vector_bytes);
  text += "\navx512 " + std::to_string(avx512) + " vnni " + std::to_string(avx512_vnni);
  text += "\nstreaming " + std::to_string(streaming_bytes);
  text += "\nlevel " + std::to_string(options.optimization_level);
  text += "\nunwinding " + std::to_string(options.debugger_symbols);
  return text;
}

// Bytes of an object's sections that are loaded.
std::int64_t loaded_bytes(const std::string& object) {
  auto file = llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(object), "kernel"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return 0;
  }
  std::int64_t bytes = 0;
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    if (section.isText() || section.isData() || section.isBSS()) {
      bytes += static_cast<std::int64_t>(section.getSize());
    }
  }
  return bytes;
}

// What is loaded; shared with the code, which may outlive its compiler.
struct CodeBooks {
  std::atomic<std::int64_t> bytes{0}, peak_bytes{0};
  void add(std::int64_t more) {
    const std::int64_t now = bytes.fetch_add(more) + more;
    std::int64_t peak = peak_bytes.load();
    while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
    }
  }
};

class LinkedCode final : public NativeCode {
 public:
  LinkedCode(std::shared_ptr<llvm::orc::LLJIT> jit, llvm::orc::JITDylib& library,
             std::vector<PhaseEntry> entries, std::shared_ptr<CodeBooks> books, std::int64_t bytes)
      : jit_(std::move(jit)),
        library_(library),
        entries_(std::move(entries)),
        books_(std::move(books)),
        bytes_(bytes) {
    books_->add(bytes_);
  }
  ~LinkedCode() override {
    books_->add(-bytes_);
    llvm::consumeError(jit_->getExecutionSession().removeJITDylib(library_));
  }
  PhaseEntry entry(std::size_t phase) const override { return entries_[phase]; }

 private:
  std::shared_ptr<llvm::orc::LLJIT> jit_;
  llvm::orc::JITDylib& library_;
  std::vector<PhaseEntry> entries_;
  const std::shared_ptr<CodeBooks> books_;
  const std::int64_t bytes_;
};

class OrcCompiler final : public NativeCompiler {
 public:
  OrcCompiler(std::shared_ptr<llvm::orc::LLJIT> jit, llvm::orc::JITTargetMachineBuilder target,
              const Options& options)
      : jit_(std::move(jit)),
        target_(std::move(target)),
        kernel_target_{vector_bytes(target_.getFeatures()),
                       vector_bytes(target_.getFeatures()) == 64,
                       has_feature(target_.getFeatures(), "avx512vnni"),
                       host_streaming_bytes(options.streaming_bytes)},
        identity_(identity_of(target_, kernel_target_, options)),
        optimization_level_(options.optimization_level),
        unwinding_(options.debugger_symbols) {}

  KernelTarget kernel_target() const override { return kernel_target_; }
  const std::string& identity() const override { return identity_; }

  Result<KernelObject> generate(KernelCode code, CodeListing* listing, bool assembly) override {
    auto target = llvm::orc::JITTargetMachineBuilder(target_).createTargetMachine();
    if (!target) return to_status(target.takeError(), "create target machine");
    llvm::Module& module = *code.module;
    module.setDataLayout((*target)->createDataLayout());
    module.setTargetTriple((*target)->getTargetTriple().str());
    const std::string width = std::to_string(8 * kernel_target_.vector_bytes);
    for (llvm::Function& function : module) {
      if (function.isDeclaration()) continue;
      // The CPU model may prefer narrower vectors than the code is written in.
      function.addFnAttr("prefer-vector-width", width);
      function.addFnAttr("min-legal-vector-width", width);
      // Debuggers find a function's caller by its unwind table.
      if (unwinding_) function.setUWTableKind(llvm::UWTableKind::Async);
      std::string problem;
      llvm::raw_string_ostream stream(problem);
      if (llvm::verifyFunction(function, &stream)) {
        return internal_error("generated code is invalid: " + stream.str());
      }
    }
    if (optimization_level_ > 0) {
      (code.is_sequence ? clean_up_sequence : clean_up)(module, target->get());
    }
    if (listing != nullptr) {
      llvm::raw_string_ostream stream(listing->llvm);
      module.print(stream, nullptr);
      if (assembly) PLIMSOLL_RETURN_IF_ERROR(write_assembly(module, **target, listing->assembly));
    }
    auto object = llvm::orc::SimpleCompiler(**target)(module);
    if (!object) return to_status(object.takeError(), "compile");
    return KernelObject{std::move(code.phases), code.workspace_bytes, (*object)->getBuffer().str()};
  }

  Result<std::shared_ptr<const NativeCode>> load(const KernelObject& kernel) override {
    llvm::orc::ExecutionSession& session = jit_->getExecutionSession();
    const std::string name = "kernel" + std::to_string(++libraries_);
    llvm::orc::JITDylib& library = session.createBareJITDylib(name);
    library.addToLinkOrder(jit_->getMainJITDylib());
    std::vector<PhaseEntry> entries;
    // A copy: the linker wants it aligned, and keeps it.
    llvm::Error error =
        jit_->addObjectFile(library, llvm::MemoryBuffer::getMemBufferCopy(kernel.object, name));
    for (std::size_t i = 0; i < kernel.phases.size() && !error; ++i) {
      auto symbol = jit_->lookup(library, kernel.phases[i].function);
      if (!symbol) {
        error = symbol.takeError();
        break;
      }
      entries.push_back(symbol->toPtr<PhaseEntry>());
    }
    auto linked = std::make_shared<LinkedCode>(jit_, library, std::move(entries), books_,
                                               loaded_bytes(kernel.object));
    if (error) return to_status(std::move(error), "link");
    return std::shared_ptr<const NativeCode>(std::move(linked));
  }

  std::int64_t code_bytes() const override { return books_->bytes.load(); }
  std::int64_t peak_code_bytes() const override { return books_->peak_bytes.load(); }

 private:
  // Generating code changes the module, so it is done on a copy.
  static Status write_assembly(const llvm::Module& module, llvm::TargetMachine& target,
                               std::string& text) {
    const std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    llvm::SmallString<0> written;
    llvm::raw_svector_ostream stream(written);
    llvm::legacy::PassManager passes;
    if (target.addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
      return internal_error("the target has no assembly text");
    }
    passes.run(*copy);
    text = written.str().str();
    return ok_status();
  }

  std::shared_ptr<llvm::orc::LLJIT> jit_;
  const std::shared_ptr<CodeBooks> books_ = std::make_shared<CodeBooks>();
  llvm::orc::JITTargetMachineBuilder target_;
  KernelTarget kernel_target_;
  std::string identity_;
  int optimization_level_;
  bool unwinding_;
  std::atomic<std::int64_t> libraries_{0};
};

}  // namespace

std::string llvm_version() {
  unsigned major = 0, minor = 0, patch = 0;
  LLVMGetVersion(&major, &minor, &patch);  // of the library, not of the headers
  return fmt::format("{}.{}.{}", major, minor, patch);
}

Result<std::unique_ptr<NativeCompiler>> NativeCompiler::create(const Options& options) {
  const NoForkScope whole;  // LLVM has locks and tables of the process
  initialize_llvm();
  auto target = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!target) return to_status(target.takeError(), "detect the host CPU");
  llvm::SmallVector<llvm::StringRef> without;
  llvm::StringRef(options.without_features).split(without, ',', -1, /*KeepEmpty=*/false);
  for (const llvm::StringRef feature : without) target->getFeatures().AddFeature(feature);
  target->setCodeGenOptLevel(options.optimization_level > 0 ? llvm::CodeGenOptLevel::Default
                                                            : llvm::CodeGenOptLevel::None);
  target->setRelocationModel(llvm::Reloc::PIC_);
  // a * b + c of two operations is rounded twice, fused or not.
  target->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  target->getOptions().NoTrappingFPMath = true;
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(*target)
                 .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                 .setLinkProcessSymbolsByDefault(false)
                 .create();
  if (!jit) return to_status(jit.takeError(), "create the compiler");
  (*jit)->getExecutionSession().setErrorReporter(
      [](llvm::Error error) { llvm::consumeError(std::move(error)); });
  llvm::orc::SymbolMap symbols;
  const auto define = [&](llvm::StringRef name, void* address) {
    symbols[(*jit)->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  for (const RuntimeSymbol& symbol : runtime_symbols()) {
    define(llvm::StringRef(symbol.name.data(), symbol.name.size()), symbol.address);
  }
  define("memcpy", reinterpret_cast<void*>(&std::memcpy));
  define("memset", reinterpret_cast<void*>(&std::memset));
  define("memmove", reinterpret_cast<void*>(&std::memmove));
  if (auto error = (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols))) {
    return to_status(std::move(error), "define the runtime's symbols");
  }
  if (options.debugger_symbols) PLIMSOLL_RETURN_IF_ERROR(register_with_debuggers(**jit));
  if (options.perf_symbols) {
    // Not worth failing for.
    const Status map = write_perf_map(**jit);
    if (!map.ok()) log_line(LogLevel::warning, map.message());
  }
  return std::unique_ptr<NativeCompiler>(std::make_unique<OrcCompiler>(
      std::shared_ptr<llvm::orc::LLJIT>(std::move(*jit)), std::move(*target), options));
}

}  // namespace plimsoll::jit
