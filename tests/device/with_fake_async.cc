// SPDX-License-Identifier: Apache-2.0
// Linked into programs whose tests run on fake_async, too, where PLIMSOLL_DEVICE says so.
#include "tests/device/fake_async.h"

namespace plimsoll::device {
namespace {

[[maybe_unused]] const bool kIsKnown = register_fake_async().ok();

}  // namespace
}  // namespace plimsoll::device
