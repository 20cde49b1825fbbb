// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "jit/jit.h"

namespace plimsoll {

// One for all tests of a program; never freed.
inline jit::Compiler& compiler() {
  static const auto* const instance =
      new std::shared_ptr<jit::Compiler>(std::move(jit::Compiler::create()).value());
  return **instance;
}

}  // namespace plimsoll
