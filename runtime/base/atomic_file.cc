// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace plimsoll {
namespace {

Status failed(const std::string& path, const char* what) {
  return unavailable(path + ": cannot be " + what + " (" + std::strerror(errno) + ")");
}

Status write_all(int file, std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t kMost = 1 << 30;  // Linux takes 2 GiB at a time
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), std::min(bytes.size(), kMost));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(path, "written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ok_status();
}

// So that the name is on the disk, too. What can't be opened so can't be told to either.
void flush_folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

Status write_atomically(const std::string& path,
                        std::span<const std::span<const std::byte>> pieces) {
  static std::atomic<std::uint64_t> count{0};  // threads may write the same path
  const std::uint64_t number = count.fetch_add(1);
  const std::string partial = path + "." + std::to_string(::getpid()) +
                              (number == 0 ? "" : "-" + std::to_string(number)) + ".partial";
  const int file =
      ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return failed(path, "written");
  Status status = ok_status();
  for (const auto& piece : pieces) {
    if (status.ok()) status = write_all(file, piece, path);
  }
  if (status.ok() && ::fsync(file) != 0) status = failed(path, "brought to the disk");
  if (::close(file) != 0 && status.ok()) status = failed(path, "written");
  if (status.ok() && std::rename(partial.c_str(), path.c_str()) != 0) {
    status = failed(path, "replaced");
  }
  if (!status.ok()) {
    ::unlink(partial.c_str());
    return status;
  }
  flush_folder_of(path);
  return ok_status();
}

}  // namespace plimsoll
