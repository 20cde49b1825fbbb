// SPDX-License-Identifier: Apache-2.0
// Linked into programs whose tests run on fake_async, too, where PLIMSOLL_DEVICE says so.
#include <cstdlib>

#include "runtime/device/devices.h"
#include "tests/device/fake_async.h"

namespace plimsoll::device {
namespace {

// Tests that run on another device than they were asked to would show nothing.
[[maybe_unused]] const bool kIsKnown = [] {
  if (!register_fake_async().ok()) std::abort();
  // Another name may be known by who is linked in, too, and comes later.
  const char* const asked = std::getenv("PLIMSOLL_DEVICE");
  const bool is_meant = asked != nullptr && asked == fake_async_device()->name();
  if (is_meant && !check_device().ok()) std::abort();
  return true;
}();

}  // namespace
}  // namespace plimsoll::device
