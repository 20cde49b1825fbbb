// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <string>

#include "runtime/passes/passes.h"

namespace plimsoll::executor {

// How a program is compiled beyond what it computes: the bits are the same in all forms.
struct ProgramForm {
  passes::Fusion fusion = passes::Fusion::full;
  passes::Residuals residuals = passes::Residuals::cheaper;
  auto operator<=>(const ProgramForm&) const = default;
};

}  // namespace plimsoll::executor
