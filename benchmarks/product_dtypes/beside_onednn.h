// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "runtime/base/status.h"

namespace plimsoll::benchmarks {

// Matrix products of f32 as networks have them: our kernel in turns with oneDNN's product on its
// own threads, as many of them. Per product: the kernel, gigaflops a second of time and of the
// process's processor time (which other programs disturb less), workspace, and the ratios of
// oneDNN's medians over ours, of `rounds` runs.
Result<nlohmann::ordered_json> products_beside_onednn(std::int64_t rounds);

}  // namespace plimsoll::benchmarks
