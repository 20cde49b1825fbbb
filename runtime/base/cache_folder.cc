// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/cache_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace plimsoll {
namespace {

// Half done files start with this, and are nobody else's.
constexpr std::string_view kHalfDone = ".half-";

Status failed(const std::string& path) { return unavailable(path + ": " + std::strerror(errno)); }

bool is_private(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & 022) == 0;
}

Status make_folders(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      // A parent that we may not write to, but that is there, is fine.
      const int error = errno;
      struct stat info;
      if (::stat(part.c_str(), &info) != 0) {
        errno = error;
        return failed(part);
      }
    }
    if (end == std::string::npos) return ok_status();
  }
}

// Writing past the process's limit on file sizes sends SIGXFSZ, which ends programs that don't
// expect it; while this object lives it is only an error of this thread's write.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSizeSignal() {
    const int error = errno;
    if (::sigismember(&before_, SIGXFSZ) == 0) {
      const timespec now = {0, 0};
      ::sigtimedwait(&signal_, nullptr, &now);
      ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    errno = error;
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
};

bool write_all(int file, std::string_view bytes) {
  const NoSizeSignal quiet;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

double age_of(const struct stat& info) {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec - info.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec - info.st_mtim.tv_nsec);
}

}  // namespace

std::string user_cache_folder() {
  const auto absolute = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text != nullptr && *text == '/' ? text : "";
  };
  if (const std::string cache = absolute("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/plimsoll";
  }
  if (const std::string home = absolute("HOME"); !home.empty()) return home + "/.cache/plimsoll";
  return "";
}

Result<CacheFolder> CacheFolder::open(const std::string& path, bool make) {
  if (path.empty()) return not_found("a cache folder without a name");
  if (make) PLIMSOLL_RETURN_IF_ERROR(make_folders(path));
  const int handle = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) {
    if (errno == ENOENT) return not_found(path + ": " + std::strerror(errno));
    if (errno == ENOTDIR) return failed_precondition(path + ": is not a folder");
    return failed(path);
  }
  CacheFolder folder(path, handle);
  struct stat info, link;
  if (::fstat(handle, &info) != 0 || ::lstat(path.c_str(), &link) != 0) return failed(path);
  if (!is_private(info) || (S_ISLNK(link.st_mode) && link.st_uid != ::geteuid())) {
    return failed_precondition(path +
                               ": belongs to, or may be written by, another user (a cache folder "
                               "must be this user's own: chmod 700, or choose another one)");
  }
  return folder;
}

CacheFolder::CacheFolder(CacheFolder&& other) noexcept
    : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, -1)) {}

CacheFolder& CacheFolder::operator=(CacheFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(handle_, other.handle_);
  return *this;
}

CacheFolder::~CacheFolder() {
  if (handle_ >= 0) ::close(handle_);
}

Result<std::string> CacheFolder::read(const std::string& name) const {
  const std::string path = path_ + "/" + name;
  // O_NONBLOCK: a pipe of that name must not make us wait.
  const int file = ::openat(handle_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) {
    if (errno == ENOENT) return not_found(path + ": " + std::strerror(errno));
    if (errno == ELOOP) return failed_precondition(path + ": is a link");
    return failed(path);
  }
  struct stat info;
  Status status;
  std::string bytes;
  if (::fstat(file, &info) != 0) {
    status = failed(path);
  } else if (!S_ISREG(info.st_mode) || !is_private(info)) {
    status = failed_precondition(path + ": belongs to, or may be written by, another user");
  } else {
    bytes.resize(static_cast<std::size_t>(info.st_size));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = ::read(file, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) status = failed(path);
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    bytes.resize(done);
  }
  ::close(file);
  if (!status.ok()) return status;
  return bytes;
}

Status CacheFolder::write(const std::string& name, std::string_view bytes) const {
  static std::atomic<unsigned> count{0};
  std::string temporary;
  int file = -1;
  // A process of the same number may have left one behind.
  for (int attempt = 0; attempt < 100 && file < 0; ++attempt) {
    temporary = fmt::format("{}{}-{}", kHalfDone, ::getpid(), count++);
    file = ::openat(handle_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 && errno != EEXIST) break;
  }
  if (file < 0) return failed(path_ + "/" + temporary);
  Status status;
  if (!write_all(file, bytes)) status = failed(path_ + "/" + temporary);
  if (::close(file) != 0 && status.ok()) status = failed(path_ + "/" + temporary);
  if (status.ok() && ::renameat(handle_, temporary.c_str(), handle_, name.c_str()) != 0) {
    status = failed(path_ + "/" + name);
  }
  if (!status.ok()) ::unlinkat(handle_, temporary.c_str(), 0);
  return status;
}

bool CacheFolder::remove(const std::string& name) const {
  return ::unlinkat(handle_, name.c_str(), 0) == 0 || errno == ENOENT;
}

std::vector<CacheFolder::File> CacheFolder::list(bool half_done) const {
  std::vector<File> files;
  // Of its own: the position in a folder belongs to the open file.
  const int handle = ::openat(handle_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return files;
  DIR* folder = ::fdopendir(handle);
  if (folder == nullptr) {
    ::close(handle);
    return files;
  }
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    struct stat info;
    if (name.starts_with(kHalfDone) != half_done ||
        ::fstatat(handle, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) {
      continue;
    }
    files.push_back({std::string(name), info.st_size, age_of(info)});
  }
  ::closedir(folder);
  return files;
}

std::vector<CacheFolder::File> CacheFolder::files() const { return list(false); }

void CacheFolder::touch(const std::string& name, double seconds) const {
  struct stat info;
  if (::fstatat(handle_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
      age_of(info) > seconds) {
    ::utimensat(handle_, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
}

void CacheFolder::remove_leftovers(double seconds) const {
  for (const File& file : list(true)) {
    if (file.age_seconds > seconds) remove(file.name);
  }
}

CacheFolder::Lock::Lock(const CacheFolder& folder)
    : handle_(::openat(folder.handle_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (handle_ >= 0 && ::flock(handle_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

CacheFolder::Lock::~Lock() {
  if (handle_ < 0) return;
  // A child forked meanwhile has the handle, too, and closing it here alone would not open the
  // lock.
  ::flock(handle_, LOCK_UN);
  ::close(handle_);
}

}  // namespace plimsoll
