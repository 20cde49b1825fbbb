// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/fusion_price.h"

#include <algorithm>

namespace plimsoll::passes {
namespace {

using ir::Opcode;

// A roofline: a kernel takes as long as its arithmetic or its traffic, whichever is longer, and a
// launch (S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance
// model for multicore architectures", 2009). Absolute times need not be right, only comparisons; so
// the table is of one machine and the same everywhere, and a module fuses alike wherever it is
// compiled.
//
// Example: y = a + b, z = y * c over f32[1024,1024]. An array is 4 MiB, 131 us; 2^20 operations of
// work 1 are 33 us, hidden behind the traffic. Apart: (2 + 1) * 131 and the same again, with two
// launches 787 us. Fused: 3 reads and a write, 525 us. Over f32[128,128] (64 KiB, in the cache, 0.5
// us): 3.9 us apart and 2.4 us fused. So fusing saves traffic for large arrays and launches for
// small ones, and costs something only where work is repeated.

// Two cores with vectors of 64 bytes.
constexpr double kAdditionsPerSecond = 32e9;
constexpr double kBytesPerSecond = 32e9;  // from and to memory
constexpr double kLaunchSeconds = 0.4e-6;
// What the kernel before has just written is still there when the next one reads it.
constexpr double kCachedBytes = 512 << 10;
constexpr double kCacheSpeedup = 4;
// Cache lines that are used in part.
constexpr double kStridedFactor = 2;
// A gather whose neighbours come from different places reads them one by one.
constexpr double kScatteredReadWork = 8;

double bytes_per_second(const ir::Shape& shape) {
  const bool cached = static_cast<double>(shape.byte_size()) <= kCachedBytes;
  return kBytesPerSecond * (cached ? kCacheSpeedup : 1);
}

// Neighbours in the result are neighbours in the gathered array.
bool gathers_rows(const ir::Instruction& gather) {
  const auto& offsets = gather.attributes().gather->offset_dims;
  return std::find(offsets.begin(), offsets.end(), gather.shape().rank() - 1) != offsets.end();
}

}  // namespace

void KernelPrice::compute(const ir::Instruction& member, double evaluations) {
  double each = ir::op_info(member.opcode()).work;
  if (member.opcode() == Opcode::gather && !gathers_rows(member)) each = kScatteredReadWork;
  if (member.opcode() == Opcode::reduce) {
    each = static_cast<double>(member.to_apply()->instruction_count());
  }
  work_ += evaluations * each / kAdditionsPerSecond;
}

void KernelPrice::read(const ir::Shape& shape, double elements, bool strided) {
  const double size =
      static_cast<double>(dtype_bytes(shape.dtype())) * (strided ? kStridedFactor : 1);
  const double first = std::min(elements, static_cast<double>(shape.element_count()));
  traffic_ += first * size / bytes_per_second(shape);
  // What is read again is in the cache.
  traffic_ += (elements - first) * size / (kCacheSpeedup * kBytesPerSecond);
}

void KernelPrice::write(const ir::Shape& shape) {
  traffic_ += static_cast<double>(shape.byte_size()) / bytes_per_second(shape);
}

double KernelPrice::seconds() const { return std::max(work_, traffic_) + kLaunchSeconds; }

}  // namespace plimsoll::passes
