// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/module.h"
#include "runtime/planner/plan.h"
#include "runtime/planner/techniques.h"

namespace plimsoll::planner {

// What the planner asks of the world about one instruction. Implementations are thread-safe and
// pure.
class CostModel {
 public:
  virtual ~CostModel() = default;
  // Time of one execution; for control flow, the callees' part excluded.
  virtual double seconds(const ir::Instruction& instruction) const = 0;
  // The same where `missed_bytes` of what it touches are in no cache.
  virtual double seconds_with(const ir::Instruction& instruction, double missed_bytes) const {
    (void)missed_bytes;
    return seconds(instruction);
  }
  virtual std::int64_t workspace_bytes(const ir::Instruction& instruction) const = 0;
  // Time to encode (or decode) a value of this shape.
  virtual double codec_seconds(const Codec& codec, const ir::Shape& shape, bool encode) const = 0;
  // Whether it can run with operand leaf `input` as `codec` has stored it, for which it takes no
  // longer, and no more workspace, than with the value.
  virtual bool reads_encoded(const ir::Instruction& instruction, const EncodedInput& input) const {
    (void)instruction, (void)input;
    return false;
  }
  // Whether it can encode that result beside making it, in the same time, or instead of it.
  virtual bool writes_encoded(const ir::Instruction& instruction,
                              const EncodedOutput& output) const {
    (void)instruction, (void)output;
    return false;
  }
  // Changes whenever an answer above may have changed: plans are cached by it.
  virtual std::uint64_t version() const { return 0; }
};

// A place for bytes beside the device's memory, at the end of a link of its own. Each direction is
// a serial resource: one transfer at a time, in the order in which they are started.
struct Tier {
  std::int64_t bytes = 0;  // 0: there is none
  double out_bytes_per_second = 10e9, in_bytes_per_second = 10e9;
  double latency_seconds = 10e-6;  // per transfer
  // Seconds that compute steps lose to a second of transfer: 0 for engines of their own, more where
  // a copy takes a processor from them.
  double compute_share = 0;
  // Of copies that the kernels' own threads make between two kernels, which nobody waits for; 0:
  // there are none such. A transfer is one where that takes less of the kernels' time
  // (problem/timeline.h).
  double synchronous_out_bytes_per_second = 0, synchronous_in_bytes_per_second = 0;
  bool operator==(const Tier&) const = default;
};

// A way of bytes to a tier or back: its link, each direction of which is an engine of its own, or
// the kernels' own threads. In pairs, in the order of the tiers.
enum class Link : std::uint8_t {
#define PLIMSOLL_TIER(tier, ...) tier##_out, tier##_in,
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
#define PLIMSOLL_TIER(tier, ...) tier##_synchronous_out, tier##_synchronous_in,
#include "runtime/base/memory_spaces.def"
#undef PLIMSOLL_TIER
};
inline constexpr int kEngines = 2 * static_cast<int>(kTiers.size());
inline constexpr int kLinks = 2 * kEngines;
constexpr Link link_of(MemorySpace tier, bool out, bool synchronous = false) {
  return static_cast<Link>((synchronous ? kEngines : 0) + 2 * tier_index(tier) + (out ? 0 : 1));
}
static_assert(link_of(MemorySpace::disk, false) == Link::disk_in);
static_assert(link_of(MemorySpace::disk, false, true) == Link::disk_synchronous_in);
// That way's speed in bytes per second: tier.*rate_of(out, synchronous).
constexpr double Tier::* rate_of(bool out, bool synchronous) {
  if (synchronous) {
    return out ? &Tier::synchronous_out_bytes_per_second : &Tier::synchronous_in_bytes_per_second;
  }
  return out ? &Tier::out_bytes_per_second : &Tier::in_bytes_per_second;
}

// What may be done with a value between two uses besides keeping it.
struct Remedies {
  bool recompute = true, compress = true, swap = true;
  bool lossy = false;  // compress also by a codec that changes bits, within error_bound of it:
  CodecKind lossy_codec = CodecKind::bfloat16;
  bool operator==(const Remedies&) const = default;
};

// `keep` binds; the others are taken wherever the value must give way, before anything that has no
// hint.
using ir::Hint;

// How it is chosen what is recomputed: our own search, a row of policies.def, or nothing is.
enum class Policy : std::uint8_t {
  default_,
#define PLIMSOLL_POLICY(enumerator, ...) enumerator,
#include "runtime/planner/policies.def"
#undef PLIMSOLL_POLICY
  none,
};
std::string_view to_string(Policy policy);
// INVALID_ARGUMENT, with `what` and the words that there are, for any other word.
Result<Policy> parse_policy(std::string_view text, std::string_view what);

enum class ParameterResidency : std::uint8_t {
  resident,  // the caller's buffer, counted for the whole run, read only
  donated,   // the caller's buffer, counted for the whole run; the plan may overwrite it after its
             // last use and may return an output in it
  host,  // host memory; an `upload` step brings it into the arena, where it lives until its last
         // use
};

// How much is looked for.
enum class Effort : std::uint8_t {
  // The fastest plan that the search finds.
  full,
  // The first plan that fits, in the time of a few eviction simulations: it keeps or recomputes. A
  // limit that leaves no such plan is refused, which says nothing about the limit.
  first,
  // `first`, and then `full` while the first runs go on, by whoever keeps executables for many runs
  // (serve/current_executable.h); `full` at once where codecs that change bits are allowed. It is
  // plan_within that chooses: to the planner itself it is the same as `full`.
  background,
};
std::string_view to_string(Effort effort);
// INVALID_ARGUMENT, with `what` and the words that there are, for any other word.
Result<Effort> parse_effort(std::string_view text, std::string_view what);

// What may be done to keep a limit: what a user chooses, whatever the program.
struct PlanPolicy {
  Policy policy = Policy::default_;
  Remedies remedies;
  std::int64_t min_bytes = 0;  // smaller values are always kept
  // Time to look for better plans in; a first one is always found. 0: a fixed amount of work, so
  // that the plan is the same on every machine.
  double planning_seconds = 0;
  TechniqueSet without;
  Effort effort = Effort::full;
  bool operator==(const PlanPolicy&) const = default;
};

// What the plan will run on, besides the kernels, of which the cost model tells: machine.host,
// machine[tier].
struct Machine : PerTier<Tier> {
  bool operator==(const Machine&) const = default;
};

// What is asked about one program.
struct Question {
  std::int64_t limit_bytes = kUnlimited;
  // Per leaf of the parameters, in order; empty: from the module's aliases and donors, else
  // resident.
  std::vector<ParameterResidency> parameters;
  // Per leaf of the result, in order: whether it is returned in host memory, which counts nowhere;
  // a `download` step copies it there once it is made. Empty: none.
  std::vector<bool> results_on_host = {};
  bool operator==(const Question&) const = default;
};

// All that a plan depends on besides the module and the cost model: the three together, which are
// written down one after the other. Who needs one of them takes just that.
struct PlanOptions : PlanPolicy, Machine, Question {
  bool operator==(const PlanOptions&) const = default;
};

// How a limit is refused that no plan fits: with the floor and what pins it, which take time to
// find, or without.
enum class Refusal : std::uint8_t { explained, brief };

// Plans the entry computation. RESOURCE_EXHAUSTED with Status::shortage() when no plan fits the
// limit, without it when there is no first plan (Effort::first). Deterministic. The schedule in
// `module` is a starting point; the plan may order steps differently unless module.is_scheduled.
Result<Plan> make_plan(const ir::Module& module, const CostModel& cost_model,
                       const PlanOptions& options);

// The smallest limit that make_plan (same options but the limit) accepts, and what pins it:
// whatever the cost model's times and the links' speeds, of which it is independent.
struct Floor {
  std::int64_t bytes = 0;
  std::int64_t lower_bound_bytes = 0;  // no plan with these first executions fits less (bound.h)
  std::int64_t callers_bytes = 0;      // of it parameters and outputs, whatever the plan
  std::string
      culprit;  // instruction at whose step the floor is reached, with the live set's largest
};
Result<Floor> find_floor(const ir::Module& module, const CostModel& cost_model,
                         const PlanOptions& options);

}  // namespace plimsoll::planner
