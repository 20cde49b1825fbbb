// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace plimsoll::cases {

// `text` with every `from` as `to`.
inline std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace plimsoll::cases
