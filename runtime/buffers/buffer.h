// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/buffers/content.h"
#include "runtime/ir/host_leaves.h"
#include "runtime/ir/shape.h"
#include "runtime/memory/budget/budget.h"

namespace plimsoll::buffers {

class Dispatcher;

// A user's handle on an array in device memory, under a budget's limit, or in host memory beside
// it. Its content may be pending; it is deleted once it has none any more, by remove() or because a
// run was given it for good. Thread-safe.
class Buffer {
 public:
  // `shape`: an array. `memory`: where its content is.
  Buffer(ir::Shape shape, std::shared_ptr<memory::Budget> budget, ContentRef content,
         ir::ArrayMemory memory = ir::ArrayMemory::device)
      : shape_(std::move(shape)),
        budget_(std::move(budget)),
        memory_(memory),
        content_(std::move(content)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  const ir::Shape& shape() const { return shape_; }
  const std::shared_ptr<memory::Budget>& budget() const { return budget_; }
  ir::ArrayMemory memory() const { return memory_; }
  bool is_on_host() const { return memory_ != ir::ArrayMemory::device; }

  // Holds the content for one that reads it; empty when deleted.
  ContentRef content() const;
  // The same, and takes it away: deleted from here on. The memory goes with its last holder.
  ContentRef donate();
  void remove() { (void)donate(); }
  bool is_deleted() const { return !content(); }

 private:
  const ir::Shape shape_;
  const std::shared_ptr<memory::Budget> budget_;
  const ir::ArrayMemory memory_;
  mutable std::mutex mutex_;  // guards content_
  ContentRef content_;
};

// Room for one value. Where there is none while `dispatcher` (may be null) has work that may give
// some back, waits for that to end.
Result<memory::Allocation> allocate(memory::Budget& budget, Dispatcher* dispatcher,
                                    const ir::Shape& shape);

// A dense row-major copy of `data`, whose element (i, j, ..) is at i * byte_strides[0] + j *
// byte_strides[1] + ..; none: dense and row-major, too. Strides may be negative or zero; with them
// an element below a byte has a byte of its own. Of pred every byte but 0 becomes 1. Read before it
// returns. `memory`: where the copy is; no limit counts the host's. INVALID_ARGUMENT for strides
// that leave the address space.
Result<std::shared_ptr<Buffer>> copy_from_host(const std::shared_ptr<memory::Budget>& budget,
                                               Dispatcher* dispatcher, const ir::Shape& shape,
                                               const void* data,
                                               std::span<const std::int64_t> byte_strides,
                                               ir::ArrayMemory memory = ir::ArrayMemory::device);

// The caller's memory itself, which it leaves as it is until `release` is called; its bytes count
// under the limit until then. Where the device can't use it (not the host's memory, or `data` not
// aligned to kBufferAlignment; of pred, with bytes that are neither 0 nor 1), a copy of it, and
// `release` is called before this returns. On an error it is not called.
Result<std::shared_ptr<Buffer>> borrow_from_host(const std::shared_ptr<memory::Budget>& budget,
                                                 Dispatcher* dispatcher, const ir::Shape& shape,
                                                 void* data, std::function<void()> release);

// The same of memory on the device, after all that was enqueued there so far, by whoever it was;
// also with strides, as copy_from_host has them. A copy is made of what is not dense, not aligned
// or pred.
Result<std::shared_ptr<Buffer>> borrow_from_device(const std::shared_ptr<memory::Budget>& budget,
                                                   Dispatcher* dispatcher, const ir::Shape& shape,
                                                   void* data,
                                                   std::span<const std::int64_t> byte_strides,
                                                   std::function<void()> release);

// Copies the value to host memory, dense and row-major; blocks while it is pending. `out` has the
// shape's byte size. FAILED_PRECONDITION when it was deleted; else the error of its making.
Status read(const Buffer& buffer, std::span<std::byte> out);
// The same of a content in device memory that is ready.
Status read(const Content& content, const ir::Shape& shape, memory::Budget& budget,
            std::span<std::byte> out);

}  // namespace plimsoll::buffers
