// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
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
  // Gives the module deferred literals of its own, so that what is given back below is read by no
  // other program. Before anything else is done with the module.
  static void take_over(ir::Module& module);

  // Of every constant that one instruction alone reads, whose kernel would bring it into another
  // form of as many bytes at each launch: the literal becomes that form, and the kernel the one
  // that takes it. From then on the module's constants are not those of its text. What can't be
  // prepared stays as it is.
  Status prepare(ir::Module& module, Kernels& kernels);

  // Gives back what arrays of `source`, and those that were prepared, take beside the file that
  // they can be read from again, where no module of note_read does. Precondition: nobody else reads
  // `source` meanwhile.
  void forget_unread(const ir::Module& source);
  // The same of a module that nobody runs yet, which reads them when it does.
  static void forget(const ir::Module& module);
  // The module is about to run.
  void note_read(const ir::Module& module);

 private:
  using Literal = std::shared_ptr<const ir::Literal>;
  // By the constant's literal, which is kept so that its address is nobody else's, and the reader.
  std::mutex mutex_;  // guards what follows
  std::map<std::pair<const ir::Literal*, std::string>, std::pair<Literal, Literal>> made_;
  std::set<const void*> read_;  // Literal::deferred_bytes of the modules' constants
};

}  // namespace plimsoll::executor
