// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/base/status.h"
#include "runtime/planner/plan.h"

// The proof of one plan, for check_plan; only check*.cc include this.
namespace plimsoll::planner {

// Runs a plan on names instead of numbers. Shares nothing with the code that makes plans but the
// definition of views, of in-place reuse and of residuals.
class PlanChecker {
 public:
  enum class Kind : std::uint8_t { entry, callee, branch, loop_body };
  // What was proved or is being proved.
  using Visited = std::set<std::pair<const Plan*, Kind>>;
  PlanChecker(const Plan& plan, Kind kind, Visited& visited)
      : plan_(plan), kind_(kind), loop_body_(kind == Kind::loop_body), visited_(visited) {}
  Status run();

 private:
  using Instruction = ir::Instruction;
  // Leaf `second` of instruction `first`; null: none.
  using Leaf = std::pair<const Instruction*, int>;
  // What a buffer holds: a value, or its encoded form, or (decoded from a compare_mask, `codec`
  // tells) something that compares with the codec's constant as the value does.
  struct Content {
    Leaf value{nullptr, 0};
    Codec codec;
    bool encoded = false;
    bool sliced = false;  // a residual as a loop's windows have it on another tier
    bool is_value() const { return !encoded && codec.kind == CodecKind::none; }
  };

  const std::vector<Leaf>& leaves_of(const Instruction& instruction) {
    return leaves_.at(&instruction);
  }
  bool is_alive(BufferId id) const {
    const Buffer& b = plan_.buffers[id];
    // Before its first step a result's bytes may be lent.
    if (b.placement == Placement::output) return b.first_step <= step_;
    return !is_temporary(b) || (b.first_step <= step_ && step_ <= b.last_step);
  }
  // Its bytes are another's before and after its life.
  static bool is_temporary(const Buffer& b) {
    return b.placement == Placement::arena || b.placement == Placement::lent || is_tier(b);
  }
  static bool is_tier(const Buffer& b) { return planner::is_tier(b.placement); }
  const Buffer& buffer(BufferId id) const { return plan_.buffers[id]; }
  Content& content(BufferId id) { return contents_[id]; }
  bool is_buffer(BufferId id) const { return id >= 0 && id < plan_.buffers.end_id(); }
  static const SlicedState* sliced_state(const Step& step, std::size_t leaf) {
    for (const SlicedState& state : step.sliced) {
      if (state.leaf == static_cast<int>(leaf)) return &state;
    }
    return nullptr;
  }

  Status fail(const std::string& what) const;
  Status execute();
  // `id` stands in the list (of the step) only where a residual is sliced.
  static bool is_sliced(const Step& step, const std::vector<BufferId>& list, BufferId id);
  Status execute(const Step& step, std::unordered_set<const Instruction*>& done);
  Status check_results();
  Status check_peak(std::int64_t outputs);

  // check_buffers.cc
  void resolve_views();
  Status check_buffers();
  Status check_addresses();

  // check_moves.cc: steps that move or code bytes
  // One input that holds leaf `step.leaf` of `step.instruction` in some form, and one output.
  Status check_moved(const Step& step);
  Status code(const Step& step);
  Status start_transfer(const Step& step);
  Status end_transfer(const Step& step);
  // Pinned memory is scarce: what a transfer or a collective touches, and nothing else.
  Status check_pinned();
  Status move(const Step& step);
  Status write(BufferId id, const Content& what);

  // check_compute.cc: steps that run an instruction
  Status compute(const Step& step, std::unordered_set<const Instruction*>& done);
  static const EncodedInput* encoded_input(const Step& step, std::size_t input);
  Status check_encoded(const Step& step, const EncodedInput& input, const Content& held) const;
  static bool branch_leaves(const Step& step, std::size_t k, int o);
  static bool encodes(const Step& step, int leaf);
  Status write_codes(const Step& step, std::span<const ir::Shape* const> shapes);
  // The operands of the start lived, untouched, until its done.
  Status end_async(const Instruction& done);
  Status write_outputs(const Step& step);
  // Each residual is one, lies on a tier, and has a window of its own.
  Status check_sliced_states(const Step& step);
  // Of the block of a step's callees; -1 when it is none.
  std::int64_t tier_bytes(BufferId id, Placement tier) const;
  Status check_callees(const Step& step);

  const Plan& plan_;
  const Kind kind_;
  const bool loop_body_;
  Visited& visited_;
  StepId step_;
  std::unordered_map<const Instruction*, std::vector<Leaf>> leaves_;
  std::vector<Leaf> parameter_contents_;
  IdVector<BufferId, Content> contents_;
  std::unordered_map<const Instruction*, std::vector<BufferId>> started_;  // until the done
  std::unordered_multiset<BufferId> held_;                                 // what they use
  IdVector<BufferId, StepId> in_transfer_;        // the step of the transfer under way, or -1
  std::unordered_map<StepId, Content> arriving_;  // by the transfer's step
  int open_transfers_ = 0;
  // 1 when a transfer touches it, 2 when only a collective does.
  IdVector<BufferId, char> needs_pin_;
  std::int64_t live_arena_ = 0;
};

}  // namespace plimsoll::planner
