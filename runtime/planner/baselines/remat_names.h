// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_set>

#include "runtime/ir/module.h"

namespace plimsoll::planner {

// Names for recomputed clones: x.remat, x.remat2, ... whatever x already ends in.
class RematNames {
 public:
  explicit RematNames(const ir::Module& module);
  std::string next(const ir::Instruction& original);

 private:
  std::unordered_set<std::string> taken_;
};

}  // namespace plimsoll::planner
