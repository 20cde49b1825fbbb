// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/launch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/ir/text/text.h"
#include "tests/executor/launch_check.h"

namespace plimsoll::executor {
namespace {

using planner::BufferId;
using planner::Placement;
using planner::StepId;
using planner::StepKind;
using Launches = std::vector<std::vector<int>>;

// A plan by hand. Steps have no instruction; what they touch is all that counts.
class PlanOf {
 public:
  BufferId arena(std::int64_t offset, std::int64_t bytes) {
    return add(Placement::arena, offset, 0, bytes);
  }
  BufferId parameter(int index) { return add(Placement::parameter, 0, index, 64); }
  BufferId output(int index) { return add(Placement::output, 0, index, 64); }
  BufferId host(std::int64_t offset) { return add(Placement::host, offset, 0, 64); }

  // A step that may join others.
  void small(std::vector<BufferId> inputs, std::vector<BufferId> outputs, BufferId workspace = {}) {
    step(StepKind::compute, std::move(inputs), std::move(outputs), workspace, true);
  }
  void alone(std::vector<BufferId> inputs, std::vector<BufferId> outputs, BufferId workspace = {}) {
    step(StepKind::compute, std::move(inputs), std::move(outputs), workspace, false);
  }
  StepId other(StepKind kind, std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    return step(kind, std::move(inputs), std::move(outputs), {}, false);
  }
  void wait(StepId transfer) {
    other(StepKind::swap_wait, {}, {});
    plan_.steps.back().transfer = transfer;
  }
  planner::Step& last() { return plan_.steps.back(); }

  Launches launches() const {
    const LaunchOrder order = order_launches(plan_, may_join_, std::int64_t{1} << 20);
    EXPECT_EQ(testing::check_launch_order(plan_, may_join_, order), "");
    Launches made;
    std::int32_t begin = 0;
    for (const std::int32_t end : order.ends) {
      made.emplace_back();
      for (std::int32_t i = begin; i < end; ++i) made.back().push_back(order.steps[at(i)].value());
      begin = end;
    }
    return made;
  }

 private:
  BufferId add(Placement placement, std::int64_t offset, int index, std::int64_t bytes) {
    planner::Buffer buffer;
    buffer.placement = placement;
    buffer.offset = offset;
    buffer.index = index;
    buffer.bytes = bytes;
    return plan_.buffers.push_back(buffer);
  }
  StepId step(StepKind kind, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
              BufferId workspace, bool joins) {
    planner::Step made;
    made.kind = kind;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    made.workspace = workspace;
    may_join_.push_back(joins ? 1 : 0);
    return plan_.steps.push_back(std::move(made));
  }

