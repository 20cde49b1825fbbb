// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::jit {

// A fusion whose every value is a scalar or has one and the same number of elements, each computed
// from its operands' elements at the same row-major position. What it computes does not depend on
// the number: one function serves all extents.
struct FlatForm {
  // Entry: parameters and one fusion, the root. Every value but the scalars has kFlatExtent
  // elements, reshapes are gone; what differs by extents and ranks only becomes the same.
  std::unique_ptr<ir::Module> module;
  std::int64_t elements = 0;  // of the fusion it was made from

  const ir::Instruction& fusion() const { return *module->entry()->root(); }
};

inline constexpr std::int64_t kFlatExtent = std::int64_t{1} << 40;
// Extents are cut at multiples of this, so that vectors stay whole.
inline constexpr std::int64_t kFlatUnit = 1024;

// Fusions of up to this many elements that have a flat form share its function, whatever their
// extents: so many small updates of many shapes are compiled once. What is larger is worth code of
// its own.
inline constexpr std::int64_t kMostFlatElements = 16 << 10;

// Without a module where the instruction is no such fusion.
FlatForm flat_form(const ir::Instruction& instruction);

}  // namespace plimsoll::jit
