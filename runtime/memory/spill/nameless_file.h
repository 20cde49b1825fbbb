// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace plimsoll::memory {

// An error of the operating system: RESOURCE_EXHAUSTED where a disk or a quota is full,
// UNAVAILABLE else.
Status file_error(const std::string& what, int error);

// A file that no name leads to: it is gone with the process, however that ends. Owns its
// descriptor. Not thread-safe, but for what others do with descriptor().
class NamelessFile {
 public:
  // In `folder`. With `direct`, transfers go past the system's cache where the file system can.
  static Result<NamelessFile> create(const std::string& folder, bool direct);
  NamelessFile(NamelessFile&& other) noexcept;
  NamelessFile& operator=(NamelessFile&&) = delete;
  ~NamelessFile();

  int descriptor() const { return file_; }
  const std::string& folder() const { return folder_; }
  // What offsets and lengths, respectively addresses in memory, must be multiples of; 1 where
  // transfers are not direct.
  std::int64_t offset_alignment() const { return offset_alignment_; }
  std::int64_t memory_alignment() const { return memory_alignment_; }
  bool is_direct() const { return offset_alignment_ > 1; }

  // What the file system has free for this process.
  Result<std::int64_t> free_bytes() const;
  // Makes sure of the file's first `bytes`: what is written there later finds room, as long as the
  // file system can promise that. RESOURCE_EXHAUSTED with numbers where it has none left.
  Status reserve(std::int64_t bytes);
  // Starts to write what the system's cache holds of a range, and drops what was written.
  void drop_cached(std::int64_t offset, std::int64_t bytes) const;
  // Waits until all is on the disk.
  Status synchronize() const;

 private:
  NamelessFile(int file, std::string folder) : file_(file), folder_(std::move(folder)) {}
  void try_direct();
  int granted(std::int64_t bytes) const;

  int file_;
  std::string folder_;
  std::int64_t offset_alignment_ = 1, memory_alignment_ = 1;
  std::int64_t reserved_ = 0;
};

}  // namespace plimsoll::memory
