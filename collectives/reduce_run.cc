// SPDX-License-Identifier: Apache-2.0
#include "collectives/reduce_run.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::collectives {
namespace {

// Reduced at a time, so that what is copied to further arrays is still near the processor.
constexpr std::int64_t kBlockBytes = 8 << 10;
// Of blocks, and of rows of bytes, for a thread of its own.
constexpr std::int64_t kGrainBytes = 256 << 10;

}  // namespace

void copy_rows(const device::Rows& from, const device::Rows& to) {
  if (from.data == to.data && from.stride == to.stride) return;
  if (from.stride == from.bytes && to.stride == to.bytes) {
    device::parallel_for(
        from.count * from.bytes, kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(to.data + begin, from.data + begin, static_cast<std::size_t>(end - begin));
        });
    return;
  }
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrainBytes / std::max<std::int64_t>(1, from.bytes));
  device::parallel_for(from.count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::memcpy(to.data + row * to.stride, from.data + row * from.stride,
                  static_cast<std::size_t>(from.bytes));
    }
  });
}

void reduce_run(std::span<const void* const> in, std::int64_t first, std::int64_t count,
                const device::Reduction& reduction, std::span<void* const> out, std::int64_t to) {
  const std::int64_t bytes = reduction.element_bytes();
  const std::int64_t block = kBlockBytes / bytes;
  device::parallel_for(
      (count + block - 1) / block, kGrainBytes / kBlockBytes,
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<const void*> members(in.size());
        for (std::int64_t done = begin * block; done < std::min(end * block, count);
             done += block) {
          const std::int64_t size = std::min(block, count - done);
          for (std::size_t m = 0; m < in.size(); ++m)
            members[m] = static_cast<const std::byte*>(in[m]) + (first + done) * bytes;
          std::byte* const result = static_cast<std::byte*>(out[0]) + (to + done) * bytes;
          reduction.reduce(members, result, size);
          for (std::size_t i = 1; i < out.size(); ++i) {
            std::memcpy(static_cast<std::byte*>(out[i]) + (to + done) * bytes, result,
                        static_cast<std::size_t>(size * bytes));
          }
        }
      });
}

}  // namespace plimsoll::collectives
