// SPDX-License-Identifier: Apache-2.0
#include "runtime/buffers/buffer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/buffers/dispatcher.h"
#include "runtime/device/shared_device.h"
#include "runtime/ir/narrow.h"
#include "runtime/ir/truths.h"
#include "runtime/memory/budget/admission.h"

namespace plimsoll::buffers {
namespace {

bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % device::kBufferAlignment == 0;
}

// Bytes on either side of an array's first element.
struct Reach {
  std::int64_t before = 0, behind = 0;
};

// The bytes from the first to the last element, either way, must not leave the address space:
// products of such strides would not fit, and no memory is there.
Result<Reach> reach_of(const ir::Shape& shape, const void* data,
                       std::span<const std::int64_t> byte_strides) {
  if (byte_strides.empty() || shape.byte_size() == 0) return Reach{0, shape.byte_size()};
  constexpr std::int64_t kMost = std::int64_t{1} << 56;  // as ir::fits_address_space
  std::int64_t before = 0, behind = ir::dtype_bytes(shape.dtype());
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) == 1) continue;
    const std::int64_t stride = byte_strides[at(d)];
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(stride, shape.dim(d) - 1, &reach) || reach < -kMost ||
        reach > kMost) {
      return invalid_argument("buffer: a stride of " + std::to_string(stride) +
                              " bytes along dim " + std::to_string(d) + " of " + shape.to_string() +
                              " leaves the address space");
    }
    (reach < 0 ? before : behind) += reach;
  }
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  if (first >= static_cast<std::uintptr_t>(-before) &&
      first <= static_cast<std::uintptr_t>(kMost - std::min(behind, kMost))) {
    return Reach{-before, behind};
  }
  return invalid_argument("buffer: the strides of " + shape.to_string() +
                          " leave the address space: from " + std::to_string(before) + " to " +
                          std::to_string(behind) + " bytes beside the data pointer");
}

// Dims of one and those that follow each other without a gap become one, the innermost first.
struct Loop {
  std::int64_t count = 0, stride = 0;
};

std::vector<Loop> loops_of(const ir::Shape& shape, std::span<const std::int64_t> strides) {
  std::vector<Loop> loops{{1, ir::dtype_bytes(shape.dtype())}};
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const std::int64_t count = shape.dim(d), stride = strides[static_cast<std::size_t>(d)];
    if (count == 1) continue;
    Loop& inner = loops.back();
    if (loops.size() > 1 && stride == inner.stride * inner.count) {
      inner.count *= count;
    } else {
      loops.push_back({count, stride});
    }
  }
  return loops;
}

void gather(const std::byte* from, std::byte*& to, std::span<const Loop> loops,
            std::size_t element) {
  const Loop& loop = loops.back();
  if (loops.size() > 1) {
    const bool is_run = loops.size() == 2 && loop.stride == static_cast<std::int64_t>(element);
    if (is_run) {
      const std::size_t bytes = static_cast<std::size_t>(loop.count) * element;
      std::memcpy(to, from, bytes);
      to += bytes;
      return;
    }
    for (std::int64_t i = 0; i < loop.count; ++i) {
      gather(from + i * loop.stride, to, loops.first(loops.size() - 1), element);
    }
    return;
  }
  std::memcpy(to, from, element);
  to += element;
}

// Whether kernels may read the dense bytes as they are.
bool are_readable(const ir::Shape& shape, const void* data) {
  return shape.dtype() != ir::DType::pred ||
         ir::are_truths({static_cast<const std::byte*>(data), at(shape.byte_size())});
}

