// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/ir/module.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// Floating-point (or integer) operations and bytes moved by one execution, from shapes alone. A
// fusion counts its computation's operations and the bytes of its operands and results.
struct Work {
  double flops = 0;
  double bytes = 0;
};
Work count_work(const ir::Instruction& instruction);

// Roofline: max(flops / flops_per_second, bytes / bytes_per_second) + launch_seconds, with a
// separate rate for contractions. Workspaces are taken as zero.
struct Roofline {
  double contraction_flops_per_second = 60e9;
  double other_flops_per_second = 8e9;
  double bytes_per_second = 12e9;
  double launch_seconds = 2e-6;
};

class RooflineCostModel : public CostModel {
 public:
  explicit RooflineCostModel(const Roofline& roofline = {}) : roofline_(roofline) {}
  double seconds(const ir::Instruction& instruction) const override;
  std::int64_t workspace_bytes(const ir::Instruction&) const override { return 0; }
  double codec_seconds(const Codec& codec, const ir::Shape& shape, bool encode) const override;

 private:
  Roofline roofline_;
};

}  // namespace plimsoll::planner
