// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <mutex>

#include "jit/gpu/gpu_code.h"

#ifdef PLIMSOLL_HAVE_NVPTX
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}
#endif

namespace plimsoll::jit {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";

// The instruction set's version: what the architecture needs, no newer than a driver must be.
const char* ptx_feature(int compute_capability) {
  return compute_capability >= 100 ? "+ptx86" : compute_capability >= 90 ? "+ptx78" : "+ptx70";
}

// Without the numbers of calls, which LLVM counts over all modules of a process: equal modules have
// equal texts.
std::string without_call_numbers(llvm::StringRef text) {
  constexpr llvm::StringLiteral kNumber = "// callseq ";
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = text.find(kNumber); at != llvm::StringRef::npos; at = text.find(kNumber)) {
    result += text.take_front(at).rtrim(' ').str();
    text = text.drop_front(std::min(text.find('\n', at), text.size()));
  }
  return result += text.str();
}

}  // namespace

Status check_ptx_target() {
#ifdef PLIMSOLL_HAVE_NVPTX
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  return ok_status();
#else
  return failed_precondition(
      "compile for a GPU: this build's LLVM has no NVPTX target (build with an LLVM that has it)");
#endif
}

std::string ptx_target(GpuTarget target) {
  return fmt::format("sm_{} {}", target.compute_capability, ptx_feature(target.compute_capability));
}

Result<std::string> to_ptx(const GpuCode& code, GpuTarget target) {
  PLIMSOLL_RETURN_IF_ERROR(check_ptx_target());
  std::string problem;
  const llvm::Target* nvptx = llvm::TargetRegistry::lookupTarget(kTriple, problem);
  if (nvptx == nullptr) return internal_error("compile for a GPU: " + problem);
  llvm::TargetOptions options;
  // a * b + c of two operations is rounded twice, fused or not.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.NoTrappingFPMath = true;
  const std::string cpu = fmt::format("sm_{}", target.compute_capability);
  const std::unique_ptr<llvm::TargetMachine> machine(
      nvptx->createTargetMachine(kTriple, cpu, ptx_feature(target.compute_capability), options,
                                 std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) return internal_error("compile for a GPU: no target machine for " + cpu);
  // Generating code changes the module.
  const std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*code.module);
  copy->setDataLayout(machine->createDataLayout());
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    return internal_error("compile for a GPU: the target has no assembly text");
  }
  passes.run(*copy);
  return without_call_numbers(text);
}

}  // namespace plimsoll::jit
