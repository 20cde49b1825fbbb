// SPDX-License-Identifier: Apache-2.0
#include "tools/names.h"

#include <fmt/core.h>
#include <algorithm>

namespace plimsoll::tools {

Result<std::vector<std::string>> split_names(std::string_view flag,
                                             const std::vector<std::string>& lists) {
  std::vector<std::string> names;
  for (const std::string& list : lists) {
    int number = 0;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      ++number;
      if (end == begin) {
        return invalid_argument(
            fmt::format("{}: name {} of '{}' is empty; names stand with one comma between them",
                        flag, number, list));
      }
      names.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return names;
}

}  // namespace plimsoll::tools
