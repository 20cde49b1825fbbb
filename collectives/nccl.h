// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/membership.h"
#include "collectives/nccl_device_side.h"
#include "collectives/process_communicator.h"

namespace plimsoll::collectives {

// A participant whose arrays are on a GPU: calls by `on_device` of a stream of that GPU go by NCCL
// (nccl_device_side.h), all others, with arrays in host memory, by messages of the host, which
// members of NCCL's calls meet by as well.
class NcclCommunicator final : public device::Communicator {
 public:
  // Measures messages of the device, at the same place as all others.
  static Result<std::unique_ptr<NcclCommunicator>> create(
      std::unique_ptr<ProcessCommunicator> host, std::shared_ptr<device::cuda::CudaDevice> device,
      const device::cuda::Nccl& library, const NcclOptions& options);
  ~NcclCommunicator() override { leave(ok_status()); }

  std::int64_t participant() const override { return host_->participant(); }
  std::int64_t participants() const override { return host_->participants(); }
  Status all_reduce(const Call& call, std::span<const Reduce> arrays) override {
    return host().all_reduce(call, arrays);
  }
  Status reduce_scatter(const Call& call, std::span<const Reduce> arrays) override {
    return host().reduce_scatter(call, arrays);
  }
  Status exchange(const Call& call, std::span<const device::Rows> sends,
                  std::span<const device::Rows> receives) override {
    return host().exchange(call, sends, receives);
  }
  Status begin_send(const Passage& passage, const void* data, std::int64_t bytes) override {
    return host().begin_send(passage, data, bytes);
  }
  Status begin_receive(const Passage& passage, void* data, std::int64_t bytes) override {
    return host().begin_receive(passage, data, bytes);
  }
  Status end_send(const Passage& passage) override { return host().end_send(passage); }
  Status end_receive(const Passage& passage) override { return host().end_receive(passage); }
  void forget() override { host_->forget(); }
  void leave(const Status& status) override;

  device::Communicator* on_device(device::Stream& stream) override;
  std::optional<Speeds> speeds() const override { return speeds_; }
  std::int64_t participants_here() const override { return host_->participants_here(); }

 private:
  explicit NcclCommunicator(std::unique_ptr<ProcessCommunicator> host) : host_(std::move(host)) {}
  ProcessCommunicator& host() {
    host_->set_stop(stop());
    return *host_;
  }
  Status measure_messages(std::int64_t largest_message);

  const std::unique_ptr<ProcessCommunicator> host_;
  std::unique_ptr<NcclDeviceSide> device_side_;
  std::optional<Speeds> speeds_;
};

// This process's, connected to all others, which have to ask for the same: through Gloo first, then
// through NCCL. Errors as of connect_gloo; FAILED_PRECONDITION for a device that is no GPU of
// NVIDIA's, NOT_FOUND where there is no NCCL.
Result<std::unique_ptr<NcclCommunicator>> connect_nccl(
    const Membership& membership, const std::shared_ptr<device::Device>& device);

}  // namespace plimsoll::collectives
