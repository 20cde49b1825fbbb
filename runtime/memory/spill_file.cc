// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/checksum.h"

namespace plimsoll::memory {
namespace {

// Bytes on their way between device memory and the file.
constexpr std::int64_t kPiece = std::int64_t{512} << 10;

constexpr std::int64_t kMeasuredBytes = std::int64_t{16} << 20;

std::string error_text(int error) { return std::generic_category().message(error); }

Status file_error(const std::string& what, int error) {
  const std::string message = what + ": " + error_text(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Status(StatusCode::resource_exhausted, message);
  }
  return unavailable(message);
}

}  // namespace

// A range of the file. Stores and loads come from two threads.
class SpillFile::Block final : public TierBlock {
 public:
  Block(std::shared_ptr<SpillFile> file, std::int64_t begin, std::int64_t bytes)
      : file_(std::move(file)), begin_(begin), bytes_(bytes) {}
  ~Block() override {
    const std::lock_guard lock(file_->mutex());
    file_->give_back(bytes_);
    file_->release(begin_, bytes_);
  }

  Status store(std::int64_t offset, const void* from, std::int64_t bytes,
               device::Stream& stream) override {
    std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, bytes)));
    Checksum checksum;
    for (std::int64_t at = 0; at < bytes; at += kPiece) {
      const std::int64_t size = std::min(kPiece, bytes - at);
      PLIMSOLL_RETURN_IF_ERROR(stream.copy(piece.data(), static_cast<const std::byte*>(from) + at,
                                           size, device::CopyKind::device_to_host));
      PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
      checksum.add({piece.data(), static_cast<std::size_t>(size)});
      PLIMSOLL_RETURN_IF_ERROR(file_->write(begin_ + offset + at, piece.data(), size));
    }
    if (file_->through_ && fdatasync(file_->file_) != 0) {
      return file_error("spilling to " + file_->folder_, errno);
    }
    const std::lock_guard lock(mutex_);
    stored_[offset] = {bytes, checksum.value()};
    return ok_status();
  }

  Status load(std::int64_t offset, void* to, std::int64_t bytes, device::Stream& stream) override {
    Stored stored;
    {
      const std::lock_guard lock(mutex_);
      const auto found = stored_.find(offset);
      if (found == stored_.end() || found->second.bytes != bytes) {
        return internal_error("reading back what was never spilled");
      }
      stored = found->second;
    }
    if (file_->through_) {
      (void)posix_fadvise(file_->file_, begin_ + offset, bytes, POSIX_FADV_DONTNEED);
    }
    std::vector<std::byte> piece(static_cast<std::size_t>(std::min(kPiece, bytes)));
    Checksum checksum;
    for (std::int64_t at = 0; at < bytes; at += kPiece) {
      const std::int64_t size = std::min(kPiece, bytes - at);
      PLIMSOLL_RETURN_IF_ERROR(file_->read(begin_ + offset + at, piece.data(), size));
      checksum.add({piece.data(), static_cast<std::size_t>(size)});
      PLIMSOLL_RETURN_IF_ERROR(stream.copy(static_cast<std::byte*>(to) + at, piece.data(), size,
                                           device::CopyKind::host_to_device));
      PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
    }
    if (checksum.value() != stored.checksum) {
      return data_loss("reading back " + std::to_string(bytes) + " spilled bytes from " +
                       file_->folder_ + ": they have changed (the disk or its driver fails)");
    }
    return ok_status();
  }

 private:
  struct Stored {
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  const std::shared_ptr<SpillFile> file_;
  const std::int64_t begin_, bytes_;
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Stored> stored_;  // by offset
};

Result<std::shared_ptr<SpillFile>> SpillFile::create(const std::string& folder,
                                                     std::int64_t limit_bytes,
                                                     std::shared_ptr<device::Device> device) {
  return open(folder, limit_bytes, std::move(device), /*through=*/false);
}

Result<std::shared_ptr<SpillFile>> SpillFile::open(const std::string& folder,
                                                   std::int64_t limit_bytes,
                                                   std::shared_ptr<device::Device> device,
                                                   bool through) {
  const std::string what = "making a spill file in '" + folder + "'";
  std::string path = folder + "/plimsoll-spill-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) {
    return invalid_argument(what + ": " + error_text(errno) +
                            " (PLIMSOLL_SPILL_DIR or --spill-dir: a folder that can be written)");
  }
  struct statvfs system;
  if (unlink(path.c_str()) != 0 || fstatvfs(file, &system) != 0) {
    const int error = errno;
    close(file);
    return file_error(what, error);
  }
  if (limit_bytes == 0) {
    limit_bytes =
        static_cast<std::int64_t>(system.f_bavail) * static_cast<std::int64_t>(system.f_frsize);
  }
  return std::shared_ptr<SpillFile>(
      new SpillFile(file, folder, limit_bytes, std::move(device), through));
}

