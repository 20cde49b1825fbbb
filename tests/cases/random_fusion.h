// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/ir/module.h"

namespace plimsoll::cases {

// The entry of `program` among random neighbours, as one computation that a compiler may fuse: its
// parameters come out of elementwise operations and movements on other parameters, its results go
// on through some, now and then through a reduction or a sibling result of the same dims. Values
// are not kept in bounds: what is compared has to be a matter of bits. The same for the same seed.
// Null where the entry has parameters or results that are no arrays (a tuple as the root is taken),
// or no results.
std::unique_ptr<ir::Module> random_fusion(const ir::Module& program, std::uint64_t seed);

}  // namespace plimsoll::cases
