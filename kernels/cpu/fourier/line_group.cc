// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/fourier/line_group.h"

#include <algorithm>

#include "kernels/cpu/clones.h"

#define PLIMSOLL_INLINE inline __attribute__((always_inline))

namespace plimsoll::kernels {
namespace {

// Numbers that are read together, and written together.
constexpr std::int64_t kBlock = 8;

// Calls `visit(number in the array, number among the lines, how far apart the next ones are in
// either, how many)`, along what is contiguous in one of them.
template <typename Visit>
PLIMSOLL_INLINE void each_run(const LineGroup& group, Visit visit) {
  const std::int64_t lines = group.lines, length = group.length, stride = group.stride;
  if (stride == 1) {
    for (std::int64_t block = 0; block < length; block += kBlock) {
      const std::int64_t count = std::min(kBlock, length - block);
      for (std::int64_t line = 0; line < lines; ++line) {
        visit((group.first + line) * group.pitch + block, block * lines + line, lines, count);
      }
    }
    return;
  }
  for (std::int64_t line = 0, run = 0; line < lines; line += run) {
    const std::int64_t i = group.first + line;
    run = std::min(lines - line, stride - i % stride);
    const std::int64_t at = i / stride * group.pitch * stride + i % stride;
    for (std::int64_t j = 0; j < length; ++j) {
      visit(at + j * stride, j * lines + line, 1, run);
    }
  }
}

// Whole blocks have loops of a known length.
template <typename Move>
PLIMSOLL_INLINE void each_number(const LineGroup& group, Move move) {
  each_run(group, [&](std::int64_t at, std::int64_t line_at, std::int64_t step, std::int64_t count)
                      __attribute__((always_inline)) {
                        if (count == kBlock && step == 1) {
                          for (std::int64_t i = 0; i < kBlock; ++i) move(at + i, line_at + i);
                        } else if (count == kBlock && step == kBlock) {
                          for (std::int64_t i = 0; i < kBlock; ++i) {
                            move(at + i, line_at + i * kBlock);
                          }
                        } else {
                          for (std::int64_t i = 0; i < count; ++i) move(at + i, line_at + i * step);
                        }
                      });
}

template <typename R>
PLIMSOLL_INLINE void load_complex(const LineGroup& group, const std::complex<R>* numbers,
                                  ComplexLines to) {
  const R* __restrict from = reinterpret_cast<const R*>(numbers);
  double* __restrict re = to.re;
  double* __restrict im = to.im;
  each_number(group, [=](std::int64_t at, std::int64_t line_at) __attribute__((always_inline)) {
    re[line_at] = from[2 * at];
    im[line_at] = from[2 * at + 1];
  });
}

template <typename R>
PLIMSOLL_INLINE void load_real(const LineGroup& group, const R* __restrict from, ComplexLines to) {
  double* __restrict re = to.re;
  double* __restrict im = to.im;
  each_number(group, [=](std::int64_t at, std::int64_t line_at) __attribute__((always_inline)) {
    re[line_at] = from[at];
    im[line_at] = 0;
  });
}

template <typename R>
PLIMSOLL_INLINE void store_complex(const LineGroup& group, ComplexLines from, double scale,
                                   std::complex<R>* numbers) {
  R* __restrict to = reinterpret_cast<R*>(numbers);
  const double* __restrict re = from.re;
  const double* __restrict im = from.im;
  each_number(group, [=](std::int64_t at, std::int64_t line_at) __attribute__((always_inline)) {
    to[2 * at] = static_cast<R>(re[line_at] * scale);
    to[2 * at + 1] = static_cast<R>(im[line_at] * scale);
  });
}

template <typename R>
PLIMSOLL_INLINE void store_real(const LineGroup& group, ComplexLines from, double scale,
                                R* __restrict to) {
  const double* __restrict re = from.re;
  each_number(group, [=](std::int64_t at, std::int64_t line_at) __attribute__((always_inline)) {
    to[at] = static_cast<R>(re[line_at] * scale);
  });
}

}  // namespace

PLIMSOLL_CLONES void LineGroup::load(const std::complex<float>* from, ComplexLines to) const {
  load_complex(*this, from, to);
}
PLIMSOLL_CLONES void LineGroup::load(const std::complex<double>* from, ComplexLines to) const {
  load_complex(*this, from, to);
}
PLIMSOLL_CLONES void LineGroup::load(const float* from, ComplexLines to) const {
  load_real(*this, from, to);
}
PLIMSOLL_CLONES void LineGroup::load(const double* from, ComplexLines to) const {
  load_real(*this, from, to);
}
PLIMSOLL_CLONES void LineGroup::store(ComplexLines from, double scale,
                                      std::complex<float>* to) const {
  store_complex(*this, from, scale, to);
}
PLIMSOLL_CLONES void LineGroup::store(ComplexLines from, double scale,
                                      std::complex<double>* to) const {
  store_complex(*this, from, scale, to);
}
PLIMSOLL_CLONES void LineGroup::store(ComplexLines from, double scale, float* to) const {
  store_real(*this, from, scale, to);
}
PLIMSOLL_CLONES void LineGroup::store(ComplexLines from, double scale, double* to) const {
  store_real(*this, from, scale, to);
}

}  // namespace plimsoll::kernels
