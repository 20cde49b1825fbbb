// SPDX-License-Identifier: Apache-2.0
#include "jit/loops/transpose_tile.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::jit {
namespace {

using Values = std::vector<llvm::Value*>;

constexpr unsigned kLaneBits = 128;

// Of every lane of `lane` elements the lower (or upper) halves of `x` and `y`, `run` elements of
// one and then of the other.
//
// Example: 4 rows of 4 f32, one 128-bit lane each. Round 1 (run = 1) interleaves rows 0 and 1, and
// rows 2 and 3:
//   a0 a1 a2 a3     a0 b0 a1 b1
//   b0 b1 b2 b3  -> a2 b2 a3 b3
//   c0 c1 c2 c3     c0 d0 c1 d1
//   d0 d1 d2 d3     c2 d2 c3 d3
// Round 2 (run = 2) interleaves pairs of the first and third, and of the second and fourth: a0 b0
// c0 d0, a1 b1 c1 d1, a2 b2 c2 d2, a3 b3 c3 d3. With vectors of several lanes each lane does the
// same with its own columns, and gather_lanes() brings the lanes of one column together at the end.
// n rows take n log2(n) shuffles, each of which x86 has as one instruction (unpack, shuffle of
// whole lanes).
std::vector<int> interleaved(int width, int lane, int run, bool upper) {
  std::vector<int> mask;
  for (int first = upper ? lane / 2 : 0; first < width; first += lane) {
    for (int i = first; i < first + lane / 2; i += run) {
      for (const int source : {0, width}) {
        for (int k = 0; k < run; ++k) mask.push_back(source + i + k);
      }
    }
  }
  return mask;
}

// Every second lane, from number `first` on: those of `x`, then those of `y`.
std::vector<int> every_second(int width, int lane, int first) {
  std::vector<int> mask;
  for (int i = first * lane; i < 2 * width; i += 2 * lane) {
    for (int k = 0; k < lane; ++k) mask.push_back(i + k);
  }
  return mask;
}

// The vectors of `rows`, which hold the same columns in lanes of their own, as one vector for every
// lane: that lane of each of them, in order.
Values gather_lanes(llvm::IRBuilder<>& b, const Values& rows, int width, int lane) {
  if (rows.size() == 1) return rows;
  Values even, odd;
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    even.push_back(b.CreateShuffleVector(rows[i], rows[i + 1], every_second(width, lane, 0)));
    odd.push_back(b.CreateShuffleVector(rows[i], rows[i + 1], every_second(width, lane, 1)));
  }
  even = gather_lanes(b, even, width, lane);
  odd = gather_lanes(b, odd, width, lane);
  Values all;
  for (std::size_t i = 0; i < even.size(); ++i) {
    all.push_back(even[i]);
    all.push_back(odd[i]);
  }
  return all;
}

}  // namespace

Values transpose_tile(llvm::IRBuilder<>& b, Values rows) {
  const auto* type = llvm::cast<llvm::FixedVectorType>(rows.front()->getType());
  const auto width = static_cast<int>(type->getNumElements());
  const int lane =
      std::min(width, static_cast<int>(kLaneBits / type->getElementType()->getScalarSizeInBits()));
  // After a round, `run` rows share `run` vectors, of which vector c has their columns c * lane /
  // run and on in every lane.
  for (int run = 1; run < lane; run *= 2) {
    Values next(rows.size());
    for (int group = 0; group < width; group += 2 * run) {
      for (int c = 0; c < run; ++c) {
        llvm::Value* x = rows[at(group + c)];
        llvm::Value* y = rows[at(group + run + c)];
        for (const bool upper : {false, true}) {
          next[at(group + 2 * c + (upper ? 1 : 0))] =
              b.CreateShuffleVector(x, y, interleaved(width, lane, run, upper));
        }
      }
    }
    rows = std::move(next);
  }
  Values columns(rows.size());
  for (int c = 0; c < lane; ++c) {
    Values group;
    for (int r = c; r < width; r += lane) group.push_back(rows[at(r)]);
    group = gather_lanes(b, group, width, lane);
    for (std::size_t q = 0; q < group.size(); ++q) {
      columns[q * at(lane) + at(c)] = group[q];
    }
  }
  return columns;
}

}  // namespace plimsoll::jit
