// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <filesystem>
#include <fstream>

namespace plimsoll {

Result<std::string> read_file(const std::string& path) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (std::filesystem::is_directory(path, ignored)) {
    return not_found(path + ": is a folder, must be a file");
  }
  if (!file) return not_found(path + ": cannot be opened");
  // Not through istreambuf_iterator, which lets the buffer's exception out where reading fails.
  std::string text;
  char chunk[1 << 16];
  while (file.read(chunk, sizeof chunk) || file.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return data_loss(path + ": cannot be read");
  return text;
}

}  // namespace plimsoll
