// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace plimsoll::memory {

enum class FileOperation : std::uint8_t {
  write,
  read,
  merge,  // a read of what a write will then replace a part of
};

struct FileRequest {
  FileOperation operation = FileOperation::read;
  std::int64_t offset = 0;    // in the file
  std::byte* data = nullptr;  // a write leaves it as it is
  std::int64_t bytes = 0;
};

struct FileCompletion {
  int tag = 0;
  std::int64_t result = 0;  // bytes moved, possibly fewer than asked for; or an errno, negated
};

// Requests to one file. For one thread at a time; memory of a request stays valid until its
// completion was waited for.
class FileIo {
 public:
  virtual ~FileIo() = default;
  virtual std::string_view name() const = 0;
  // How many requests may be under way at a time.
  virtual int depth() const = 0;
  // Starts `request` under a tag in [0, depth) that no request under way has.
  virtual void submit(int tag, const FileRequest& request) = 0;
  // Blocks until any request has ended; there must be one under way.
  virtual FileCompletion wait() = 0;
};

// One request at a time, by pread and pwrite on the calling thread.
std::unique_ptr<FileIo> make_blocking_io(int file);
// Several under way in the kernel, by io_uring. Null where there is none: built without liburing,
// or an old kernel, or one that was told to refuse (kernel.io_uring_disabled, seccomp filters).
std::unique_ptr<FileIo> make_ring_io(int file);

// Carries `request` out on the calling thread: FileCompletion::result.
std::int64_t blocking_result(int file, const FileRequest& request);

}  // namespace plimsoll::memory
