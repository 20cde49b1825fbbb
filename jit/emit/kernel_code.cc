// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/kernel_code.h"

#include "jit/emit/avx512.h"

namespace plimsoll::jit {

KernelCode KernelCode::create(const KernelTarget& target) {
  KernelCode code;
  code.context = std::make_unique<llvm::LLVMContext>();
  code.module = std::make_unique<llvm::Module>("kernel", *code.context);
  avx512::allow(*code.module, target);
  return code;
}

}  // namespace plimsoll::jit
