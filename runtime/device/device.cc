// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

namespace plimsoll::device {

namespace {

Status keeps_no_work() { return unimplemented("a stream of this device can't be captured"); }

}  // namespace

Status Stream::begin_capture() { return keeps_no_work(); }
Result<std::unique_ptr<Graph>> Stream::end_capture() { return keeps_no_work(); }
Status Stream::launch(Graph& /*graph*/) { return keeps_no_work(); }

Status Device::injected_failure(Call call) const {
  const std::string on = std::string(name()) + ": ";
  constexpr std::string_view kWhy = ": failure injected by the test hook";
  switch (call) {
    case Call::allocate:
      return Status(StatusCode::resource_exhausted, on + "allocation" + std::string(kWhy));
    case Call::copy:
      return unavailable(on + "copy" + std::string(kWhy));
    case Call::launch:
      break;
  }
  return unavailable(on + "launch" + std::string(kWhy));
}

}  // namespace plimsoll::device