// The caller's bytes in order: themselves, or gathered in `dense`.
const void* in_order(const ir::Shape& shape, const void* data,
                     std::span<const std::int64_t> byte_strides, std::vector<std::byte>& dense) {
  if (byte_strides.empty() || shape.byte_size() == 0) return data;
  const std::vector<Loop> loops = loops_of(shape, byte_strides);
  const auto element = static_cast<std::size_t>(ir::dtype_bytes(shape.dtype()));
  const bool is_packed = ir::dtype_bits(shape.dtype()) < 8;
  const bool is_dense =
      loops.size() == 1 ||
      (loops.size() == 2 && loops[1].stride == static_cast<std::int64_t>(element));
  if (is_dense && !is_packed) return data;
  dense.resize(static_cast<std::size_t>(shape.element_count()) * element);
  std::byte* to = dense.data();
  gather(static_cast<const std::byte*>(data), to, loops, element);
  if (is_packed) dense = ir::pack_codes(shape.dtype(), dense);
  return dense.data();
}

// What is copied: the caller's bytes in order, of pred each 0 or 1; themselves, or made in `own`.
const void* readable(const ir::Shape& shape, const void* data,
                     std::span<const std::int64_t> byte_strides, std::vector<std::byte>& own) {
  const void* const ordered = in_order(shape, data, byte_strides, own);
  if (are_readable(shape, ordered)) return ordered;
  if (own.empty()) {
    const auto* const first = static_cast<const std::byte*>(ordered);
    own.assign(first, first + shape.byte_size());
  }
  ir::make_truths(own);
  return own.data();
}

Status copy(memory::Budget& budget, void* to, const void* from, std::int64_t bytes,
            device::CopyKind kind) {
  if (bytes == 0) return ok_status();
  if (budget.device().is_host_memory()) {
    PLIMSOLL_RETURN_IF_ERROR(budget.device().count(device::Call::copy));
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return ok_status();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const auto stream, budget.device().create_stream());
  PLIMSOLL_RETURN_IF_ERROR(stream->copy(to, from, bytes, kind));
  return stream->synchronize();
}

// After the runs that were handed over, where it would take the room that one of them needs.
template <typename Attempt>
auto where_there_is_room(memory::Budget& budget, Dispatcher* dispatcher, std::int64_t bytes,
                         Attempt&& attempt) {
  if (dispatcher != nullptr && !budget.admission().has_room_for(bytes)) dispatcher->wait_idle();
  auto made = attempt();
  if (made.ok() || made.status().code() != StatusCode::resource_exhausted) return made;
  if (dispatcher == nullptr || dispatcher->is_idle()) return made;
  dispatcher->wait_idle();
  return attempt();
}

// Memory of the caller's that kernels use as it is.
Result<std::shared_ptr<Buffer>> borrow(const std::shared_ptr<memory::Budget>& budget,
                                       Dispatcher* dispatcher, const ir::Shape& shape, void* data,
                                       std::function<void()> release) {
  const auto attempt = [&] {
    return budget->admission().book(data, shape.byte_size(), memory::Tag::parameters,
                                    "a borrowed buffer of " + shape.to_string());
  };
  PLIMSOLL_ASSIGN_OR_RETURN(memory::Allocation booking,
                            where_there_is_room(*budget, dispatcher, shape.byte_size(), attempt));
  return std::make_shared<Buffer>(shape, budget,
                                  make_ready(Storage(std::move(booking), std::move(release))));
}

}  // namespace

ContentRef Buffer::content() const {
  const std::lock_guard lock(mutex_);
  return content_;
}

ContentRef Buffer::donate() {
  const std::lock_guard lock(mutex_);
  return std::move(content_);
}

Result<memory::Allocation> allocate(memory::Budget& budget, Dispatcher* dispatcher,
                                    const ir::Shape& shape) {
  const auto attempt = [&] {
    return budget.admission().allocate(shape.byte_size(), memory::Tag::parameters,
                                       "a buffer of " + shape.to_string());
  };
  return where_there_is_room(budget, dispatcher, shape.byte_size(), attempt);
}

