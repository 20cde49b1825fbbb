// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/file_faults.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/index.h"

namespace plimsoll::memory {
namespace {

using Kind = FileFaults::Kind;

constexpr auto kDelay = std::chrono::milliseconds(5);
constexpr std::size_t kAlignment = 4096;  // of copies, enough for any file

class FaultyIo final : public FileIo {
 public:
  FaultyIo(std::unique_ptr<FileIo> io, FileFaults& faults, std::int64_t alignment)
      : io_(std::move(io)), faults_(faults), alignment_(alignment), requests_(at(io_->depth())) {}
  std::string_view name() const override { return io_->name(); }
  int depth() const override { return io_->depth(); }

  void submit(int tag, const FileRequest& request) override {
    const bool is_write = request.operation == FileOperation::write;
    if (faults_.is_due(is_write ? Kind::write : Kind::read)) return refused_.push_back({tag, -EIO});
    if (is_write && faults_.is_due(Kind::full_write)) return refused_.push_back({tag, -ENOSPC});
    Request& under_way = requests_[at(tag)];
    under_way = {};
    FileRequest changed = request;
    if (faults_.is_due(is_write ? Kind::short_write : Kind::short_read)) {
      changed.bytes = ((request.bytes + 1) / 2 + alignment_ - 1) / alignment_ * alignment_;
    }
    under_way.is_slow = faults_.is_due(is_write ? Kind::slow_write : Kind::slow_read);
    if (is_write && faults_.is_due(Kind::flipped_write)) {
      under_way.copy = flipped_copy(changed);
      changed.data = under_way.copy.get();
    }
    if (!is_write) {
      under_way.flips = faults_.is_due(
          request.operation == FileOperation::merge ? Kind::flipped_merge : Kind::flipped_bit);
    }
    under_way.data = changed.data;
    ++under_way_;
    io_->submit(tag, changed);
  }

  FileCompletion wait() override {
    if (!refused_.empty()) return take(refused_);
    while (under_way_ > 0) {
      const FileCompletion completion = io_->wait();
      --under_way_;
      Request& request = requests_[at(completion.tag)];
      if (request.flips) {
        for (std::int64_t i = 0; i < completion.result; i += 64) request.data[i] ^= std::byte{1};
      }
      request.copy.reset();
      if (!request.is_slow) return completion;
      late_.push_back(completion);
    }
    std::this_thread::sleep_for(kDelay);
    return take(late_);
  }

 private:
  struct Freed {
    void operator()(std::byte* data) const { std::free(data); }
  };
  struct Request {
    bool is_slow = false, flips = false;
    std::byte* data = nullptr;
    std::unique_ptr<std::byte, Freed> copy;
  };

  static std::unique_ptr<std::byte, Freed> flipped_copy(const FileRequest& request) {
    const auto bytes = static_cast<std::size_t>(request.bytes);
    std::unique_ptr<std::byte, Freed> copy(static_cast<std::byte*>(
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)));
    std::memcpy(copy.get(), request.data, bytes);
    copy.get()[bytes / 2] ^= std::byte{1};
    return copy;
  }
  static FileCompletion take(std::deque<FileCompletion>& from) {
    const FileCompletion first = from.front();
    from.pop_front();
    return first;
  }

  const std::unique_ptr<FileIo> io_;
  FileFaults& faults_;
  const std::int64_t alignment_;
  std::vector<Request> requests_;  // by tag
  int under_way_ = 0;              // in io_
  std::deque<FileCompletion> refused_, late_;
};

}  // namespace

std::unique_ptr<FileIo> with_faults(std::unique_ptr<FileIo> io, FileFaults& faults,
                                    std::int64_t alignment) {
  return std::make_unique<FaultyIo>(std::move(io), faults, alignment);
}

}  // namespace plimsoll::memory
