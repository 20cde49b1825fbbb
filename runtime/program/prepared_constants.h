// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::executor {

using Kernels = std::unordered_map<const ir::Instruction*, std::shared_ptr<const device::Kernel>>;

// Constants as the kernels that read them want them (device/input_preparation.h), made once for all
// forms of a program. Thread-safe.
class PreparedConstants {
 public:
  // Of every constant that one instruction alone reads, whose kernel would bring it into another
  // form of as many bytes at each launch: the literal becomes that form, and the kernel the one
  // that takes it. From then on the module's constants are not those of its text. What can't be
  // prepared stays as it is.
  Status prepare(ir::Module& module, Kernels& kernels);

 private:
  using Literal = std::shared_ptr<const ir::Literal>;
  // By the constant's literal, which is kept so that its address is nobody else's, and the reader.
  std::mutex mutex_;  // guards what follows
  std::map<std::pair<const ir::Literal*, std::string>, std::pair<Literal, Literal>> made_;
};

}  // namespace plimsoll::executor
