// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <memory>

#include "collectives/process_communicator.h"
#include "runtime/serve/served_program.h"

struct plm_communicator {
  std::shared_ptr<plimsoll::executor::ServedProgram::Peers> peers;  // with the executables
};
