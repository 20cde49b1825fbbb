// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <memory>

#include "runtime/base/fork.h"
#include "runtime/device/communicator.h"

struct plm_communicator {
  // With the executables and contexts that use it.
  std::shared_ptr<plimsoll::device::SharedCommunicator> peers;
  plimsoll::ForkMark mark = {};
};
