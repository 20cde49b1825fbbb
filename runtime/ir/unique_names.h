// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/hash.h"

namespace plimsoll::ir {

// Names, each given once. Programs have few names before the number ("add", "add.1", "add.2", ...):
// they are kept as these and the numbers taken of each.
class UniqueNames {
 public:
  // `wanted`, or where it is taken the base of it with the lowest number above those asked for so
  // far ("x.3" asks for another "x", so that names do not grow by ".1" at every copy). The base is
  // taken then, too.
  std::string take(std::string_view wanted);

 private:
  struct Numbers {
    // Whether the number (0: none) was not taken.
    bool mark(std::int64_t number);

    bool base = false;                        // the name without a number is taken
    std::int64_t last = 0;                    // all from 1 to it are taken
    std::unordered_set<std::int64_t> beyond;  // and these, which are greater
  };
  Numbers& numbers_of(std::string_view base);
  // Whether it was not.
  bool mark(std::string_view name);

  std::unordered_map<std::string, Numbers, TextHash, std::equal_to<>> names_;
};

}  // namespace plimsoll::ir
