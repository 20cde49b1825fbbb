// SPDX-License-Identifier: Apache-2.0
// Codes that are read as they are, without a copy of the value.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/ir/text/text.h"
#include "runtime/planner/bound/bound.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/remedies_apply.h"
#include "runtime/planner/remedies/remedies_find.h"
#include "tests/planner/bound_problems.h"

namespace plimsoll::planner {
namespace {

// As the table says; selections read masks as bits.
class DirectCosts : public RooflineCostModel {
 public:
  bool reads_encoded(const ir::Instruction& instruction, const EncodedInput& input) const override {
    return instruction.opcode() == ir::Opcode::select && input.codec.kind == CodecKind::bit_mask;
  }
};

// The mask is read early and late; `late` reads it.
std::unique_ptr<ir::Module> masked(const std::string& late) {
  auto module = ir::parse_module(R"(HloModule m, is_scheduled=true
ENTRY e { x = f32[1024] parameter(0)
  y = f32[1024] parameter(1)
  m = pred[1024] compare(x, y), direction=GT
  a = f32[1024] select(m, x, y)
  b = f32[1024] exponential(a)
  c = f32[1024] tanh(b)
  d = f32[1024] add(c, b)
  e = )" + late + R"(
  ROOT t = (f32[1024]) tuple(e) })",
                                 "test");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(*module) : nullptr;
}

const char* const kSelect = "f32[1024] select(m, d, x)";
const char* const kAnd = "f32[1024] convert(m)";

// What compresses `m` before its last read.
std::vector<Choice> compress_mask(const Problem& problem, std::span<const Form> forms) {
  for (const Form& form : forms) {
    const Value& value = problem.values[form.value];
    if (form.kind != RemedyKind::compress || value.source->name() != "m") continue;
    return {choose_form(problem, form, problem.uses[form.value].back())};
  }
  return {};
}

TEST(FusedDecode, ReadsTheStoredFormWhereTheReaderCan) {
  const auto module = masked(kSelect);
  const auto plan = plan_with_choices(*module, DirectCosts(), {}, compress_mask);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->counts.encode, 1);
  EXPECT_EQ(plan->counts.decode, 0);
  EXPECT_EQ(plan->counts.fused_decode, 1);
  EXPECT_EQ(plan->steps.back().coding.inputs,
            (std::vector<EncodedInput>{{0, {CodecKind::bit_mask}}}));
  EXPECT_TRUE(check_plan(*module, *plan).ok()) << check_plan(*module, *plan).to_string();
  // Otherwise there is a copy.
  const auto decoded = plan_with_choices(*module, RooflineCostModel(), {}, compress_mask);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->counts.decode, 1);
  EXPECT_EQ(decoded->counts.fused_decode, 0);
  EXPECT_LT(plan->predicted_seconds, decoded->predicted_seconds);
  const auto other = masked(kAnd);
  const auto converted = plan_with_choices(*other, DirectCosts(), {}, compress_mask);
  ASSERT_TRUE(converted.ok());
  EXPECT_EQ(converted->counts.decode, 1);
}

// A view of the same elements is the same code, one of another dtype is not.
TEST(FusedDecode, ReadsTheStoredFormThroughReshapesOnly) {
  class Any : public RooflineCostModel {
   public:
    bool reads_encoded(const ir::Instruction& instruction, const EncodedInput&) const override {
      return instruction.opcode() == ir::Opcode::negate;
    }
  };
  for (const bool same : {true, false}) {
    auto module = ir::parse_module(
        std::string(R"(HloModule m, is_scheduled=true
ENTRY e { x = bf16[1024] parameter(0)
  m = f32[1024] convert(x)
  a = f32[1024] exponential(m)
  b = f32[1024] tanh(a)
  )") +
            (same ? "v = f32[32,32] reshape(m)\n  n = f32[32,32] negate(v)"
                  : "v = s32[1024] bitcast(m)\n  n = s32[1024] negate(v)") +
            "\n  ROOT t = (" + (same ? "f32[32,32]" : "s32[1024]") + ", f32[1024]) tuple(n, b) }",
        "test");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto plan = plan_with_choices(**module, Any(), {}, compress_mask);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->counts.encode, 1);
    EXPECT_EQ(plan->counts.fused_decode, same ? 1 : 0);
    EXPECT_EQ(plan->counts.decode, same ? 0 : 1);
    EXPECT_TRUE(check_plan(**module, *plan).ok()) << check_plan(**module, *plan).to_string();
  }
}

