// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace plimsoll::kernels {

// The bits of the f32 from which rounding `value` on to a format of at most 22 significant bits
// gives what rounding once would: where the first rounding loses something, the neighbour with an
// odd last bit (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved
// algorithms using rounding to odd", 2008). A NaN stays one.
[[gnu::always_inline]] inline std::uint32_t round_to_odd(double value) {
  const auto near = static_cast<float>(value);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(near);
  const double back = near;
  if (back == value || std::isnan(value)) return bits;
  return (std::fabs(back) > std::fabs(value) ? bits - 1 : bits) | 1u;
}

}  // namespace plimsoll::kernels
