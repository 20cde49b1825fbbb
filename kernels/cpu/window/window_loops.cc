// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/window/window_loops.h"

#include <cstddef>
#include <cstring>

// window_loops.inc is compiled once per instruction set. Function clones (clones.h) would not do:
// vectors are taken apart before functions are cloned.
#if defined(__x86_64__)
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif
#define PLIMSOLL_LOOPS avx512
#define PLIMSOLL_LANES 16
#include "kernels/cpu/window/window_loops.inc"
#undef PLIMSOLL_LOOPS
#undef PLIMSOLL_LANES
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define PLIMSOLL_LOOPS avx2
#define PLIMSOLL_LANES 8
#include "kernels/cpu/window/window_loops.inc"
#undef PLIMSOLL_LOOPS
#undef PLIMSOLL_LANES
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#define PLIMSOLL_LOOPS baseline
#define PLIMSOLL_LANES 4
#include "kernels/cpu/window/window_loops.inc"

namespace plimsoll::kernels {
namespace {

struct Loops {
  void (*sum)(const RowPlan&, const Rows&);
  void (*maximum)(const RowPlan&, const Rows&);
  void (*route)(const RoutePlan&, const Route&);
};

Loops loops_of_this_machine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0)
    return {avx512::sum_rows, avx512::maximum_rows, avx512::route_windows};
  if (__builtin_cpu_supports("avx2") != 0)
    return {avx2::sum_rows, avx2::maximum_rows, avx2::route_windows};
#endif
  return {baseline::sum_rows, baseline::maximum_rows, baseline::route_windows};
}

const Loops& loops() {
  static const Loops loops = loops_of_this_machine();
  return loops;
}

}  // namespace

void sum_rows(const RowPlan& plan, const Rows& rows) { loops().sum(plan, rows); }

void maximum_rows(const RowPlan& plan, const Rows& rows) { loops().maximum(plan, rows); }

void route_windows(const RoutePlan& plan, const Route& route) { loops().route(plan, route); }

}  // namespace plimsoll::kernels
