// SPDX-License-Identifier: Apache-2.0
// What check_plan says about plans whose encoded or swapped values are wrong in one place.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "tests/cases/programs.h"
#include "tests/executor/plan_rewriter.h"

namespace plimsoll {
namespace {

using ir::CodecKind;
using planner::Buffer;
using planner::BufferId;
using planner::Placement;
using planner::Plan;
using planner::Step;
using planner::StepId;
using planner::StepKind;

// The input of a positive part that is only compared later; a loop with values that can go.
const std::string kProgram = std::string(cases::kLoopOfThree) + R"(
ENTRY main {
  x = f32[512] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[512] broadcast(zero), dimensions={}
  i = s32[] constant(0)
  h = f32[512] tanh(x)
  k = f32[512] negate(h)
  start = (s32[], f32[512]) tuple(i, k)
  loop = (s32[], f32[512]) while(start), condition=condition, body=body
  y = f32[512] get-tuple-element(loop), index=1
  z = f32[512] sine(y)
  positive = pred[512] compare(h, zeros), direction=GT
  ROOT gated = f32[512] select(positive, z, zeros) })";

class CheckPlan : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ir::parse_module(kProgram);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    module_ = std::move(module).value();
    planner::PlanOptions options;
    options.remedies = {false, false, false, false};
    auto plan = planner::make_plan(*module_, planner::RooflineCostModel(), options);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    original_ = std::move(plan).value();
  }

  Plan swapped() const { return rewritten(false, true); }
  Plan encoded() const { return rewritten(true, false); }
  Plan rewritten(bool compress, bool host) const {
    testing::RewriteOptions options;
    options.share = 1;
    options.compress = compress;
    options.host = host;
    options.disk = false;
    return testing::rewrite_plan(original_, 1, options);
  }

  // The plan is right, and with `change` it is wrong in a way that says `text`.
  void expect_found(Plan plan, const std::function<void(Plan&)>& change, const std::string& text) {
    const Status right = planner::check_plan(*module_, plan);
    ASSERT_TRUE(right.ok()) << right.to_string();
    change(plan);
    const Status status = planner::check_plan(*module_, plan);
    ASSERT_FALSE(status.ok()) << "expected: " << text;
    EXPECT_EQ(status.code(), StatusCode::internal);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  }

  static Step& step_of(Plan& plan, StepKind kind) {
    for (Step& step : plan.steps) {
      if (step.kind == kind) return step;
    }
    ADD_FAILURE() << "no such step";
    return plan.steps.front();
  }
  static Buffer& buffer(Plan& plan, BufferId id) { return plan.buffers[id]; }

  std::unique_ptr<ir::Module> module_;
  Plan original_;
};

TEST_F(CheckPlan, FindsATransferThatNobodyWaitsFor) {
  expect_found(
      swapped(),
      [](Plan& plan) {
        Step& wait = step_of(plan, StepKind::swap_wait);
        wait.kind = StepKind::free;
      },
      "");
}

TEST_F(CheckPlan, FindsAWaitForWhatIsNotUnderWay) {
  expect_found(
      swapped(), [](Plan& plan) { step_of(plan, StepKind::swap_wait).transfer = StepId(0); },
      "waits for a transfer that is not under way");
}

TEST_F(CheckPlan, FindsAReadOfWhatHasNotArrived) {
  expect_found(
      swapped(),
      [](Plan& plan) {
        // The last wait and the step after it, its reader, change places.
        for (StepId s = plan.steps.end_id() - 2; s >= 0; --s) {
          const bool in = plan.steps[s].kind == StepKind::swap_wait &&
                          plan.steps[plan.steps[s].transfer].kind == StepKind::swap_in;
          if (!in) continue;
          const BufferId arrives = plan.steps[plan.steps[s].transfer].outputs[0];
          buffer(plan, arrives).last_step = std::max(buffer(plan, arrives).last_step, s + 1);
          std::swap(plan.steps[s], plan.steps[s + 1]);
          return;
        }
      },
      "is in a transfer that nobody has waited for");
}

TEST_F(CheckPlan, FindsASourceThatDiesInItsTransfer) {
  expect_found(
      swapped(),
      [](Plan& plan) {
        for (const StepId s : plan.steps.ids()) {
          if (plan.steps[s].kind != StepKind::swap_out) continue;
          // A wait right behind the start would leave no room.
          Buffer& source = buffer(plan, plan.steps[s].inputs[0]);
          source.last_step = s;
          return;
        }
      },
      "does not live until its transfer has ended");
}

