// SPDX-License-Identifier: Apache-2.0
#include "jit/emit/strided_vectors.h"

#include <algorithm>

namespace plimsoll::jit {

using llvm::Value;

// Of 4 lanes with a stride of 3: elements 0, 3, 6 and 9 are lanes 0 and 3 of the vector at 0, lane
// 2 of the one at 4, and lane 3 of the last one, which begins at 6 so that it ends at 9.
Value* load_apart(llvm::IRBuilderBase& b, llvm::FixedVectorType* vector, Value* first,
                  std::int64_t stride, llvm::Align alignment) {
  const auto lanes = static_cast<std::int64_t>(vector->getNumElements());
  Value* found = nullptr;
  for (std::int64_t part = 0; part < stride; ++part) {
    const std::int64_t begin = part + 1 < stride ? part * lanes : part * (lanes - 1);
    Value* const address = b.CreateConstInBoundsGEP1_64(vector->getElementType(), first,
                                                        static_cast<std::uint64_t>(begin));
    Value* const loaded = b.CreateAlignedLoad(vector, address, alignment);
    std::vector<int> from;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t element = lane * stride;
      const std::int64_t in = std::min(element / lanes, stride - 1);
      // Of what is found before, else of what is loaded, else not known yet.
      from.push_back(in < part    ? static_cast<int>(lane)
                     : in == part ? static_cast<int>((part == 0 ? 0 : lanes) + element - begin)
                                  : -1);
    }
    found = part == 0 ? b.CreateShuffleVector(loaded, from)
                      : b.CreateShuffleVector(found, loaded, from);
  }
  return found;
}

std::vector<Value*> by_turns(llvm::IRBuilderBase& b, const std::vector<Value*>& vectors) {
  const auto lanes =
      static_cast<int>(llvm::cast<llvm::FixedVectorType>(vectors[0]->getType())->getNumElements());
  const auto count = static_cast<int>(vectors.size());
  std::vector<Value*> turns;
  for (int part = 0; part < count; ++part) {
    Value* made = nullptr;
    for (int v = 0; v < count; ++v) {
      std::vector<int> from;
      for (int lane = 0; lane < lanes; ++lane) {
        const int element = part * lanes + lane;
        const int in = element % count;
        from.push_back(in < v ? lane : in == v ? (v == 0 ? 0 : lanes) + element / count : -1);
      }
      Value* const vector = vectors[static_cast<std::size_t>(v)];
      made =
          v == 0 ? b.CreateShuffleVector(vector, from) : b.CreateShuffleVector(made, vector, from);
    }
    turns.push_back(made);
  }
  return turns;
}

}  // namespace plimsoll::jit
