// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/planner/pack/pack.h"

namespace plimsoll::planner {

// Buffers as they stand in a file: a name and a life each.
struct NamedLifetimes {
  std::vector<std::string> names;
  std::vector<Lifetime> lifetimes;
};

// Reads the common CSV form of packing instances: a header that names the columns `id`, `lower`,
// `upper` (exclusive) and `size` in any order, then a buffer a line. A column `offset` is skipped,
// so what write_packing wrote can be read. `name` stands for the file in errors, which say the
// line.
Result<NamedLifetimes> parse_lifetimes(std::string_view text, std::string_view name);

// The same form with a column `offset` behind the others.
std::string write_packing(const NamedLifetimes& buffers, std::span<const std::int64_t> offsets);

}  // namespace plimsoll::planner