TEST(FusedDecode, IsProvedByTheChecker) {
  const auto module = masked(kSelect);
  const auto plan = plan_with_choices(*module, DirectCosts(), {}, compress_mask);
  ASSERT_TRUE(plan.ok());
  const auto reason = [&](auto change) {
    Plan changed = *plan;
    change(changed.steps.back());
    return check_plan(*module, changed).message();
  };
  EXPECT_NE(reason([](Step& step) { step.coding.inputs.clear(); }).find("does not hold 'm'"),
            std::string::npos);
  EXPECT_NE(reason([](Step& step) {
              step.coding.inputs.front().codec = {CodecKind::bfloat16};
            }).find("is not encoded by bfloat16"),
            std::string::npos);
  EXPECT_NE(reason([](Step& step) {
              step.coding.inputs.push_back({1, {CodecKind::bit_mask}});
            }).find("input 1 is not encoded by bit-mask"),
            std::string::npos);
  EXPECT_NE(reason([](Step& step) {
              step.coding.inputs.push_back({3, {CodecKind::bit_mask}});
            }).find("has no input 3"),
            std::string::npos);
}

// Less memory than any plan with a copy: the readers are what needs most.
TEST(FusedDecode, LowersTheFloor) {
  auto module = ir::parse_module(R"(HloModule m, is_scheduled=true
ENTRY e { x = f32[4096] parameter(0)
  y = f32[4096] parameter(1)
  m = pred[4096] compare(x, y), direction=GT
  s = f32[4096] sort(x), dimensions={0}, to_apply=less
  b = f32[4096] sort(s), dimensions={0}, to_apply=less
  e = f32[4096] select(m, b, s)
  ROOT t = (f32[4096]) tuple(e) }
less { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = pred[] compare(p, q), direction=LT })",
                                 "test");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  PlanOptions options;
  options.remedies = {.recompute = false, .compress = true, .swap = false};
  const auto with = find_floor(**module, DirectCosts(), options);
  const auto without = find_floor(**module, RooflineCostModel(), options);
  ASSERT_TRUE(with.ok() && without.ok());
  EXPECT_EQ(without->bytes - with->bytes, 4096 - 4096 / 8);
  EXPECT_EQ(with->lower_bound_bytes, with->bytes);
  options.limit_bytes = with->bytes;
  const auto plan = make_plan(**module, DirectCosts(), options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->counts.fused_decode, 1);
  EXPECT_TRUE(check_plan(**module, *plan).ok());
}

// No schedule of a random problem in which a value is compressed beats the bound that knows of it.
TEST(FusedDecode, CostsAtLeastTheBound) {
  std::string text = "HloModule m\nENTRY e {\n";
  for (int i = 0; i < 16; ++i) {
    text += "p" + std::to_string(i) + " = f32[] parameter(" + std::to_string(i) + ")\n";
  }
  const auto names = ir::parse_module(text + "}", "test");
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  std::mt19937 rng(17);
  int directly = 0, bound = 0;
  for (int i = 0; i < 1200; ++i) {
    Problem problem = random_problem(rng, 5 + i % 3);
    for (const OpId op : problem.ops.ids()) {
      problem.ops[op].instruction = (*names)->entry()->parameters()[at(op)];
    }
    const auto v = ValueId(rng() % problem.values.size());
    Value& value = problem.values[v];
    const auto uses = problem.uses[v];
    if (value.producer < 0 || value.live_out || value.bytes < 2 || uses.empty()) continue;
    std::vector<const ir::Instruction*> fused_readers;
    Substitute substitute{
        v, 1, static_cast<double>(rng() % 3), static_cast<double>(rng() % 3), OpId(0), {}};
    for (const OpId use : uses) {
      if (rng() % 3 == 0) continue;
      fused_readers.push_back(problem.ops[use].instruction);
      substitute.fused_touches.push_back(use);
    }
    std::sort(fused_readers.begin(), fused_readers.end());
    Form form;
    form.value = v;
    form.codec = {CodecKind::bit_mask};
    form.bytes = substitute.bytes;
    form.encode_seconds = substitute.seconds_once;
    form.decode_seconds = substitute.seconds_each;
    form.fused_readers = fused_readers;
    const auto first = rng() % uses.size();
    Choice choice = choose_form(problem, form, uses[first]);
    for (std::size_t k = first + 1; k < uses.size(); ++k) {
      if (rng() % 2 == 0) choice.returns.push_back({uses[k], uses[k]});
    }
    const auto applied = apply_choices(problem, std::span(&choice, 1));
    ASSERT_TRUE(applied.ok()) << applied.status().to_string();
    directly += applied->codings.empty() ? 0 : 1;
    const BoundModel model = make_bound_model(problem, 8, std::span(&substitute, 1));
    const Schedule once = each_once(*applied);
    for (std::int64_t limit = evaluate(*applied, once).arena_peak; limit >= 0; --limit) {
      const double optimum = exhaustive_seconds(*applied, limit);
      const double lower = lower_bound(model, limit).seconds;
      ASSERT_LE(lower, optimum * (1 + 1e-9)) << "problem " << i << " limit " << limit;
      if (lower > model.base_seconds + 0.5) ++bound;
      if (std::isinf(optimum)) break;
    }
  }
  EXPECT_GT(directly, 100);
  EXPECT_GT(bound, 100);
}

}  // namespace
}  // namespace plimsoll::planner
