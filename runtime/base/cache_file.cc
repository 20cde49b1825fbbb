// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/cache_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/base/file.h"

namespace plimsoll {
namespace {

Status failed(const std::string& path) { return unavailable(path + ": " + std::strerror(errno)); }

Status make_folders(const std::string& path) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      // A parent that we may not write to, but that is there, is fine.
      struct stat info;
      if (::stat(part.c_str(), &info) != 0) return failed(part);
    }
    if (end == std::string::npos) return ok_status();
  }
}

Status write_all(int file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return failed(path);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ok_status();
}

}  // namespace

std::string cache_folder() {
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

Result<std::string> read_cache_file(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return not_found(path + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return failed_precondition(path + ": belongs to, or may be written by, another user");
  }
  return read_file(path);
}

Status write_cache_file(const std::string& folder, const std::string& name, std::string_view text) {
  PLIMSOLL_RETURN_IF_ERROR(make_folders(folder));
  std::string temporary = folder + "/." + name + ".XXXXXX";
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);  // 0600
  if (file < 0) return failed(temporary);
  Status status = write_all(file, text, temporary);
  if (::close(file) != 0 && status.ok()) status = failed(temporary);
  const std::string path = folder + "/" + name;
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) status = failed(path);
  if (!status.ok()) ::unlink(temporary.c_str());
  return status;
}

}  // namespace plimsoll
