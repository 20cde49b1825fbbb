// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll {

// A file that is read where the system keeps it: pages come from the disk as they are read, and are
// nobody's own memory. Whoever writes the file while it is mapped changes what is read; whoever
// cuts it short ends the process that reads beyond its end, so files are to be replaced, not
// rewritten.
class MappedFile {
 public:
  // NOT_FOUND when `path` can't be opened or is a folder, UNAVAILABLE when it can't be mapped.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Valid for the life of this object; begins at a page.
  std::string_view bytes() const { return {static_cast<const char*>(start_), size_}; }

 private:
  MappedFile(void* start, std::size_t size) : start_(start), size_(size) {}

  void* start_;
  std::size_t size_;
};

}  // namespace plimsoll
