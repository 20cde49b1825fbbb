// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/window/window.h"

// The inner loops of f32 windows, compiled for several instruction sets; which one runs is found
// out at run time. All take elements in the same order: the same bits.
namespace plimsoll::kernels {

// One position of the window in rows without lanes: result x takes element x + shift of the
// elements that lie `phase` past a multiple of the stride, where first <= x < end.
struct RowTap {
  std::int64_t phase, shift, first, end;
};

// Rows of windows along the innermost windowed axis; row r has its results from row_out[r] on, and
// its elements start from offsets[row_offsets[r]] to, not including, offsets[row_offsets[r + 1]].
struct RowPlan {
  std::int64_t lanes;  // neighbouring results that share a window
  std::int64_t in_size, in_stride, out_size, out_stride, stride;
  const Taps* taps;  // per position of the axis
  const std::int64_t *row_out, *row_offsets, *offsets;
  // Without lanes: the window's positions, and where its phases lie in `phases` below.
  const RowTap *row_taps, *row_taps_end;
  std::int64_t phase_front, phase_stride;
};

struct Rows {
  const float* in;
  float* out;
  float init;
  std::int64_t begin, end;
  std::int64_t* flat;  // room for the offsets of a window's elements
  float* phases;       // room for the phases of a row's elements; null: tap by tap
};

void sum_rows(const RowPlan& plan, const Rows& rows);
// NaN if any element is, -0 below +0.
void maximum_rows(const RowPlan& plan, const Rows& rows);

// Windows that each send one source to the first of their elements that is no less than those
// before it (select: GE), where sources add up. Window w has source sources[w] and the elements
// offsets[begins[w]] to, not including, offsets[begins[w + 1]].
struct RoutePlan {
  std::int64_t windows;
  const std::int64_t *sources, *begins, *offsets;
  bool disjoint;  // no element is in two windows: results need no starting value
};

struct Route {
  const float *in, *source;
  float* result;  // of disjoint windows written, else added to
  float init;
  std::int64_t lanes;
};

void route_windows(const RoutePlan& plan, const Route& route);

}  // namespace plimsoll::kernels
