// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::device {

// A device that other libraries of the process use, too, so that memory may change hands between
// them and us without a copy.
class SharedDevice : public Device {
 public:
  // Blocks until all is done that anybody in this process has given the device so far. Thread-safe.
  virtual Status wait_for_all() = 0;
};

// The same of any device; one that nobody else uses has nothing to wait for.
inline Status wait_for_all(Device& device) {
  auto* const shared = dynamic_cast<SharedDevice*>(&device);
  return shared == nullptr ? ok_status() : shared->wait_for_all();
}

}  // namespace plimsoll::device
