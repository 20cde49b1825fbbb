// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/tensor.hpp"

namespace plimsoll::internal {

// A bucket of so few bytes waits for nobody worth waiting for: what its meeting takes is what
// moving it takes.
inline constexpr std::int64_t kSmallBucketBytes = std::int64_t{1} << 20;

// Where the buckets of `tensors` end, which are ready in their order: each is of one dtype and of
// `bucket_bytes` at most, or one tensor. Nothing is computed any more while the last of them
// travels, so that no bucket takes more than half of what is left, until that is little.
inline std::vector<std::size_t> bucket_ends(std::span<const Tensor> tensors,
                                            std::int64_t bucket_bytes) {
  std::int64_t left = 0;
  for (const Tensor& tensor : tensors) left += tensor.byte_size();
  std::vector<std::size_t> ends;
  std::size_t next = 0;
  while (next < tensors.size()) {
    const std::int64_t most = std::min(bucket_bytes, std::max(kSmallBucketBytes, left / 2));
    const DType dtype = tensors[next].dtype();
    std::int64_t bytes = 0;
    do {
      bytes += tensors[next++].byte_size();
    } while (next < tensors.size() && tensors[next].dtype() == dtype &&
             bytes + tensors[next].byte_size() <= most);
    left -= bytes;
    ends.push_back(next);
  }
  return ends;
}

// `operation` of each bucket of the tensors, which gives as many; all results, in their order.
template <typename Operation>
std::vector<Tensor> in_buckets(std::span<const Tensor> tensors, std::int64_t bucket_bytes,
                               Operation&& operation) {
  std::vector<Tensor> results;
  std::size_t begin = 0;
  for (const std::size_t end : bucket_ends(tensors, bucket_bytes)) {
    for (Tensor& result : operation(tensors.subspan(begin, end - begin))) {
      results.push_back(std::move(result));
    }
    begin = end;
  }
  return results;
}

}  // namespace plimsoll::internal
