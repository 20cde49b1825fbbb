// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plimsoll/data.hpp"

// Data to learn from where no files are, by the counter-based generator: the same everywhere.
namespace plimsoll::examples {

// Of ten classes, each a pattern of stripes of its own direction and width, in noise; 28 x 28.
data::LabeledImages synthetic_images(std::int64_t count, std::uint64_t seed);

// Sentences of a few made-up words, some of which like to follow each other.
std::string synthetic_text(std::size_t bytes, std::uint64_t seed);

}  // namespace plimsoll::examples
