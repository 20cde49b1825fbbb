// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/device/communicator.h"
#include "runtime/ir/module.h"
#include "tools/command.h"

namespace plimsoll::tools {

// Which participants of a program this process runs.
struct Processes {
  std::size_t first = 0, count = 1, total = 1;
  // The way to the participants that other processes run; null: this one runs all.
  std::unique_ptr<device::Communicator> communicator;

  // Tells the other processes, if there are any, how this one ends.
  void leave(const Status& status);
};

// All participants of `module`, or, where `communicator` (else PLIMSOLL_COMMUNICATOR) is `gloo` or
// `nccl`, the one that this process is, connected to the others, which have come with the same
// program.
Outcome join_processes(const std::string& communicator, const ir::Module& module,
                       Processes& processes);

}  // namespace plimsoll::tools
