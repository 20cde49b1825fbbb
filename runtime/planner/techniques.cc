// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/techniques.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace plimsoll::planner {
namespace {

constexpr TechniqueInfo kTechniques[] = {
#define PLIMSOLL_TECHNIQUE(enumerator, name, description) \
  {Technique::enumerator, name, description},
#include "runtime/planner/techniques.def"
#undef PLIMSOLL_TECHNIQUE
};

}  // namespace

std::span<const TechniqueInfo> all_techniques() { return kTechniques; }

Result<TechniqueSet> parse_techniques(std::string_view names, std::string_view what) {
  TechniqueSet techniques;
  while (true) {
    const auto comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    const auto* row = std::find_if(std::begin(kTechniques), std::end(kTechniques),
                                   [&](const TechniqueInfo& each) { return each.name == name; });
    if (row == std::end(kTechniques)) {
      std::string known;
      for (const TechniqueInfo& each : kTechniques) {
        known += (known.empty() ? "" : ", ") + std::string(each.name);
      }
      return invalid_argument(std::string(what) + ": '" + std::string(name) + "' is none of " +
                              known);
    }
    techniques.add(row->technique);
    if (comma == std::string_view::npos) return techniques;
    names.remove_prefix(comma + 1);
  }
}

}  // namespace plimsoll::planner
