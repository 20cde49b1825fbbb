// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "runtime/passes/passes.h"

namespace plimsoll::executor {

// As written, a module has several times as many kernels, which takes as much longer to compile and
// to plan, and hardly ever needs less than narrow fusion: longer programs have no such form.
inline constexpr std::int64_t kMostInstructionsAsWritten = 300;

// How a program is compiled beyond what it computes: the bits are the same in all forms.
struct ProgramForm {
  passes::Fusion fusion = passes::Fusion::full;
  passes::Residuals residuals = passes::Residuals::cheaper;
  int recomputed_percent = 100;  // of the rounds of loops: the others do what is cheaper
  // In full fusion, of a program whose participants run one plan: collectives are combined.
  bool combined = true;
  auto operator<=>(const ProgramForm&) const = default;
};

}  // namespace plimsoll::executor
