// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::planner {

// A buffer's life, half-open in time, and size in bytes.
struct Lifetime {
  std::int64_t lower = 0, upper = 0;  // alive in [lower, upper)
  std::int64_t size = 0;
};

struct Packing {
  std::vector<std::int64_t> offsets;  // multiples of the alignment
  std::int64_t height = 0;            // max of offset + size
  std::int64_t load = 0;  // max over time of the live (aligned) bytes: no packing is lower
};

struct PackOptions {
  std::int64_t alignment = 1;
  // A height that is looked for; no lower one is, nor below the load.
  std::int64_t target = 0;
  // A height that ends the search where it turns up, without being looked for: what is tried, and
  // in which order, does not depend on it. So a packing that is at most `enough` high is found if
  // and only if the packing found without it is.
  std::int64_t enough = 0;
  double effort = 1;  // bounds the work
  // With more than 0, the processor time of the calling thread bounds the work in place of
  // `effort`, and results may differ from run to run.
  double seconds = 0;
};

// Offsets such that no two buffers that live at the same time overlap. A portfolio of orders with
// best fit, then a search on the critical windows; stops early at the load, the target or enough.
// Deterministic as long as no seconds are given. Sizes must sum up to less than 2^62 when aligned.
Packing pack(std::span<const Lifetime> lifetimes, const PackOptions& options);

Packing pack(std::span<const Lifetime> lifetimes, std::int64_t alignment, std::int64_t target = 0,
             int effort = 1);

}  // namespace plimsoll::planner
