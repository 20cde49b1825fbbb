// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <plimsoll/plimsoll.h>

#include <memory>
#include <mutex>
#include <vector>

#include "plugins/pjrt/client.h"

// An array in a device's memory.
struct plimsoll::pjrt::abi::Buffer {
  struct Release {
    void operator()(plm_buffer* buffer) const { plm_buffer_release(buffer); }
  };
  struct EndHold {
    void operator()(plm_hold* hold) const { plm_hold_release(hold); }
  };

  Buffer(Device* owner, plm_buffer* made);

  Device* const device;
  const std::unique_ptr<plm_buffer, Release> handle;
  // From the minor dim on; what layouts refer to.
  std::vector<std::int64_t> minor_to_major;
  std::mutex mutex;  // guards what follows
  // While others have its address.
  std::unique_ptr<plm_hold, EndHold> hold;
  std::int64_t external_references = 0;
};
