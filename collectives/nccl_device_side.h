// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "collectives/nccl_groups.h"
#include "collectives/process_communicator.h"
#include "runtime/device/communicator.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/cuda_stream.h"

namespace plimsoll::collectives {

struct NcclOptions {
  std::chrono::duration<double> timeout = std::chrono::seconds(300);
  // Floats are not reduced here: all_reduce and reduce_scatter of them are UNIMPLEMENTED.
  bool keeps_order = false;
  // The largest message that speeds are measured with.
  std::int64_t largest_message = 8 << 20;
};

// A participant's calls on arrays in the memory of its GPU, by NCCL. Members first come together by
// `host`, which checks that they mean the same; then NCCL gets the work on a stream of its own,
// behind what the launching stream has been given, and is waited for: until it is done, NCCL or
// another participant has failed, the call is stopped, or, once what comes before is done, the
// time-out passes. After an error NCCL's communicators are aborted, and all others told.
//
// Reductions are NCCL's, in NCCL's order; those that it hasn't are UNIMPLEMENTED. Rows that lie
// apart go by way of scratch memory on the GPU, which is made here and counts as the device's
// overhead. Halves of transfers are UNIMPLEMENTED.
class NcclDeviceSide final : public device::Communicator, public device::Communicator::Memory {
 public:
  // `host` must outlive it.
  static Result<std::unique_ptr<NcclDeviceSide>> create(
      ProcessCommunicator& host, std::shared_ptr<device::cuda::CudaDevice> device,
      const device::cuda::Nccl& library, const NcclOptions& options);
  ~NcclDeviceSide() override;

  // Calls from here on are in this stream's order.
  void use(device::cuda::CudaStream& stream, const Stop* stop);
  device::cuda::CudaDevice& device() const { return *device_; }
  // When no call will come: `well` once the others have heard so.
  void end(bool well);

  std::int64_t participant() const override { return host_.participant(); }
  std::int64_t participants() const override { return host_.participants(); }
  Status all_reduce(const Call& call, std::span<const Reduce> arrays) override;
  Status reduce_scatter(const Call& call, std::span<const Reduce> arrays) override;
  Status exchange(const Call& call, std::span<const device::Rows> sends,
                  std::span<const device::Rows> receives) override;
  Status begin_send(const Passage& passage, const void* data, std::int64_t bytes) override;
  Status begin_receive(const Passage& passage, void* data, std::int64_t bytes) override;
  Status end_send(const Passage& passage) override;
  Status end_receive(const Passage& passage) override;
  void forget() override {}
  void leave(const Status& status) override { host_.leave(status); }

  device::Communicator::Memory* memory() override { return this; }
  Status copy(void* to, const void* from, std::int64_t bytes) override;
  Status clear(void* to, std::int64_t bytes) override;
  Status read(void* to, const void* from, std::int64_t bytes) override;
  device::Communicator& host() override;

 private:
  using Handle = device::cuda::NcclHandle;
  using Await = NcclGroups::Await;
  NcclDeviceSide(ProcessCommunicator& host, std::shared_ptr<device::cuda::CudaDevice> device,
                 const device::cuda::Nccl& library, const NcclOptions& options);

  // Rows of so many bytes are messages of their own; shorter ones share messages.
  static constexpr std::int64_t kLongRow = 64 << 10;
  // Rows of one array to or from one other member, of which a round moves some.
  struct Way {
    device::Rows rows;
    int peer = 0;
    bool sends = false;
    std::byte* slot = nullptr;  // in the scratch memory
    std::int64_t per_round() const;
    std::int64_t slot_bytes = 0;
    bool is_direct() const;
  };
  Status check_known(const Call& call, std::span<const Reduce> arrays) const;
  Status run(const Call& call, std::uint64_t words, std::span<const device::Rows> sends,
             std::span<const device::Rows> receives, const std::function<Status(Handle)>& enqueue,
             const Await& await);
  Status run_all(const Call& call, const std::function<Status(Handle)>& enqueue,
                 const Await& await);
  Await await_of(const Call& call);
  Status wait(const Call& call, const NcclGroups::Condition& condition, bool may_be_late);
  Status why(const Call& call, const Status& failed);
  Status gather(Handle handle, std::span<const device::Rows> sends,
                std::span<const device::Rows> receives, std::size_t members, const Await& await);
  Status trade(Handle handle, std::vector<Way> ways, const Await& await);
  Status trade_round(Handle handle, const std::vector<Way>& ways, std::int64_t round,
                     const Await& await);
  Status scatter_rows(Handle handle, const Reduce& array, std::int64_t members, const Await& await);

  ProcessCommunicator& host_;
  const std::shared_ptr<device::cuda::CudaDevice> device_;
  const NcclOptions options_;
  NcclGroups groups_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> ready_, done_;
  std::byte* scratch_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
  device::cuda::CudaStream* current_ = nullptr;
};

}  // namespace plimsoll::collectives
