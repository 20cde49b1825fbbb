// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/file_queue.h"

#include <fmt/core.h>
#include <cerrno>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::memory {
namespace {

constexpr int kAttempts = 1000;  // of a request that the system asks to repeat

}  // namespace

FileQueue::FileQueue(std::unique_ptr<FileIo> io, const NamelessFile& file,
                     std::int64_t request_bytes, std::shared_ptr<device::Device> device,
                     std::atomic<std::int64_t>& staging_bytes)
    : io_(std::move(io)),
      file_(file),
      request_bytes_(request_bytes),
      device_(std::move(device)),
      staging_bytes_(staging_bytes),
      slots_(at(io_->depth())),
      block_bytes_(request_bytes * slots() + file.memory_alignment()) {}

FileQueue::~FileQueue() {
  (void)finish_all();
  if (block_ == nullptr) return;
  device_->deallocate_host(block_, block_bytes_);
  staging_bytes_ -= block_bytes_;
}

Result<std::byte*> FileQueue::staging(int slot) {
  if (staging_ == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(block_, device_->allocate_host(block_bytes_));
    staging_bytes_ += block_bytes_;
    void* aligned = block_;
    auto space = static_cast<std::size_t>(block_bytes_);
    staging_ = static_cast<std::byte*>(
        std::align(static_cast<std::size_t>(file_.memory_alignment()),
                   static_cast<std::size_t>(request_bytes_ * slots()), aligned, space));
  }
  return staging_ + slot * request_bytes_;
}

void FileQueue::start(int slot, const FileRequest& request) {
  Slot& s = nth(slot);
  s.request = request;
  s.under_way = true;
  s.attempts = 0;
  s.status = ok_status();
  io_->submit(slot, request);
}

Status FileQueue::finish(int slot) {
  Slot& s = nth(slot);
  while (s.under_way) handle(io_->wait());
  return std::exchange(s.status, ok_status());
}

Status FileQueue::finish_all() {
  Status first;
  for (int slot = 0; slot < slots(); ++slot) {
    Status status = finish(slot);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

std::string FileQueue::place(const Slot& slot) const {
  const bool is_write = slot.request.operation == FileOperation::write;
  return fmt::format("{}{} bytes at offset {} of the spill file in {}",
                     is_write ? "spilling " : "reading back ", slot.request.bytes,
                     slot.request.offset, file_.folder());
}

// What the system may answer: everything done; a part done, after which the rest is asked for;
// "again", which is asked again up to a limit; an error, which becomes the slot's status. A part
// must be continued at a multiple of the file's alignment, so what was moved past it is moved
// twice.
//
// Example: 64 KiB asked at offset 0, 20000 bytes written, alignment 4096: it goes on at 16384.
void FileQueue::handle(const FileCompletion& completion) {
  Slot& s = nth(completion.tag);
  FileRequest& left = s.request;
  s.under_way = false;
  const std::int64_t result = completion.result;
  if (result == -EINTR || result == -EAGAIN) {
    if (++s.attempts > kAttempts) {
      s.status = file_error(place(s), static_cast<int>(-result));
      return;
    }
    std::this_thread::yield();
  } else if (result < 0) {
    s.status = file_error(place(s), static_cast<int>(-result));
    return;
  } else if (result >= left.bytes) {
    return;
  } else {
    // Direct requests go on at a multiple of their alignment.
    const std::int64_t moved = result / file_.offset_alignment() * file_.offset_alignment();
    if (moved == 0) {
      s.status = left.operation == FileOperation::write
                     ? unavailable(place(s) + ": nothing was written")
                     : data_loss(place(s) + ": the file ends early");
      return;
    }
    left.offset += moved;
    left.data += moved;
    left.bytes -= moved;
  }
  s.under_way = true;
  io_->submit(completion.tag, left);
}

}  // namespace plimsoll::memory
