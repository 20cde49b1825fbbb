// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/file_io.h"

#include <unistd.h>

#include <cerrno>

namespace plimsoll::memory {
namespace {

class BlockingIo final : public FileIo {
 public:
  explicit BlockingIo(int file) : file_(file) {}
  std::string_view name() const override { return "pread and pwrite"; }
  int depth() const override { return 1; }
  void submit(int tag, const FileRequest& request) override {
    done_ = {tag, blocking_result(file_, request)};
  }
  FileCompletion wait() override { return done_; }

 private:
  const int file_;
  FileCompletion done_;
};

}  // namespace

std::int64_t blocking_result(int file, const FileRequest& request) {
  const auto bytes = static_cast<std::size_t>(request.bytes);
  const ssize_t done = request.operation == FileOperation::write
                           ? pwrite(file, request.data, bytes, request.offset)
                           : pread(file, request.data, bytes, request.offset);
  return done < 0 ? -std::int64_t{errno} : std::int64_t{done};
}

std::unique_ptr<FileIo> make_blocking_io(int file) { return std::make_unique<BlockingIo>(file); }

}  // namespace plimsoll::memory
