// SPDX-License-Identifier: Apache-2.0
#include "tests/worked_examples/remote_tier.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll::memory {
namespace {

enum class Request : std::uint64_t { make, drop, store, load };

struct Frame {
  Request request;
  std::uint64_t block;
  std::int64_t offset, bytes;
};

bool send_all(int socket, const void* data, std::int64_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, at, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    bytes -= sent;
  }
  return true;
}

bool receive_all(int socket, void* data, std::int64_t bytes) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(socket, at, static_cast<std::size_t>(bytes), 0);
    if (got <= 0) return false;
    at += got;
    bytes -= got;
  }
  return true;
}

}  // namespace

// Both ends of the socket. One request at a time goes over it.
class RemoteTier::Machine {
 public:
  Machine(int near, int far) : near_(near), far_(far), thread_([this] { serve(); }) {}
  ~Machine() {
    shutdown(near_, SHUT_RDWR);
    thread_.join();
    close(near_);
    close(far_);
  }

  Status request(const Frame& frame, const void* stored, void* loaded) {
    const std::lock_guard lock(mutex_);
    const bool sent = send_all(near_, &frame, sizeof frame) &&
                      (stored == nullptr || send_all(near_, stored, frame.bytes));
    if (sent && (loaded == nullptr || receive_all(near_, loaded, frame.bytes))) return ok_status();
    return Status(StatusCode::unavailable, "remote memory: the connection is broken");
  }

 private:
  void serve() {
    std::map<std::uint64_t, std::vector<std::byte>> blocks;
    Frame frame;
    while (receive_all(far_, &frame, sizeof frame)) {
      std::vector<std::byte>& block = blocks[frame.block];
      switch (frame.request) {
        case Request::make:
          block.resize(static_cast<std::size_t>(frame.bytes));
          break;
        case Request::drop:
          blocks.erase(frame.block);
          break;
        case Request::store:
          if (!receive_all(far_, block.data() + frame.offset, frame.bytes)) return;
          break;
        case Request::load:
          if (!send_all(far_, block.data() + frame.offset, frame.bytes)) return;
          break;
      }
    }
  }

  const int near_, far_;
  std::mutex mutex_;
  std::thread thread_;
};

class RemoteTier::Block final : public TierBlock {
 public:
  Block(std::shared_ptr<RemoteTier> tier, std::uint64_t id, std::int64_t bytes)
      : tier_(std::move(tier)), id_(id), bytes_(bytes) {}
  ~Block() override {
    // Nobody reads it again, whether or not it can still be dropped there.
    (void)tier_->machine_->request({Request::drop, id_, 0, 0}, nullptr, nullptr);
    const std::lock_guard lock(tier_->mutex());
    tier_->give_back(bytes_);
  }
  Status store(std::int64_t offset, const void* from, std::int64_t bytes,
               device::Stream& stream) override {
    std::vector<std::byte> staged(static_cast<std::size_t>(bytes));
    PLIMSOLL_RETURN_IF_ERROR(
        stream.copy(staged.data(), from, bytes, device::CopyKind::device_to_host));
    PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
    return tier_->machine_->request({Request::store, id_, offset, bytes}, staged.data(), nullptr);
  }
  Status load(std::int64_t offset, void* to, std::int64_t bytes, device::Stream& stream) override {
    std::vector<std::byte> staged(static_cast<std::size_t>(bytes));
    PLIMSOLL_RETURN_IF_ERROR(
        tier_->machine_->request({Request::load, id_, offset, bytes}, nullptr, staged.data()));
    PLIMSOLL_RETURN_IF_ERROR(
        stream.copy(to, staged.data(), bytes, device::CopyKind::host_to_device));
    return stream.synchronize();
  }

 private:
  const std::shared_ptr<RemoteTier> tier_;
  const std::uint64_t id_;
  const std::int64_t bytes_;
};

Result<std::shared_ptr<RemoteTier>> RemoteTier::create(std::shared_ptr<device::Device> device,
                                                       std::int64_t limit_bytes) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    return Status(StatusCode::unavailable, "remote memory: no socket");
  }
  return std::shared_ptr<RemoteTier>(
      new RemoteTier(std::move(device), limit_bytes, std::make_unique<Machine>(ends[0], ends[1])));
}

RemoteTier::RemoteTier(std::shared_ptr<device::Device> device, std::int64_t limit_bytes,
                       std::unique_ptr<Machine> machine)
    : Tier("remote memory", limit_bytes, std::move(device)), machine_(std::move(machine)) {}

RemoteTier::~RemoteTier() = default;

Result<std::unique_ptr<TierBlock>> RemoteTier::allocate_block(std::int64_t bytes) {
  const std::uint64_t id = next_block_++;
  PLIMSOLL_RETURN_IF_ERROR(machine_->request({Request::make, id, 0, bytes}, nullptr, nullptr));
  auto self = std::static_pointer_cast<RemoteTier>(shared_from_this());
  return std::unique_ptr<TierBlock>(std::make_unique<Block>(std::move(self), id, bytes));
}

Result<LinkSpeed> RemoteTier::measure() {
  constexpr std::int64_t kMeasuredBytes = std::int64_t{1} << 20;
  const std::int64_t bytes = std::min(kMeasuredBytes, limit_bytes());
  PLIMSOLL_ASSIGN_OR_RETURN(const auto other, create(device(), bytes));
  return time_transfers(*other, *device(), bytes);
}

}  // namespace plimsoll::memory
