// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/ir/module.h"

// Inputs for tests, and comparison of what comes out. Pure functions, safe from any thread.
namespace plimsoll::cases {

// What the elements of a random array are drawn from. Floats: uniform in [low, high]; integers:
// uniform in the integers of [low, high] that the dtype holds; pred: either.
struct InputRange {
  double low = -2;
  double high = 2;
  // Every third element or so is instead a NaN, an infinity, a signed zero, a subnormal, the
  // largest finite value, an integer limit and so on.
  bool specials = false;
};

// The same bits for the same arguments on every machine. Tuples get their elements in order.
ir::Literal random_literal(const ir::Shape& shape, std::uint64_t seed,
                           const InputRange& range = {});

// One literal per entry parameter; `ranges` may be shorter than the parameters.
std::vector<ir::Literal> random_arguments(const ir::Module& module, std::uint64_t seed,
                                          const std::vector<InputRange>& ranges = {});

// Each returns an empty string when the values agree, or a sentence naming the first element that
// differs. NaNs agree with each other whatever their bits.
std::string compare_bits(const ir::Literal& expected, const ir::Literal& actual);
// |expected - actual| <= relative * the largest finite magnitude in the expected array; infinities
// and NaNs must stand at the same places. Integers and pred must be equal. The scale is taken as
// `smallest_scale` where the magnitudes are below it (sums that cancel).
std::string compare_close(const ir::Literal& expected, const ir::Literal& actual, double relative,
                          double smallest_scale = 0);
// Floats at most `ulps` representable values apart.
std::string compare_ulps(const ir::Literal& expected, const ir::Literal& actual, std::int64_t ulps);
// compare_bits for 0, compare_close otherwise.
std::string compare(const ir::Literal& expected, const ir::Literal& actual, double relative);

}  // namespace plimsoll::cases
