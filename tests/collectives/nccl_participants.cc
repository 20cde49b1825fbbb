// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/nccl_participants.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <thread>
#include <utility>

#include "collectives/gloo.h"
#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using device::Communicator;
using device::CopyKind;
using device::Rows;
using device::cuda::RecordedGpu;

// Blocks of a GPU's memory for as long as a call takes, with what they hold in host memory.
class OnGpu {
 public:
  explicit OnGpu(device::Device& device, device::Stream& stream)
      : device_(device), stream_(stream) {}
  ~OnGpu() {
    // A failure that a test asks for may fall to the first.
    EXPECT_TRUE(stream_.synchronize().ok() || stream_.synchronize().ok());
    for (const auto& [host, memory] : blocks_) {
      if (memory != nullptr) device_.deallocate(memory, host.second);
    }
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  // The same place for the same memory.
  std::byte* bring(const void* host, std::int64_t bytes) {
    void*& memory = blocks_[{host, bytes}];
    if (memory == nullptr) {
      auto made = device_.allocate(bytes);
      if (!made.ok()) {
        status_ = made.status();
        return nullptr;
      }
      memory = *made;
      const Status copied = stream_.copy(memory, host, bytes, CopyKind::host_to_device);
      if (status_.ok()) status_ = copied;
    }
    return static_cast<std::byte*>(memory);
  }
  Rows bring(const Rows& rows) {
    if (rows.count * rows.bytes == 0) return rows;
    Rows there = rows;
    there.data = bring(rows.data, (rows.count - 1) * rows.stride + rows.bytes);
    return there;
  }
  Status fetch(void* host, const std::byte* from, std::int64_t bytes) {
    return stream_.copy(host, from, bytes, CopyKind::device_to_host);
  }
  Status fetch(const Rows& host, const Rows& there) {
    for (std::int64_t row = 0; row < host.count && host.bytes > 0; ++row) {
      PLIMSOLL_RETURN_IF_ERROR(
          fetch(host.data + row * host.stride, there.data + row * there.stride, host.bytes));
    }
    return ok_status();
  }
  const Status& status() const { return status_; }

 private:
  device::Device& device_;
  device::Stream& stream_;
  std::map<std::pair<const void*, std::int64_t>, void*> blocks_;
  Status status_;
};

class ByWayOfGpu final : public Communicator {
 public:
  ByWayOfGpu(NcclCommunicator& nccl, RecordedGpu& gpu)
      : nccl_(nccl), device_(*gpu.device), stream_(device_.create_stream().value()) {}

  std::int64_t participant() const override { return nccl_.participant(); }
  std::int64_t participants() const override { return nccl_.participants(); }
  Status all_reduce(const Call& call, std::span<const Reduce> arrays) override {
    return reduce(call, arrays, 1, &Communicator::all_reduce);
  }
  Status reduce_scatter(const Call& call, std::span<const Reduce> arrays) override {
    return reduce(call, arrays, static_cast<std::int64_t>(call.group.size()),
                  &Communicator::reduce_scatter);
  }
  Status exchange(const Call& call, std::span<const Rows> sends,
                  std::span<const Rows> receives) override {
    nccl_.set_stop(stop());
    OnGpu memory(device_, *stream_);
    std::vector<Rows> out, in;
    for (const Rows& rows : sends) out.push_back(memory.bring(rows));
    for (const Rows& rows : receives) in.push_back(memory.bring(rows));
    PLIMSOLL_RETURN_IF_ERROR(memory.status());
    PLIMSOLL_RETURN_IF_ERROR(nccl_.on_device(*stream_)->exchange(call, out, in));
    for (std::size_t i = 0; i < in.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(memory.fetch(receives[i], in[i]));
    }
    return stream_->synchronize();
  }
  std::optional<Speeds> speeds() const override { return nccl_.speeds(); }
  Status begin_send(const Passage& passage, const void* data, std::int64_t bytes) override {
    nccl_.set_stop(stop());
    return nccl_.begin_send(passage, data, bytes);
  }
  Status begin_receive(const Passage& passage, void* data, std::int64_t bytes) override {
    return nccl_.begin_receive(passage, data, bytes);
  }
  Status end_send(const Passage& passage) override { return nccl_.end_send(passage); }
  Status end_receive(const Passage& passage) override { return nccl_.end_receive(passage); }
  void forget() override { nccl_.forget(); }
  void leave(const Status& status) override { nccl_.leave(status); }