SpillFile::SpillFile(int file, std::string folder, std::int64_t limit_bytes,
                     std::shared_ptr<device::Device> device, bool through)
    : Tier("the spill file", limit_bytes, std::move(device)),
      file_(file),
      folder_(std::move(folder)),
      through_(through) {}

SpillFile::~SpillFile() { close(file_); }

Result<std::unique_ptr<TierBlock>> SpillFile::allocate_block(std::int64_t bytes) {
  auto self = std::static_pointer_cast<SpillFile>(shared_from_this());
  for (const auto& [offset, size] : free_) {
    if (size < bytes) continue;
    const std::int64_t begin = offset, left = size - bytes;
    free_.erase(begin);
    if (left > 0) free_.emplace(begin + bytes, left);
    return std::unique_ptr<TierBlock>(std::make_unique<Block>(std::move(self), begin, bytes));
  }
  const std::string what = "reserving " + std::to_string(bytes) + " bytes of disk in " + folder_;
  if (bytes > limit_bytes() - end_) {
    return Status::resource_exhausted(
        what + ": no gap in the file is large enough (raise its limit)",
        {limit_bytes(), end_ + bytes, "the spill file"});
  }
  if (end_ + bytes > reserved_) {
    const int error = posix_fallocate(file_, reserved_, end_ + bytes - reserved_);
    if (error != 0) return file_error(what, error);
    reserved_ = end_ + bytes;
  }
  const std::int64_t begin = std::exchange(end_, end_ + bytes);
  return std::unique_ptr<TierBlock>(std::make_unique<Block>(std::move(self), begin, bytes));
}

void SpillFile::release(std::int64_t offset, std::int64_t bytes) {
  if (bytes == 0) return;
  auto [it, inserted] = free_.emplace(offset, bytes);
  const auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it != free_.begin()) {
    const auto before = std::prev(it);
    if (before->first + before->second == it->first) {
      before->second += it->second;
      free_.erase(it);
      it = before;
    }
  }
  if (it->first + it->second == end_) {
    end_ = it->first;
    free_.erase(it);
  }
}

void SpillFile::inject(Fault fault, std::int64_t n) {
  fault_in_[static_cast<std::size_t>(fault)].store(n);
}

bool SpillFile::is_due(Fault fault) {
  std::atomic<std::int64_t>& in = fault_in_[static_cast<std::size_t>(fault)];
  return in.load(std::memory_order_relaxed) > 0 && in.fetch_sub(1) == 1;
}

Status SpillFile::write(std::int64_t offset, const std::byte* data, std::int64_t bytes) {
  while (bytes > 0) {
    const std::int64_t size = is_due(Fault::short_write) ? (bytes + 1) / 2 : bytes;
    const ssize_t done = is_due(Fault::write)
                             ? (errno = EIO, -1)
                             : pwrite(file_, data, static_cast<std::size_t>(size), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return file_error("spilling to " + folder_, errno);
    data += done;
    offset += done;
    bytes -= done;
  }
  return ok_status();
}

Status SpillFile::read(std::int64_t offset, std::byte* data, std::int64_t bytes) {
  while (bytes > 0) {
    const std::int64_t size = is_due(Fault::short_read) ? (bytes + 1) / 2 : bytes;
    const ssize_t done = is_due(Fault::read)
                             ? (errno = EIO, -1)
                             : pread(file_, data, static_cast<std::size_t>(size), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return file_error("reading back from " + folder_, errno);
    if (done == 0) return data_loss("reading back from " + folder_ + ": the file ends early");
    if (is_due(Fault::flipped_bit)) data[done / 2] ^= std::byte{1};
    data += done;
    offset += done;
    bytes -= done;
  }
  return ok_status();
}

Result<LinkSpeed> SpillFile::measure() {
  const std::int64_t bytes = std::min(kMeasuredBytes, limit_bytes());
  PLIMSOLL_ASSIGN_OR_RETURN(const auto scratch, open(folder_, bytes, device(), /*through=*/true));
  return time_transfers(*scratch, *device(), bytes);
}

}  // namespace plimsoll::memory
