// SPDX-License-Identifier: Apache-2.0
#include "jit/reductions/row_fold.h"

#include <bit>

namespace plimsoll::jit {
namespace {

// Of vectors of `segments` rows of `length` lanes each, the lower (or upper) halves of every row of
// `x`, then of `y`.
std::vector<int> halves(int segments, int length, bool upper) {
  std::vector<int> mask;
  for (int s = 0; s < 2 * segments; ++s) {
    for (int l = 0; l < length / 2; ++l) mask.push_back(s * length + l + (upper ? length / 2 : 0));
  }
  return mask;
}

}  // namespace

// Slots first, then lanes, each taking in the one half the number further: the order of
// graph/reduction_shape.h. Lanes that took no element hold the identity.
llvm::Value* fold_slots(RowStages& stages, int reduce, std::vector<llvm::Value*> slots) {
  for (std::size_t half = slots.size() / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) {
      if (slots[i + half] != nullptr) {
        slots[i] = stages.combined(reduce, slots[i], slots[i + half]);
      }
    }
  }
  return slots[0];
}

// Vectors that have been halved make place for each other. Example, 4 rows of 4 lanes:
//   a0 a1 a2 a3, b0 b1 b2 b3  ->  a0 a1 b0 b1  +  a2 a3 b2 b3
//   c0 c1 c2 c3, d0 d1 d2 d3  ->  c0 c1 d0 d1  +  c2 c3 d2 d3
// and then the two sums as a b c d, + their other halves.
llvm::Value* fold_lanes(llvm::IRBuilder<>& b, RowStages& stages, int reduce,
                        std::vector<llvm::Value*> rows) {
  while (!std::has_single_bit(rows.size())) rows.push_back(rows.back());
  const auto count = static_cast<int>(rows.size());
  const auto width =
      static_cast<int>(llvm::cast<llvm::FixedVectorType>(rows[0]->getType())->getNumElements());
  int segments = 1, length = width;
  for (; rows.size() > 1; segments *= 2, length /= 2) {
    std::vector<llvm::Value*> next;
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      const auto half = [&](bool upper) {
        return b.CreateShuffleVector(rows[i], rows[i + 1], halves(segments, length, upper));
      };
      next.push_back(stages.combined(reduce, half(false), half(true)));
    }
    rows = std::move(next);
  }
  // Within the lanes of a row the upper ones come to the lower ones, which stay where they are.
  llvm::Value* value = rows[0];
  for (int half = length / 2; half > 0; half /= 2) {
    std::vector<int> upper;
    for (int l = 0; l < width; ++l) upper.push_back(l % length < half ? l + half : -1);
    value = stages.combined(reduce, value, b.CreateShuffleVector(value, upper));
  }
  if (count == 1) return b.CreateExtractElement(value, std::uint64_t{0});
  std::vector<int> first;
  for (int r = 0; r < count; ++r) first.push_back(r * length);
  return b.CreateShuffleVector(value, first);
}

}  // namespace plimsoll::jit
