// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The inner loops of attention on pairs of bf16, for machines that multiply those (AVX512_BF16, and
// AMX where it is there). A pair is two numbers that follow each other in the contracted dim, the
// first in the low half.
namespace plimsoll::kernels {

struct Bf16Loops {
  // c[i][j] = (add ? c[i][j] : 0) + sum over k < pairs of both products of the pairs
  // a[i * row + k * column] (in numbers, not in pairs) and b[k * b_stride + j] (in pairs), for
  // i < rows, j < columns, a multiple of 16.
  void (*multiply)(float* c, std::int64_t c_stride, const std::uint16_t* a, std::int64_t row,
                   std::int64_t column, const std::uint32_t* b, std::int64_t b_stride,
                   std::int64_t rows, std::int64_t columns, std::int64_t pairs, bool add);
  // to[i] = (first[i], second[i]), for i < count; without a second row it counts as zero.
  void (*interleave)(const std::uint16_t* first, const std::uint16_t* second, std::uint32_t* to,
                     std::int64_t count);
  // The same of f32 that are rounded to bf16; count is a multiple of 16.
  void (*narrow_pairs)(const float* first, const float* second, std::uint32_t* to,
                       std::int64_t count);
  // to[i] = from[i] rounded to bf16; count is a multiple of 16.
  void (*narrow)(const float* from, std::uint16_t* to, std::int64_t count);
  bool uses_tiles = false;  // `multiply` wants a TileScope (tile_registers.h)
};

// Null where the machine has no such products. The loops of vectors, of tiles, and those that are
// used: tiles where they are there. Of every 16 pairs tiles add up the first products and the
// second ones, each in order, then both, and then the sum before.
const Bf16Loops* bf16_vector_loops();
const Bf16Loops* bf16_tile_loops();
const Bf16Loops* bf16_loops();

}  // namespace plimsoll::kernels