 private:
  using Reducer = Status (Communicator::*)(const Call&, std::span<const Reduce>);
  // What NCCL has not is the host's.
  Status reduce(const Call& call, std::span<const Reduce> arrays, std::int64_t pieces,
                Reducer reducer) {
    nccl_.set_stop(stop());
    OnGpu memory(device_, *stream_);
    std::vector<Reduce> there(arrays.begin(), arrays.end());
    for (Reduce& array : there) {
      const std::int64_t bytes = array.rows * array.row * array.reduction->element_bytes();
      if (bytes == 0) continue;
      array.in = memory.bring(array.in, bytes * pieces);
      array.out = memory.bring(array.out, bytes);
    }
    PLIMSOLL_RETURN_IF_ERROR(memory.status());
    const Status status = (nccl_.on_device(*stream_)->*reducer)(call, there);
    if (status.code() == StatusCode::unimplemented) return (nccl_.*reducer)(call, arrays);
    PLIMSOLL_RETURN_IF_ERROR(status);
    for (std::size_t i = 0; i < there.size(); ++i) {
      const Reduce& array = there[i];
      const std::int64_t bytes = array.rows * array.row * array.reduction->element_bytes();
      if (bytes == 0) continue;
      PLIMSOLL_RETURN_IF_ERROR(
          memory.fetch(arrays[i].out, static_cast<const std::byte*>(array.out), bytes));
    }
    return stream_->synchronize();
  }

  NcclCommunicator& nccl_;
  device::Device& device_;
  const std::unique_ptr<device::Stream> stream_;
};

}  // namespace

NcclParticipants::NcclParticipants(std::int64_t count, const Options& options)
    : options_(options), nccl_(options.communicator_bytes) {
  using device::cuda::Schedule;
  constexpr std::array kSchedules{Schedule::late, Schedule::random, Schedule::eager};
  for (std::int64_t i = 0; i < count; ++i) {
    device::cuda::RecordingOptions recorded;
    recorded.schedule = kSchedules[at(i) % kSchedules.size()];
    recorded.maps_memory = i != 1;
    recorded.module_bytes = 0;
    gpus_.push_back(std::make_unique<RecordedGpu>(recorded, 0, options.make_kernels));
    nccl_.attach(gpus_.back()->driver);
  }
}

NcclParticipants::~NcclParticipants() {
  EXPECT_EQ(nccl_.leaks(), "");
  for (const auto& gpu : gpus_) {
    EXPECT_EQ(gpu->device->overhead_bytes(), 0);
    EXPECT_EQ(gpu->close(), "");
  }
}

std::string NcclParticipants::complaints() const {
  std::string found;
  for (const auto& gpu : gpus_) found += device::cuda::complaints(*gpu);
  return found;
}

std::vector<Status> NcclParticipants::run(const Body& body) {
  return run_nccl([&](NcclCommunicator& nccl) {
    ByWayOfGpu communicator(nccl, gpu(nccl.participant()));
    return body(communicator);
  });
}

std::vector<Status> NcclParticipants::run_nccl(
    const std::function<Status(NcclCommunicator&)>& body) {
  std::vector<Status> statuses(gpus_.size());
  const auto server = StoreServer::create("127.0.0.1", 0);
  if (!server.ok()) return std::vector<Status>(gpus_.size(), server.status());
  const auto run_one = [&](std::int64_t i) -> Status {
    Membership membership;
    membership.rank = i;
    membership.world_size = std::ssize(gpus_);
    membership.timeout = options_.timeout;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    PLIMSOLL_ASSIGN_OR_RETURN(const auto store,
                              connect_store("127.0.0.1", (*server)->port(), deadline));
    PLIMSOLL_ASSIGN_OR_RETURN(auto host, connect_gloo(membership, *store));
    NcclOptions options{options_.timeout, options_.keeps_order, 4096};
    PLIMSOLL_ASSIGN_OR_RETURN(
        const auto communicator,
        NcclCommunicator::create(std::move(host), gpu(i).device, nccl_.table(), options));
    const Status status = body(*communicator);
    communicator->leave(status);
    return status;
  };
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < std::ssize(gpus_); ++i) {
    threads.emplace_back([&, i] { statuses[at(i)] = run_one(i); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace plimsoll::collectives
