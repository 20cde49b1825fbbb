// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <filesystem>
#include <fstream>

namespace plimsoll {

Result<std::string> read_file(const std::string& path, std::int64_t most_bytes) {
  std::error_code ignored;
  std::ifstream file(path, std::ios::binary);
  if (std::filesystem::is_directory(path, ignored)) {
    return not_found(path + ": is a folder, must be a file");
  }
  if (!file) return not_found(path + ": cannot be opened");
  const bool is_regular = std::filesystem::is_regular_file(path, ignored);
  // Not through istreambuf_iterator, which lets the buffer's exception out where reading fails.
  std::string text;
  char chunk[1 << 16];
  while (file.read(chunk, sizeof chunk) || file.gcount() > 0) {
    text.append(chunk, static_cast<std::size_t>(file.gcount()));
    if (!is_regular && static_cast<std::int64_t>(text.size()) > most_bytes) {
      return invalid_argument(path + ": is no regular file and gives more than " +
                              std::to_string(most_bytes) + " bytes (save them to a file first)");
    }
  }
  if (file.bad()) return data_loss(path + ": cannot be read");
  return text;
}

}  // namespace plimsoll
