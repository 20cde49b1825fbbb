// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/fusion_price.h"

#include <algorithm>

namespace plimsoll::passes {
namespace {

using ir::Opcode;

// A roofline: a kernel takes as long as its arithmetic or its traffic, whichever is longer, and a
// launch (S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance
// model for multicore architectures", 2009), by the table of the device (KernelSpeeds).
//
// Example: y = a + b, z = y * c over f32[1024,1024]. An array is 4 MiB, 131 us; 2^20 operations of
// work 1 are 33 us, hidden behind the traffic. Apart: (2 + 1) * 131 and the same again, with two
// launches 787 us. Fused: 3 reads and a write, 525 us. Over f32[128,128] (64 KiB, in the cache, 0.5
// us): 3.9 us apart and 2.4 us fused. So fusing saves traffic for large arrays and launches for
// small ones, and costs something only where work is repeated.

// Neighbours in the result are neighbours in the gathered array.
bool gathers_rows(const ir::Instruction& gather) {
  const auto& offsets = gather.attributes().gather->offset_dims;
  return std::find(offsets.begin(), offsets.end(), gather.shape().rank() - 1) != offsets.end();
}

double bytes_per_second(const ir::Shape& shape, const KernelSpeeds& speeds) {
  const bool cached = static_cast<double>(shape.byte_size()) <= speeds.cached_bytes;
  return speeds.bytes_per_second * (cached ? speeds.cache_speedup : 1);
}

}  // namespace

void KernelPrice::compute(const ir::Instruction& member, double evaluations) {
  double each = ir::op_info(member.opcode()).work;
  if (member.opcode() == Opcode::gather && !gathers_rows(member))
    each = speeds_.scattered_read_work;
  if (member.opcode() == Opcode::reduce) {
    each = static_cast<double>(member.to_apply()->instruction_count());
  }
  work_ += evaluations * each / speeds_.additions_per_second;
}

void KernelPrice::read(const ir::Shape& shape, double elements, bool strided) {
  const double size =
      static_cast<double>(dtype_bytes(shape.dtype())) * (strided ? speeds_.strided_factor : 1);
  const double first = std::min(elements, static_cast<double>(shape.element_count()));
  traffic_ += first * size / bytes_per_second(shape, speeds_);
  // What is read again is in the cache.
  traffic_ += (elements - first) * size / (speeds_.cache_speedup * speeds_.bytes_per_second);
}

void KernelPrice::write(const ir::Shape& shape) {
  traffic_ += static_cast<double>(shape.byte_size()) / bytes_per_second(shape, speeds_);
}

double far_traffic_seconds(const ir::Shape& shape, const KernelSpeeds& speeds) {
  return static_cast<double>(shape.byte_size()) *
         (1 / speeds.bytes_per_second - 1 / bytes_per_second(shape, speeds));
}

double KernelPrice::seconds() const { return std::max(work_, traffic_) + speeds_.launch_seconds; }

}  // namespace plimsoll::passes