TEST_F(CheckPlan, FindsBuffersOfATierThatOverlap) {
  expect_found(
      swapped(),
      [](Plan& plan) {
        const StepId end = plan.steps.end_id() - 1;
        int made_long = 0;
        for (Buffer& b : plan.buffers) {
          if (b.placement != Placement::host) continue;
          b.first_step = StepId(0);
          b.last_step = end;
          b.offset = 0;
          ++made_long;
        }
        ASSERT_GT(made_long, 1);
      },
      "overlaps a live one");
}

TEST_F(CheckPlan, FindsATierThatIsLargerThanItsBuffers) {
  expect_found(
      swapped(), [](Plan& plan) { plan.tier_bytes.host += 64; },
      "the bytes of a tier are not what it says");
}

TEST_F(CheckPlan, FindsAKernelThatReadsAnotherTier) {
  expect_found(
      swapped(),
      [](Plan& plan) {
        const BufferId far = step_of(plan, StepKind::swap_out).outputs[0];
        const StepId end = plan.steps.end_id() - 1;
        buffer(plan, far).last_step = end;
        for (Buffer& b : plan.buffers) {
          if (b.placement == Placement::host && &b != &buffer(plan, far)) b.offset += 1 << 20;
        }
        buffer(plan, far).offset = 0;
        plan.tier_bytes.host = 0;
        for (const Buffer& b : plan.buffers) {
          if (b.placement == Placement::host) {
            plan.tier_bytes.host = std::max(plan.tier_bytes.host, b.offset + b.bytes);
          }
        }
        plan.steps.back().inputs[0] = far;
      },
      "is only for transfers");
}

TEST_F(CheckPlan, FindsWhatShouldBePinnedAndWhatShouldNot) {
  expect_found(
      swapped(),
      [](Plan& plan) { buffer(plan, step_of(plan, StepKind::swap_in).outputs[0]).pinned = false; },
      "is in a transfer and not pinned");
  expect_found(
      swapped(),
      [](Plan& plan) {
        for (Buffer& b : plan.buffers) {
          if (b.placement == Placement::output) b.pinned = true;
        }
      },
      "is pinned for nothing");
}

TEST_F(CheckPlan, FindsACalleeWithoutItsBlock) {
  expect_found(
      swapped(),
      [](Plan& plan) {
        for (Step& step : plan.steps) {
          if (!step.callees.empty()) step.tier_workspaces.host = {};
        }
      },
      "a tier's block is too small for its callee");
}

TEST_F(CheckPlan, FindsAnOutcomeThatIsNotTheReaders) {
  const auto change_codecs = [](const std::function<void(ir::Codec&)>& change) {
    return [change](Plan& plan) {
      for (Step& step : plan.steps) {
        if (step.codec.kind == CodecKind::compare_mask) change(step.codec);
      }
    };
  };
  expect_found(encoded(), change_codecs([](ir::Codec& codec) { codec.constant = 1; }),
               "holds no more of 'h' than compare-mask(gt, 1)");
  // With a NaN, what is not greater need not be less or equal.
  expect_found(encoded(), change_codecs([](ir::Codec& codec) {
                 codec.direction = ir::ComparisonDirection::le;
               }),
               "holds no more of 'h'");
}

TEST_F(CheckPlan, FindsAnotherDecoder) {
  expect_found(
      encoded(), [](Plan& plan) { step_of(plan, StepKind::decode).codec.constant = 1; },
      "decodes another code");
}

TEST_F(CheckPlan, FindsACodecThatTheDtypeLacks) {
  expect_found(
      encoded(),
      [](Plan& plan) { step_of(plan, StepKind::encode).codec.kind = CodecKind::bit_mask; },
      "arrays like this one have no such codec");
}

TEST_F(CheckPlan, FindsAnEncodedValueWhereTheValueIsRead) {
  expect_found(
      encoded(),
      [](Plan& plan) {
        const Step decode = step_of(plan, StepKind::decode);
        for (Step& step : plan.steps) {
          if (step.kind == StepKind::decode) step.kind = StepKind::free;
        }
        for (Step& step : plan.steps) {
          std::replace(step.inputs.begin(), step.inputs.end(), decode.outputs[0], decode.inputs[0]);
        }
        buffer(plan, decode.inputs[0]).last_step = buffer(plan, decode.outputs[0]).last_step;
        buffer(plan, decode.inputs[0]).offset = plan.arena_bytes;
        plan.arena_bytes += buffer(plan, decode.inputs[0]).bytes;
      },
      "does not hold 'h'");
}

}  // namespace
}  // namespace plimsoll
