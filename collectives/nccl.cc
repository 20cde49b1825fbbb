// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "collectives/gloo.h"
#include "collectives/speeds.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"

namespace plimsoll::collectives {
namespace {

Result<NcclOptions> options_of(const Membership& membership) {
  NcclOptions options;
  options.timeout = membership.timeout;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::string order, choice_variable(Variable::nccl_sums));
  options.keeps_order = order == "ordered";
  return options;
}

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::create(
    std::unique_ptr<ProcessCommunicator> host, std::shared_ptr<device::cuda::CudaDevice> device,
    const device::cuda::Nccl& library, const NcclOptions& options) {
  auto made = std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(host)));
  auto side = NcclDeviceSide::create(*made->host_, std::move(device), library, options);
  Status status = side.status();
  if (status.ok()) {
    made->device_side_ = std::move(*side);
    status = made->measure_messages(options.largest_message);
  }
  if (status.ok()) return made;
  status = status.with_context(fmt::format("participant {}", made->participant()));
  made->leave(status);
  return status;
}

// Which also makes NCCL take the memory for a communicator of all before plans are made.
Status NcclCommunicator::measure_messages(std::int64_t largest_message) {
  if (participants() == 1) return ok_status();
  device::Device& device = device_side_->device();
  const std::int64_t large =
      large_message(participants(), std::min<std::int64_t>(largest_message, 256 << 10),
                    largest_message, 64 << 20);
  const std::int64_t bytes = (1 + participants()) * large;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, device.create_stream());
  PLIMSOLL_ASSIGN_OR_RETURN(void* const memory, device.allocate(bytes));
  auto* const out = static_cast<std::byte*>(memory);
  const auto measured =
      measure_speeds(*on_device(*stream), *host_, MessageMemory{out, out + large, large});
  device.deallocate(memory, bytes);
  PLIMSOLL_RETURN_IF_ERROR(measured.status());
  speeds_ = *measured;
  return ok_status();
}

device::Communicator* NcclCommunicator::on_device(device::Stream& stream) {
  auto* const of_gpu = dynamic_cast<device::cuda::CudaStream*>(&stream);
  if (of_gpu == nullptr || device_side_ == nullptr ||
      &of_gpu->device() != &device_side_->device()) {
    return nullptr;
  }
  device_side_->use(*of_gpu, stop());
  return device_side_.get();
}

void NcclCommunicator::leave(const Status& status) {
  host_->leave(status);
  if (device_side_ != nullptr) device_side_->end(status.ok());
}

Result<std::unique_ptr<NcclCommunicator>> connect_nccl(
    const Membership& membership, const std::shared_ptr<device::Device>& device) {
  auto gpu = std::dynamic_pointer_cast<device::cuda::CudaDevice>(device);
  if (gpu == nullptr) {
    return failed_precondition(fmt::format(
        "communicator nccl: participant {} works on '{}', which is no GPU of NVIDIA's "
        "(PLIMSOLL_DEVICE=cuda takes the one of number LOCAL_RANK; communicator gloo is for all)",
        membership.rank, device->name()));
  }
  const auto& found = device::cuda::machine_nccl();
  if (!found.ok()) return found.status().with_context("communicator nccl");
  PLIMSOLL_ASSIGN_OR_RETURN(const NcclOptions options, options_of(membership));
  PLIMSOLL_ASSIGN_OR_RETURN(auto host, connect_gloo(membership));
  log_line(LogLevel::info, fmt::format("collectives of participant {} on {} by {} ({})",
                                       membership.rank, gpu->name(), found->name, found->file));
  return NcclCommunicator::create(std::move(host), std::move(gpu), *found->functions, options);
}

}  // namespace plimsoll::collectives