  planner::Plan plan_;
  IdVector<StepId, char> may_join_;
};

TEST(LaunchOrder, PutsIndependentStepsTogether) {
  PlanOf plan;
  const BufferId x = plan.parameter(0);
  for (int i = 0; i < 5; ++i) plan.small({x}, {plan.arena(64 * i, 64)});
  plan.other(StepKind::free, {x}, {});
  plan.small({x}, {plan.output(0)});
  EXPECT_EQ(plan.launches(), (Launches{{0, 1, 2, 3, 4, 6}}));
}

TEST(LaunchOrder, UpdatesInPlaceAreIndependentOfEachOther) {
  PlanOf plan;
  const BufferId step = plan.parameter(9);
  for (int i = 0; i < 3; ++i) {
    const BufferId p = plan.parameter(i);
    plan.small({p, step}, {p});
  }
  EXPECT_EQ(plan.launches(), (Launches{{0, 1, 2}}));
}

TEST(LaunchOrder, StepsOfChainsRunSideBySide) {
  PlanOf plan;
  for (int chain = 0; chain < 3; ++chain) {
    BufferId value = plan.parameter(chain);
    for (int i = 0; i < 3; ++i) {
      const BufferId next = plan.arena(64 * (3 * chain + i), 64);
      plan.small({value}, {next});
      value = next;
    }
  }
  EXPECT_EQ(plan.launches(), (Launches{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}));
}

// Moves back where that helps, and forward where that does.
TEST(LaunchOrder, StepsWaitForOthersOrGoAhead) {
  PlanOf waits;
  const BufferId g0 = waits.arena(0, 64), g1 = waits.arena(64, 64);
  const BufferId p0 = waits.parameter(0), p1 = waits.parameter(1);
  waits.alone({}, {g0});
  waits.small({p0, g0}, {p0});
  waits.alone({}, {g1});
  waits.small({p1, g1}, {p1});
  EXPECT_EQ(waits.launches(), (Launches{{0}, {2}, {1, 3}}));

  PlanOf ahead;
  const BufferId a = ahead.arena(0, 64), b = ahead.arena(64, 64);
  ahead.small({}, {a});
  ahead.alone({a}, {ahead.output(0)});
  ahead.small({}, {b});
  ahead.alone({b}, {ahead.output(1)});
  EXPECT_EQ(ahead.launches(), (Launches{{0, 2}, {1}, {3}}));
}

// In each case the last step could join the first but for one conflict; without it (the byte behind
// the range) it does.
TEST(LaunchOrder, KeepsConflictingStepsInOrder) {
  for (const bool conflict : {true, false}) {
    SCOPED_TRACE(conflict);
    const std::int64_t shift = conflict ? 0 : 64;
    const Launches apart{{0}, {1}}, together{{0, 1}};
    {
      PlanOf plan;  // read after write, of a part of it
      plan.small({}, {plan.arena(0, 256)});
      plan.small({plan.arena(192 + shift, 64)}, {plan.output(0)});
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
    {
      PlanOf plan;  // write after read: the bytes of a dead value are given to another
      plan.small({plan.arena(64, 64)}, {plan.output(0)});
      plan.small({}, {plan.arena(conflict ? 0 : 128, 128)});
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
    {
      PlanOf plan;  // write after write
      plan.small({}, {plan.arena(0, 64)});
      plan.small({}, {plan.arena(shift, 64)});
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
    {
      PlanOf plan;  // workspaces
      plan.small({}, {plan.output(0)}, plan.arena(0, 128));
      plan.small({}, {plan.output(1)}, plan.arena(64 + shift, 64));
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
    {
      PlanOf plan;  // a donated parameter that others still read
      plan.small({plan.parameter(0)}, {plan.output(0)});
      const BufferId p = plan.parameter(conflict ? 0 : 1);
      plan.small({p}, {p});
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
    {
      PlanOf plan;  // an output that is read again
      plan.small({}, {plan.output(0)});
      plan.small({plan.output(conflict ? 0 : 1)}, {plan.arena(0, 64)});
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
  }
}

TEST(LaunchOrder, DoesNotCrossAStepThatItConflictsWith) {
  for (const bool conflict : {true, false}) {
    SCOPED_TRACE(conflict);
    const Launches apart{{0}, {1}, {2}}, together{{0, 2}, {1}}, later{{1}, {0, 2}};
    {
      PlanOf plan;  // neither before what makes its operand, nor the other one after it
      const BufferId x = plan.arena(0, 64), y = plan.arena(conflict ? 64 : 128, 64);
      plan.small({}, {x});
      plan.alone({x}, {plan.arena(64, 64)});
      plan.small({y}, {plan.output(0)});
      EXPECT_EQ(plan.launches(), conflict ? apart : together);
    }
    {
      PlanOf plan;  // a loop that works in bytes which the first reads and the last writes
      const BufferId x = plan.arena(0, 64);
      plan.small({x}, {plan.output(0)});
      plan.alone({}, {plan.output(1)}, conflict ? plan.arena(0, 256) : plan.arena(64, 256));
      plan.small({}, {conflict ? x : plan.arena(512, 64)});
      EXPECT_EQ(plan.launches(), conflict ? apart : later);
    }
    {
      PlanOf plan;  // a loop's window
      const BufferId x = plan.arena(0, 64);
      plan.small({x}, {plan.output(0)});
      plan.alone({}, {plan.output(1)});
      planner::SlicedState state;
      state.window = conflict ? x : plan.arena(64, 64);
      plan.last().sliced.push_back(state);
      plan.small({}, {conflict ? x : plan.arena(512, 64)});
      EXPECT_EQ(plan.launches(), conflict ? apart : later);
    }
  }
}

TEST(LaunchOrder, KeepsOutOfBytesThatATransferReads) {
  for (const bool conflict : {true, false}) {
    SCOPED_TRACE(conflict);
    PlanOf plan;
    const BufferId x = plan.arena(0, 64), kept = plan.parameter(0);
    plan.small({kept}, {plan.output(0)});
    const StepId out = plan.other(StepKind::swap_out, {x}, {plan.host(0)});
    // Reads what the transfer reads: it may go anywhere.
    plan.small({x}, {plan.output(1)});
    plan.wait(out);
    plan.small({}, {conflict ? x : plan.arena(64, 64)});
    const Launches launches = plan.launches();
    // Writing has to wait for the end of the transfer, and reading comes before that.
    if (conflict) {
      EXPECT_EQ(launches, (Launches{{1}, {2}, {3}, {0, 4}}));
    } else {
      EXPECT_EQ(launches.size(), 3u);
    }
  }
}

TEST(LaunchOrder, KeepsOutOfBytesThatATransferWrites) {
  PlanOf plan;
  const BufferId x = plan.arena(0, 64);
  plan.small({x}, {plan.output(0)});  // the value that lay there before
  const StepId in = plan.other(StepKind::swap_in, {plan.host(0)}, {x});
  plan.small({}, {plan.output(1)});
  plan.wait(in);
  plan.small({x}, {plan.output(2)});
  const Launches launches = plan.launches();
  // The first may not come after the start, nor the last before the wait; the one between may join
  // either.
  EXPECT_EQ(launches, (Launches{{0}, {1}, {3}, {2, 4}}));
}

// What lies between would have thrown its operands and results out of the cache.
TEST(LaunchOrder, MovesPastACacheAtMost) {
  for (const std::int64_t between : {std::int64_t{64} << 10, std::int64_t{4} << 20}) {
    PlanOf plan;
    plan.small({}, {plan.arena(0, 64)});
    plan.alone({}, {plan.arena(1 << 10, between)});
    plan.small({}, {plan.arena(64, 64)});
    EXPECT_EQ(plan.launches().size(), between < (1 << 20) ? 2u : 3u);
  }
  // Parts of one launch do not stand between each other.
  PlanOf plan;
  for (int i = 0; i < 20; ++i) plan.small({}, {plan.arena(i << 20, 1 << 20)});
  EXPECT_EQ(plan.launches().size(), 1u);
}

TEST(LaunchOrder, NothingCrossesACollective) {
  PlanOf plan;
  plan.small({}, {plan.output(0)});
  plan.other(StepKind::collective_start, {plan.parameter(0)}, {plan.output(1)});
  plan.small({}, {plan.output(2)});
  plan.other(StepKind::collective_done, {}, {});
  plan.small({}, {plan.output(3)});
  plan.small({}, {plan.output(4)});
  EXPECT_EQ(plan.launches(), (Launches{{0}, {1}, {2}, {3}, {4, 5}}));
}

TEST(LaunchOrder, EmptyBuffersConflictWithNothing) {
  PlanOf plan;
  const BufferId none = plan.arena(64, 0);
  plan.small({}, {none});
  plan.small({none}, {plan.arena(0, 128)});
  plan.small({plan.arena(64, 64)}, {none});
  EXPECT_EQ(plan.launches(), (Launches{{1}, {0, 2}}));
}

// Ranges that overlap at random, transfers that are open for a while, collectives now and then.
TEST(LaunchOrder, KeepsEveryConflictOfRandomPlans) {
  std::mt19937_64 random(1);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  std::size_t steps = 0, launches = 0;
  for (int round = 0; round < 300; ++round) {
    PlanOf plan;
    const int blocks = 4 + below(60);
    const auto any = [&]() -> BufferId {
      switch (below(6)) {
        case 0:
          return plan.parameter(below(4));
        case 1:
          return plan.output(below(4));
        default:
          return plan.arena(64 * below(blocks), 64 * (1 + below(3)));
      }
    };
    std::vector<StepId> open;
    const int count = 10 + below(60);
    for (int i = 0; i < count; ++i) {
      const int kind = below(20);
      if (kind == 0) {
        const bool out = below(2) == 0;
        const BufferId near = plan.arena(64 * below(blocks), 64), far = plan.host(64 * i);
        open.push_back(plan.other(out ? StepKind::swap_out : StepKind::swap_in, {out ? near : far},
                                  {out ? far : near}));
      } else if (kind == 1 && !open.empty()) {
        const auto which = at(below(static_cast<int>(open.size())));
        plan.wait(open[which]);
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (kind == 2 && round % 5 == 0) {
        plan.other(StepKind::collective_start, {any()}, {any()});
      } else if (kind < 5) {
        plan.alone({any(), any()}, {any()}, below(2) == 0 ? any() : BufferId());
      } else {
        plan.small({any()}, {any()}, below(4) == 0 ? any() : BufferId());
      }
    }
    for (const StepId start : open) plan.wait(start);
    launches += plan.launches().size();
    steps += at(count);
  }
  EXPECT_LT(launches, steps * 3 / 4);
}

}  // namespace
}  // namespace plimsoll::executor
