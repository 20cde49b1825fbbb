// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/baselines/remat_names.h"

#include <algorithm>

namespace plimsoll::planner {
namespace {

constexpr std::string_view kSuffix = ".remat";

std::string without_suffix(const std::string& name) {
  const std::size_t at = name.rfind(kSuffix);
  if (at == std::string::npos || at == 0) return name;
  const bool number = std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at + kSuffix.size()),
                                  name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return number ? name.substr(0, at) : name;
}

}  // namespace

RematNames::RematNames(const ir::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) taken_.insert(instruction->name());
  }
}

std::string RematNames::next(const ir::Instruction& original) {
  const std::string base = without_suffix(original.name()) + std::string(kSuffix);
  std::string name = base;
  for (int i = 2; !taken_.insert(name).second; ++i) name = base + std::to_string(i);
  return name;
}

}  // namespace plimsoll::planner
