// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::cases {

// HLO text of a training step over layers with attention, by a forward loop and its backward loop,
// as a scan over layers is differentiated. It varies, by the seed alone, in what is stacked of the
// softmax, how its gradient is written, the mask (none, causal, of keys, both; made in front of the
// loops or in them), a scale, whether the attention's result is stacked, and the loops' directions.
std::string scanned_attention(std::uint64_t seed);

}  // namespace plimsoll::cases
