// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/plan_summary.h"

#include <gtest/gtest.h>

namespace plimsoll::planner {
namespace {

Buffer arena(std::int64_t bytes, int first, int last) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.first_step = StepId(first);
  buffer.last_step = StepId(last);
  return buffer;
}

Step step(StepKind kind, int output, int workspace = -1) {
  Step made;
  made.kind = kind;
  made.outputs = {BufferId(output)};
  made.workspace = BufferId(workspace);
  return made;
}

void expect_bytes(const ArenaBytes& found, std::int64_t activations, std::int64_t workspaces,
                  std::int64_t encoded, std::int64_t staging) {
  EXPECT_EQ(found.activations, activations);
  EXPECT_EQ(found.workspaces, workspaces);
  EXPECT_EQ(found.encoded, encoded);
  EXPECT_EQ(found.staging, staging);
}

// upload -> 0; compute 1 (workspace 2); encode -> 3; compute 4 (workspace 5).
Plan four_steps() {
  Plan plan;
  plan.buffers = {arena(64, 0, 3),  arena(640, 1, 2), arena(128, 1, 1),
                  arena(192, 2, 3), arena(512, 3, 3), arena(256, 3, 3)};
  plan.steps = {step(StepKind::upload, 0), step(StepKind::compute, 1, 2), step(StepKind::encode, 3),
                step(StepKind::compute, 4, 5)};
  plan.arena_bytes = 1088;  // 1024 at the peak, and a hole
  return plan;
}

TEST(ArenaParts, CountsWhatIsThereAtThePeak) {
  expect_bytes(arena_at_peak(four_steps()), 512 + 64, 256, 192, 64);
}

TEST(ArenaParts, BuffersElsewhereDoNotCount) {
  Plan plan = four_steps();
  plan.buffers[BufferId(3)].placement = Placement::host;
  plan.buffers.front().placement = Placement::output;
  plan.arena_bytes = 768;
  expect_bytes(arena_at_peak(plan), 640, 128, 0, 0);
}

TEST(ArenaParts, AWorkspaceOfACallIsWhatItsLargestCalleeHolds) {
  Plan plan;
  plan.buffers = {arena(1152, 0, 0), arena(64, 0, 0), arena(128, 0, 0)};
  plan.steps = {step(StepKind::compute, 1, 0)};
  auto small = std::make_shared<Plan>();
  small->arena_bytes = 64;
  plan.steps.front().callees = {small, std::make_shared<Plan>(four_steps())};
  SlicedState state;
  state.window = BufferId(2);
  plan.steps.front().sliced = {state};
  plan.arena_bytes = 1344;
  expect_bytes(arena_at_peak(plan), 1344 - 256 - 192 - 64 - 128, 256, 192, 64 + 128);
}

TEST(ArenaParts, AnEmptyPlanHoldsNothing) { expect_bytes(arena_at_peak(Plan()), 0, 0, 0, 0); }

}  // namespace
}  // namespace plimsoll::planner
