// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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

// What decides how fast an instruction's operations run.
enum class CostClass : std::uint8_t {
  contraction,  // dot
  convolution,
  elementwise,  // and everything else that streams: movement, creation, fusions of those
  reduction,    // reduce, windows, fusions with one inside
  irregular,    // gather, scatter, sort
  random,
  collective,
};
inline constexpr int kCostClasses = 7;
CostClass cost_class(const ir::Instruction& instruction);

// What the caches keep between steps, and what a byte costs beyond its share of a kernel's time
// when it is not there. Nothing is kept where `bytes` is 0.
struct CacheSpeeds {
  double bytes = 0;
  double streaming_seconds = 0;  // per missed byte, for kernels that read in one go
  double computing_seconds = 0;  // for contractions and convolutions, whose reads are less regular
  double missed_byte_seconds(CostClass kind) const {
    const bool computes = kind == CostClass::contraction || kind == CostClass::convolution;
    return computes ? computing_seconds : streaming_seconds;
  }
  bool operator==(const CacheSpeeds&) const = default;
};

// How participants reach each other: what a message takes besides its bytes, and how fast those go.
struct CollectiveSpeeds {
  double message_seconds = 10e-6;
  double bytes_per_second = 4e9;
  bool operator==(const CollectiveSpeeds&) const = default;
};

// The speeds of a machine. The numbers here are a table for a small CPU, so that plans are the same
// wherever nothing was measured.
struct Roofline {
  double contraction_flops_per_second = 60e9;
  double convolution_flops_per_second = 60e9;
  double other_flops_per_second = 8e9;
  double random_flops_per_second = 8e9;
  double bytes_per_second = 12e9;  // from and to memory
  double launch_seconds = 2e-6;
  struct CodecRate {
    double encode = 8e9, decode = 8e9;  // elements per second
    bool operator==(const CodecRate&) const = default;
  };
  std::array<CodecRate, ir::kCodecKinds> codecs;  // by CodecKind
  // Between device memory and the host tier.
  double link_out_bytes_per_second = 10e9, link_in_bytes_per_second = 10e9;
  double link_latency_seconds = 10e-6;
  // Seconds that compute steps lose to a second of transfer (Tier::compute_share).
  double link_compute_share = 0;
  // Of copies by the kernels' own threads (Tier::synchronous_out_bytes_per_second); 0: none.
  double link_synchronous_out_bytes_per_second = 0, link_synchronous_in_bytes_per_second = 0;
  CacheSpeeds cache;
  // Of participants that are threads of one process, unless a communicator says better.
  CollectiveSpeeds collectives;
  bool operator==(const Roofline&) const = default;
};

// max(flops / flops_per_second, bytes / bytes_per_second) + launch_seconds (Williams, Waterman and
// Patterson, 2009); of a collective that, and what its messages take (collective_costs.h).
// Workspaces are taken as zero.
class RooflineCostModel : public CostModel {
 public:
  explicit RooflineCostModel(const Roofline& roofline = {}) : roofline_(roofline) {}
  double seconds(const ir::Instruction& instruction) const override;
  std::int64_t workspace_bytes(const ir::Instruction&) const override { return 0; }
  double codec_seconds(const Codec& codec, const ir::Shape& shape, bool encode) const override;
  const Roofline& roofline() const { return roofline_; }

 private:
  Roofline roofline_;
};

}  // namespace plimsoll::planner
