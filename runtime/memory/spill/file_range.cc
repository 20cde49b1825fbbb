// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/file_range.h"

#include <algorithm>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/index.h"

namespace plimsoll::memory {
namespace {

// A part of a range, and the units of the file that it takes: just these, or a part of one.
struct Piece {
  std::int64_t begin = 0, bytes = 0;  // in the file
  std::int64_t io_begin = 0, io_bytes = 0;
  bool is_whole() const { return bytes == io_bytes; }
  std::byte* data = nullptr;  // of io_begin
  bool is_staged = false;
};

// Cuts what is left of a range: no two pieces share a unit.
//
// Past the system's cache, a disk reads and writes whole units (mostly 512 bytes or 4 KiB) at
// multiples of them. Example with units of 4,096: a store of [1,000, 10,000) is the piece [1,000,
// 4,096) within unit 0, which is read, changed and written whole; [4,096, 8,192) as it is; and
// [8,192, 10,000) within unit 2, again read first. Two stores that share a unit must not run at
// once: stores have one thread.
Piece next_piece(const FileQueue& queue, std::int64_t begin, std::int64_t end) {
  const std::int64_t unit = queue.file().offset_alignment();
  const std::int64_t first = begin / unit * unit;
  if (first != begin || end - begin < unit) {
    return {begin, std::min(end, first + unit) - begin, first, unit};
  }
  const std::int64_t bytes = std::min(queue.request_bytes(), (end - begin) / unit * unit);
  return {begin, bytes, begin, bytes};
}

bool goes_directly(const FileQueue& queue, const Piece& piece, const std::byte* memory) {
  // Where the device is the host, its memory is what the system can read and write.
  return piece.is_whole() && queue.device()->is_host_memory() &&
         reinterpret_cast<std::uintptr_t>(memory) %
                 static_cast<std::uintptr_t>(queue.file().memory_alignment()) ==
             0;
}

std::span<const std::byte> contents(const Piece& piece) {
  return {piece.data + (piece.begin - piece.io_begin), static_cast<std::size_t>(piece.bytes)};
}

// Waits for what is under way, however its scope is left.
class FinishOnExit {
 public:
  explicit FinishOnExit(FileQueue& queue) : queue_(queue) {}
  ~FinishOnExit() { (void)queue_.finish_all(); }
  FinishOnExit(const FinishOnExit&) = delete;
  FinishOnExit& operator=(const FinishOnExit&) = delete;

 private:
  FileQueue& queue_;
};

// The piece's bytes in the staging buffer of a slot, amid what the file has around them.
Status stage(FileQueue& queue, int slot, Piece& piece, const std::byte* from,
             device::Stream& stream) {
  PLIMSOLL_ASSIGN_OR_RETURN(piece.data, queue.staging(slot));
  piece.is_staged = true;
  if (!piece.is_whole()) {
    queue.start(slot, {FileOperation::merge, piece.io_begin, piece.data, piece.io_bytes});
    PLIMSOLL_RETURN_IF_ERROR(queue.finish(slot));
  }
  PLIMSOLL_RETURN_IF_ERROR(stream.copy(piece.data + (piece.begin - piece.io_begin), from,
                                       piece.bytes, device::CopyKind::device_to_host));
  return stream.synchronize();
}

}  // namespace

Result<std::uint64_t> store_range(FileQueue& queue, std::int64_t offset, const std::byte* from,
                                  std::int64_t bytes, device::Stream& stream) {
  const FinishOnExit finish(queue);
  Checksum checksum;
  int slot = 0;
  for (std::int64_t at = offset; at < offset + bytes;) {
    Piece piece = next_piece(queue, at, offset + bytes);
    const std::byte* const memory = from + (at - offset);
    PLIMSOLL_RETURN_IF_ERROR(queue.finish(slot));
    if (goes_directly(queue, piece, memory)) {
      piece.data = const_cast<std::byte*>(memory);  // a write leaves it as it is
    } else {
      PLIMSOLL_RETURN_IF_ERROR(stage(queue, slot, piece, memory, stream));
    }
    checksum.add(contents(piece));
    queue.start(slot, {FileOperation::write, piece.io_begin, piece.data, piece.io_bytes});
    slot = (slot + 1) % queue.slots();
    at += piece.bytes;
  }
  PLIMSOLL_RETURN_IF_ERROR(queue.finish_all());
  return checksum.value();
}

Result<std::uint64_t> load_range(FileQueue& queue, std::int64_t offset, std::byte* to,
                                 std::int64_t bytes, device::Stream& stream) {
  const FinishOnExit finish(queue);
  Checksum checksum;
  const int slots = queue.slots();
  std::vector<Piece> pieces(at(slots));  // by slot
  std::int64_t started_to = offset, done_to = offset;
  for (int started = 0, done = 0; done_to < offset + bytes; ++done) {
    for (; started_to < offset + bytes && started - done < slots; ++started) {
      const int slot = started % slots;
      Piece& piece = pieces[at(slot)];
      piece = next_piece(queue, started_to, offset + bytes);
      piece.data = to + (started_to - offset);
      if (!goes_directly(queue, piece, piece.data)) {
        PLIMSOLL_ASSIGN_OR_RETURN(piece.data, queue.staging(slot));
        piece.is_staged = true;
      }
      queue.start(slot, {FileOperation::read, piece.io_begin, piece.data, piece.io_bytes});
      started_to += piece.bytes;
    }
    const int slot = done % slots;
    const Piece& piece = pieces[at(slot)];
    PLIMSOLL_RETURN_IF_ERROR(queue.finish(slot));
    const auto arrived = contents(piece);
    checksum.add(arrived);
    if (piece.is_staged) {
      PLIMSOLL_RETURN_IF_ERROR(stream.copy(to + (done_to - offset), arrived.data(), piece.bytes,
                                           device::CopyKind::host_to_device));
      PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
    }
    done_to += piece.bytes;
  }
  return checksum.value();
}

}  // namespace plimsoll::memory
