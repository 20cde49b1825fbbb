// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/memory/spill/file_io.h"
#include "runtime/memory/spill/nameless_file.h"

namespace plimsoll::memory {

// Requests of one direction to a file, each in a slot with a staging buffer of host memory. Slots
// and buffers are few and fixed; the buffers are one block (of large
// pages where the device gives them: fewer pieces for the disk), allocated at first use and kept.
// Requests that come back short are continued. For one thread at a time.
class FileQueue {
 public:
  // `request_bytes`: of a request at most, and of a buffer; a multiple of 4096. `file` outlives the
  // queue; so does `staging_bytes`, which buffers are added to.
  FileQueue(std::unique_ptr<FileIo> io, const NamelessFile& file, std::int64_t request_bytes,
            std::shared_ptr<device::Device> device, std::atomic<std::int64_t>& staging_bytes);
  ~FileQueue();
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

  std::string_view name() const { return io_->name(); }
  const NamelessFile& file() const { return file_; }
  const std::shared_ptr<device::Device>& device() const { return device_; }
  std::int64_t request_bytes() const { return request_bytes_; }
  int slots() const { return static_cast<int>(slots_.size()); }
  // The buffer of a slot that has no request under way; aligned as the file wants it.
  Result<std::byte*> staging(int slot);
  // Starts a request in a slot that has none.
  void start(int slot, const FileRequest& request);
  // Waits for the request of `slot`, if there is one. UNAVAILABLE, RESOURCE_EXHAUSTED for a full
  // disk, DATA_LOSS for a file that ends early; errors name operation and place.
  Status finish(int slot);
  // Waits for all; the first error.
  Status finish_all();

 private:
  struct Slot {
    FileRequest request;  // what is left of it
    bool under_way = false;
    int attempts = 0;  // that moved nothing and may be repeated
    Status status;
  };
  Slot& nth(int slot) { return slots_[at(slot)]; }
  void handle(const FileCompletion& completion);
  std::string place(const Slot& slot) const;

  const std::unique_ptr<FileIo> io_;
  const NamelessFile& file_;
  const std::int64_t request_bytes_;
  const std::shared_ptr<device::Device> device_;
  std::atomic<std::int64_t>& staging_bytes_;
  std::vector<Slot> slots_;
  const std::int64_t block_bytes_;
  void* block_ = nullptr;
  std::byte* staging_ = nullptr;  // the aligned part of it
};

}  // namespace plimsoll::memory
