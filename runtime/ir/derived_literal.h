// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/ir/literal.h"

namespace plimsoll::ir {

// The array that `make` fills from the bytes of the parts: always alike, on any thread. Where all
// of them are kept elsewhere, as in a mapped file, so is it: its bytes are made when they are asked
// for, and may be given back meanwhile (Literal::forget).
Literal derived_literal(
    const Shape& shape, std::span<const std::shared_ptr<const Literal>> parts,
    std::function<void(std::span<const std::byte* const> parts, std::span<std::byte> to)> make);

}  // namespace plimsoll::ir
