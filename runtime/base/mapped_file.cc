// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace plimsoll {
namespace {

std::string reason() { return std::system_category().message(errno); }

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  // A FIFO would be waited for.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return not_found(path + ": cannot be opened (" + reason() + ")");
  struct stat facts{};
  const bool is_known = ::fstat(file, &facts) == 0;
  if (!is_known || !S_ISREG(facts.st_mode)) {
    ::close(file);
    return not_found(path + ": is no regular file");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* start = nullptr;
  if (size > 0) start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  const std::string why = start == MAP_FAILED ? reason() : std::string();
  ::close(file);
  if (start == MAP_FAILED) return unavailable(path + ": cannot be mapped (" + why + ")");
  return std::shared_ptr<const MappedFile>(new MappedFile(start, size));
}

MappedFile::~MappedFile() {
  if (start_ != nullptr) ::munmap(start_, size_);
}

}  // namespace plimsoll