Result<std::shared_ptr<Buffer>> copy_from_host(const std::shared_ptr<memory::Budget>& budget,
                                               Dispatcher* dispatcher, const ir::Shape& shape,
                                               const void* data,
                                               std::span<const std::int64_t> byte_strides,
                                               ir::ArrayMemory memory) {
  PLIMSOLL_RETURN_IF_ERROR(reach_of(shape, data, byte_strides).status());
  if (memory != ir::ArrayMemory::device) {
    PLIMSOLL_ASSIGN_OR_RETURN(HostMemory host,
                              HostMemory::allocate(budget->shared_device(), shape.byte_size(),
                                                   memory == ir::ArrayMemory::pinned_host));
    std::vector<std::byte> own;
    const void* const from = readable(shape, data, byte_strides, own);
    if (shape.byte_size() > 0) std::memcpy(host.data(), from, at(shape.byte_size()));
    return std::make_shared<Buffer>(shape, budget, make_ready(Storage(std::move(host))), memory);
  }
  PLIMSOLL_ASSIGN_OR_RETURN(memory::Allocation room, allocate(*budget, dispatcher, shape));
  std::vector<std::byte> own;
  PLIMSOLL_RETURN_IF_ERROR(copy(*budget, room.data(), readable(shape, data, byte_strides, own),
                                shape.byte_size(), device::CopyKind::host_to_device));
  return std::make_shared<Buffer>(shape, budget, make_ready(Storage(std::move(room))));
}

Result<std::shared_ptr<Buffer>> borrow_from_host(const std::shared_ptr<memory::Budget>& budget,
                                                 Dispatcher* dispatcher, const ir::Shape& shape,
                                                 void* data, std::function<void()> release) {
  if (!budget->device().is_host_memory() || !is_aligned(data) || !are_readable(shape, data)) {
    auto copied = copy_from_host(budget, dispatcher, shape, data, {});
    if (copied.ok()) release();
    return copied;
  }
  return borrow(budget, dispatcher, shape, data, std::move(release));
}

Result<std::shared_ptr<Buffer>> borrow_from_device(const std::shared_ptr<memory::Budget>& budget,
                                                   Dispatcher* dispatcher, const ir::Shape& shape,
                                                   void* data,
                                                   std::span<const std::int64_t> byte_strides,
                                                   std::function<void()> release) {
  if (budget->device().is_host_memory() && byte_strides.empty()) {
    return borrow_from_host(budget, dispatcher, shape, data, std::move(release));
  }
  PLIMSOLL_RETURN_IF_ERROR(device::wait_for_all(budget->device()));
  if (byte_strides.empty() && is_aligned(data) && shape.dtype() != ir::DType::pred) {
    return borrow(budget, dispatcher, shape, data, std::move(release));
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const Reach reach, reach_of(shape, data, byte_strides));
  std::vector<std::byte> bytes(at(reach.before + reach.behind));
  PLIMSOLL_RETURN_IF_ERROR(copy(*budget, bytes.data(),
                                static_cast<const std::byte*>(data) - reach.before,
                                reach.before + reach.behind, device::CopyKind::device_to_host));
  auto copied =
      copy_from_host(budget, dispatcher, shape, bytes.data() + reach.before, byte_strides);
  if (copied.ok()) release();
  return copied;
}

Status read(const Content& content, const ir::Shape& shape, memory::Budget& budget,
            std::span<std::byte> out) {
  return copy(budget, out.data(), content.data(), shape.byte_size(),
              device::CopyKind::device_to_host);
}

Status read(const Buffer& buffer, std::span<std::byte> out) {
  const ContentRef content = buffer.content();
  if (!content) {
    return failed_precondition("read: the buffer of " + buffer.shape().to_string() +
                               " was deleted or donated");
  }
  PLIMSOLL_RETURN_IF_ERROR(content->wait());
  if (buffer.is_on_host()) {
    if (!out.empty()) std::memcpy(out.data(), content->data(), out.size());
    return ok_status();
  }
  return read(*content.get(), buffer.shape(), *buffer.budget(), out);
}

}  // namespace plimsoll::buffers
