// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/file_io.h"

#ifdef PLIMSOLL_HAVE_LIBURING
#include <liburing.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <thread>

namespace plimsoll::memory {
namespace {

constexpr int kDepth = 8;
constexpr std::uint64_t kNothing = ~std::uint64_t{0};  // of an entry that stands for no request

// A ring that fails under way (a filter may let it be set up and refuse its use) is left for
// blocking calls.
//
// Sandboxes let a process set up a ring and then refuse its calls, or refuse them from some moment
// on. Nothing may be lost then: requests that the kernel has taken write into memory that must stay
// until they are done, so wait() goes on looking at the ring; new requests are done by ordinary
// calls, and their completions are queued.
class RingIo final : public FileIo {
 public:
  explicit RingIo(int file) : file_(file) {}
  ~RingIo() override {
    if (is_set_up_) io_uring_queue_exit(&ring_);
  }
  // Whether the kernel gives a ring that reads and writes, and runs an entry.
  bool set_up() {
    is_set_up_ = io_uring_queue_init(kDepth, &ring_, 0) == 0;
    if (!is_set_up_) return false;
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    const bool known = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                       io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
    io_uring_free_probe(probe);
    if (!known) return false;
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    io_uring_prep_nop(entry);
    if (io_uring_submit(&ring_) != 1) return false;
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(&ring_, &done) != 0) return false;
    io_uring_cqe_seen(&ring_, done);
    return true;
  }

  std::string_view name() const override { return "io_uring"; }
  int depth() const override { return kDepth; }

  void submit(int tag, const FileRequest& request) override {
    io_uring_sqe* const entry = is_broken_ ? nullptr : io_uring_get_sqe(&ring_);
    if (entry != nullptr) {
      const auto bytes = static_cast<unsigned>(request.bytes);
      const auto offset = static_cast<std::uint64_t>(request.offset);
      if (request.operation == FileOperation::write) {
        io_uring_prep_write(entry, file_, request.data, bytes, offset);
      } else {
        io_uring_prep_read(entry, file_, request.data, bytes, offset);
      }
      io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(tag));
      int taken = 0;
      do taken = io_uring_submit(&ring_);
      while (taken == -EINTR);
      if (taken == 1) return;
      // The entry is still the kernel's to take.
      io_uring_prep_nop(entry);
      io_uring_sqe_set_data64(entry, kNothing);
      is_broken_ = true;
    }
    done_.push_back({tag, blocking_result(file_, request)});
  }

  FileCompletion wait() override {
    if (!done_.empty()) {
      const FileCompletion first = done_.front();
      done_.pop_front();
      return first;
    }
    while (true) {
      io_uring_cqe* done = nullptr;
      const int error = io_uring_wait_cqe(&ring_, &done);
      if (error == -EINTR) continue;
      if (error != 0) {
        // Requests under way own memory: completions still arrive there, without a call.
        is_broken_ = true;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        if (io_uring_peek_cqe(&ring_, &done) != 0) continue;
      }
      const std::uint64_t tag = io_uring_cqe_get_data64(done);
      const std::int64_t result = done->res;
      io_uring_cqe_seen(&ring_, done);
      if (tag != kNothing) return {static_cast<int>(tag), result};
    }
  }

 private:
  const int file_;
  io_uring ring_{};
  bool is_set_up_ = false, is_broken_ = false;
  std::deque<FileCompletion> done_;  // of blocking calls
};

}  // namespace

std::unique_ptr<FileIo> make_ring_io(int file) {
  auto ring = std::make_unique<RingIo>(file);
  if (!ring->set_up()) return nullptr;
  return ring;
}

}  // namespace plimsoll::memory

#else

namespace plimsoll::memory {

std::unique_ptr<FileIo> make_ring_io(int /*file*/) { return nullptr; }

}  // namespace plimsoll::memory

#endif
