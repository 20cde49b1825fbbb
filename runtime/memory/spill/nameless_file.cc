// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/spill/nameless_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace plimsoll::memory {
namespace {

// Enough for every disk; for kernels (before 6.1) and file systems that don't say what they need.
constexpr std::int64_t kUsualAlignment = 4096;

std::string error_text(int error) { return std::generic_category().message(error); }

// The descriptor, or an errno, negated.
int open_nameless(const std::string& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  // What file systems and kernels say that can't do that. (EISDIR: it is not known at all.)
  if (file >= 0) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return -errno;
  std::string path = folder + "/plimsoll-spill-XXXXXX";
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return -errno;
  if (unlink(path.c_str()) == 0) return named;
  const int error = errno;
  close(named);
  return -error;
}

Status out_of_space(const std::string& what, std::int64_t available, std::int64_t needed) {
  return Status::resource_exhausted(what, {available, needed, "the spill file"});
}

}  // namespace

Status file_error(const std::string& what, int error) {
  const std::string message = what + ": " + error_text(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Status(StatusCode::resource_exhausted, message);
  }
  return unavailable(message);
}

Result<NamelessFile> NamelessFile::create(const std::string& folder, bool direct) {
  const int file = open_nameless(folder);
  if (file < 0) {
    return invalid_argument("making a spill file in '" + folder + "': " + error_text(-file) +
                            " (PLIMSOLL_SPILL_DIR or --spill-dir: a folder that can be written)");
  }
  NamelessFile result(file, folder);
  if (direct) result.try_direct();
  return result;
}

NamelessFile::NamelessFile(NamelessFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      folder_(std::move(other.folder_)),
      offset_alignment_(other.offset_alignment_),
      memory_alignment_(other.memory_alignment_),
      reserved_(other.reserved_) {}

NamelessFile::~NamelessFile() {
  if (file_ >= 0) close(file_);
}

// Transfers past the page cache: a spilled tensor would fill the system's cache with what is read
// once at most, and push out what others use; and the cache is memory, of which there is too
// little. Whether a file system does that is known only by trying it: some refuse the flag, some
// accept it and refuse the transfer, and older kernels do not tell the alignment.
void NamelessFile::try_direct() {
  const int flags = fcntl(file_, F_GETFL);
  if (flags < 0 || fcntl(file_, F_SETFL, flags | O_DIRECT) != 0) return;
  std::int64_t offset = kUsualAlignment, memory = kUsualAlignment;
#ifdef STATX_DIOALIGN
  struct statx about;
  if (statx(file_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) == 0 &&
      (about.stx_mask & STATX_DIOALIGN) != 0) {
    offset = about.stx_dio_offset_align;  // 0: the file has no direct transfers
    memory = about.stx_dio_mem_align;
  }
#endif
  // Pieces of ranges are cut at multiples of a buffer's alignment, and fit into a page.
  bool works = offset >= 64 && offset <= kUsualAlignment && kUsualAlignment % offset == 0 &&
               memory > 0 && memory <= kUsualAlignment;
  if (works) {
    // Some accept the flag and refuse the transfer.
    alignas(kUsualAlignment) static constexpr std::array<std::byte, kUsualAlignment> kZeros{};
    works = pwrite(file_, kZeros.data(), static_cast<std::size_t>(offset), 0) == offset &&
            ftruncate(file_, 0) == 0;
  }
  if (works) {
    offset_alignment_ = offset;
    memory_alignment_ = memory;
  } else {
    (void)fcntl(file_, F_SETFL, flags);
  }
}

Result<std::int64_t> NamelessFile::free_bytes() const {
  struct statvfs system;
  if (fstatvfs(file_, &system) != 0) return file_error("asking what is free in " + folder_, errno);
  return static_cast<std::int64_t>(system.f_bavail) * static_cast<std::int64_t>(system.f_frsize);
}

// The file has no name, so that nothing stays behind however the process ends. Room is taken in
// advance and in full: the order is to check the process's own limit (beyond it a signal would
// come), ask what is free, then have the file system promise it.
Status NamelessFile::reserve(std::int64_t bytes) {
  if (bytes <= reserved_) return ok_status();
  const std::string what = fmt::format(
      "reserving {} bytes of disk in {} beside {}: ", bytes - reserved_, folder_, reserved_);
  // Past this limit the system would not only refuse but send a signal that ends the process.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<rlim_t>(bytes) > limit.rlim_cur) {
    const auto most = static_cast<std::int64_t>(limit.rlim_cur);
    return out_of_space(
        fmt::format("{}files of this process end at {} bytes (ulimit -f, RLIMIT_FSIZE)", what,
                    most),
        most, bytes);
  }
  // Asked first, so that a refusal doesn't take away for a moment what others need.
  PLIMSOLL_ASSIGN_OR_RETURN(const std::int64_t free, free_bytes());
  if (bytes - reserved_ > free) {
    return out_of_space(fmt::format("{}its file system has {} free", what, free), reserved_ + free,
                        bytes);
  }
  const int error = granted(bytes);
  if (error == 0) {
    reserved_ = bytes;
    return ok_status();
  }
  (void)!ftruncate(file_, reserved_);  // a part may have been granted
  const Status status = file_error(what, error);
  if (status.code() != StatusCode::resource_exhausted) return status;
  return out_of_space(status.message(), reserved_ + free, bytes);
}

// 0, or an errno.
int NamelessFile::granted(std::int64_t bytes) const {
  while (fallocate(file_, 0, reserved_, bytes - reserved_) != 0) {
    if (errno == EINTR) continue;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    // The file system can't promise room (NFS before 4.2, some FUSE ones): the file only gets its
    // length, and a disk that is full by then makes a store fail, with the same code.
    return ftruncate(file_, bytes) == 0 ? 0 : errno;
  }
  return 0;
}

void NamelessFile::drop_cached(std::int64_t offset, std::int64_t bytes) const {
  (void)posix_fadvise(file_, offset, bytes, POSIX_FADV_DONTNEED);
}

Status NamelessFile::synchronize() const {
  return fdatasync(file_) == 0 ? ok_status() : file_error("spilling to " + folder_, errno);
}

}  // namespace plimsoll::memory
