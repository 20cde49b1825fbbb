// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/memory/spill/file_faults.h"
#include "runtime/memory/spill/file_queue.h"
#include "runtime/memory/spill/nameless_file.h"
#include "runtime/memory/tiers/tier.h"

namespace plimsoll::memory {

// How a spill file is read and written: each is done where the system can, else without.
struct SpillOptions {
  bool direct = true;       // past the system's cache (O_DIRECT)
  bool ring = true;         // several requests under way (io_uring)
  bool await_disk = false;  // where it isn't direct: a store ends when the disk has it
  std::int64_t request_bytes = std::int64_t{1} << 20;  // at most; a multiple of 4096
};

// A file on disk that no name leads to: it is gone with the process, however that ends. Room is
// taken from the file system before it is given out, and each range that is stored has a checksum
// that its load is held against.
// Errors: RESOURCE_EXHAUSTED for a full disk, with numbers when bytes are given out; UNAVAILABLE
// for a failed read or write; DATA_LOSS for bytes that came back changed or not at all.
class SpillFile final : public Tier {
 public:
  // Makes the file in `folder`. A `limit_bytes` of 0 stands for what is free there.
  static Result<std::shared_ptr<SpillFile>> create(const std::string& folder,
                                                   std::int64_t limit_bytes,
                                                   std::shared_ptr<device::Device> device,
                                                   const SpillOptions& options = {});
  ~SpillFile() override;
  // What the disk gives: written data is waited for, and read back from the disk.
  Result<LinkSpeed> measure() override;

  // What came of the options: "io_uring" or "pread and pwrite"; past the system's cache or not.
  std::string_view io_name() const { return stores_.name(); }
  bool is_direct() const { return file_.is_direct(); }

  // Fault injection for tests: the n-th request of its kind from now (1 = next); 0 turns it off.
  using Fault = FileFaults::Kind;
  void inject(Fault fault, std::int64_t n) { faults_.inject(fault, n); }

 protected:
  Result<std::unique_ptr<TierBlock>> allocate_block(std::int64_t bytes) override;

 private:
  class Block;
  SpillFile(NamelessFile file, std::int64_t limit_bytes, std::shared_ptr<device::Device> device,
            const SpillOptions& options);
  std::unique_ptr<FileIo> make_io();
  void release(std::int64_t offset, std::int64_t bytes);

  const SpillOptions options_;
  NamelessFile file_;
  FileFaults faults_;
  FileQueue stores_, loads_;  // of the engines' threads
  // With the tier's mutex held.
  std::map<std::int64_t, std::int64_t> free_;  // offset -> bytes, below end_; no two touch
  std::int64_t end_ = 0;                       // of what is given out
};

}  // namespace plimsoll::memory
