// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll::planner {

// A row of techniques.def.
enum class Technique : std::uint8_t {
#define PLIMSOLL_TECHNIQUE(enumerator, ...) enumerator,
#include "runtime/planner/techniques.def"
#undef PLIMSOLL_TECHNIQUE
};

struct TechniqueInfo {
  Technique technique;
  std::string_view name, description;
};
std::span<const TechniqueInfo> all_techniques();

// Techniques that are left out: none, but in measurements of what each is worth. Every plan is as
// valid without them; some limits need more memory, as floors are what the planner reaches.
class TechniqueSet {
 public:
  void add(Technique technique) { bits_ |= bit(technique); }
  bool contains(Technique technique) const { return (bits_ & bit(technique)) != 0; }
  bool operator==(const TechniqueSet&) const = default;

 private:
  static std::uint32_t bit(Technique technique) {
    return std::uint32_t{1} << static_cast<unsigned>(technique);
  }
  std::uint32_t bits_ = 0;
};

// Names with commas between them. INVALID_ARGUMENT, with `what` and the names that there are, for
// any other name.
Result<TechniqueSet> parse_techniques(std::string_view names, std::string_view what);

}  // namespace plimsoll::planner
