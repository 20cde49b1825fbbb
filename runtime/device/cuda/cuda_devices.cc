// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/cuda_devices.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/driver.h"
#include "runtime/device/cuda/libraries/libraries.h"
#include "runtime/device/cuda/libraries/nccl.h"

namespace plimsoll::device::cuda {
namespace {

// Looked for once: a driver does not come while a process runs.
const Result<const Driver*>& machine_driver() {
  static const auto* const found = new Result<const Driver*>(open_driver());
  return *found;
}

Result<Libraries> libraries_for(const Driver& driver) {
  int version = 0;
  PLIMSOLL_RETURN_IF_ERROR(call(driver, &Driver::driver_get_version, &version));
  return machine_libraries(version);
}

}  // namespace

Result<std::shared_ptr<Device>> open_device(std::string_view name) {
  constexpr std::string_view kKind = "cuda:";
  int ordinal = -1;
  if (name.starts_with(kKind)) {
    const std::string_view number = name.substr(kKind.size());
    const auto read = std::from_chars(number.data(), number.data() + number.size(), ordinal);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) ordinal = -1;
  }
  if (ordinal < 0) return invalid_argument("GPUs are called cuda:0, cuda:1 and so on");
  PLIMSOLL_ASSIGN_OR_RETURN(const Driver* const driver, machine_driver());
  PLIMSOLL_ASSIGN_OR_RETURN(Libraries libraries, libraries_for(*driver));
  PLIMSOLL_ASSIGN_OR_RETURN(auto device,
                            CudaDevice::create(*driver, ordinal, std::move(libraries)));
  return std::shared_ptr<Device>(std::move(device));
}

std::vector<DeviceListing> list_devices() {
  const auto& driver = machine_driver();
  if (!driver.ok()) return {{"cuda", driver.status().message(), false}};
  int count = 0;
  const Status counted = call(**driver, &Driver::device_get_count, &count);
  if (!counted.ok()) return {{"cuda", counted.message(), false}};
  const auto libraries = libraries_for(**driver);
  const auto& nccl = machine_nccl();
  const std::string with =
      ", " + (libraries.ok() ? libraries->about : libraries.status().message()) + "; " +
      (nccl.ok() ? "participants by " + nccl->name + " (" + nccl->file + ")"
                 : "participants by way of the host: " + nccl.status().message());
  std::vector<DeviceListing> found;
  for (int i = 0; i < count; ++i) {
    std::array<char, 256> name{};
    DeviceHandle handle = 0;
    Status status = call(**driver, &Driver::device_get, &handle, i);
    if (status.ok()) {
      status = call(**driver, &Driver::device_get_name, name.data(),
                    static_cast<int>(name.size() - 1), handle);
    }
    found.push_back({fmt::format("cuda:{}", i), status.ok() ? name.data() + with : status.message(),
                     status.ok()});
  }
  return found;
}

}  // namespace plimsoll::device::cuda
