// SPDX-License-Identifier: Apache-2.0
// Kernels that are merged hold more at a time: under a limit that they do not fit into, the program
// runs less fused, with the same bits.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/one_thread.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "runtime/program/plan_within.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_scan.h"
#include "tests/cases/scanned_attention.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// One kernel can make both k0 and k1, which read x: then both products are there at once.
constexpr const char* kText = R"(HloModule m
ENTRY e {
  x = f32[128,128] parameter(0)
  p = f32[128,8] parameter(1)
  q = f32[128,8] parameter(2)
  v = f32[128,1] parameter(3)
  a = f32[128,128] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  k0 = f32[128,128] add(x, a)
  s = f32[128,1] dot(k0, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[128,128] dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  k1 = f32[128,128] multiply(x, b)
  t = f32[128,1] dot(k1, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[128,1], f32[128,1]) tuple(s, t)
})";

class LessFused : public ::testing::Test {
 protected:
  void SetUp() override {
    auto provider = create_provider();
    ASSERT_TRUE(provider.ok());
    provider_ = std::move(*provider);
    auto module = ir::parse_module(kText);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    arguments_ = cases::random_arguments(**module, 3);
    auto program = Program::create(std::move(*module), *provider_, {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = std::move(*program);
    options_.parameters = planner::default_residency(program_->module());
    const auto full = program_->floor(options_);
    ASSERT_TRUE(full.ok());
    full_floor_ = full->bytes;
    const auto other = program_->in_form({passes::Fusion::vertical});
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    ASSERT_NE(*other, nullptr);
    const auto least = (*other)->floor(options_);
    ASSERT_TRUE(least.ok());
    least_floor_ = least->bytes;
  }

  Result<std::shared_ptr<const Executable>> executable(std::int64_t limit) {
    budget_ = memory::Budget::create(device::default_device(), limit, {});
    return make_executable(program_, options_, options_, *budget_);
  }

  std::shared_ptr<device::KernelProvider> provider_;
  std::vector<ir::Literal> arguments_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<memory::Budget> budget_;
  planner::PlanOptions options_;
  std::int64_t full_floor_ = 0, least_floor_ = 0;
};

TEST_F(LessFused, RunsBelowTheFloorOfFullFusionWithTheSameBits) {
  ASSERT_LT(least_floor_, full_floor_);
  const auto unlimited = executable(planner::kUnlimited);
  ASSERT_TRUE(unlimited.ok());
  EXPECT_EQ(&(*unlimited)->program(), program_.get());
  const auto expected = run_on_host(**unlimited, *budget_, arguments_);
  ASSERT_TRUE(expected.ok());
  for (const std::int64_t limit : {least_floor_, full_floor_ - 1}) {
    const auto limited = executable(limit);
    ASSERT_TRUE(limited.ok()) << limited.status().to_string();
    EXPECT_EQ((*limited)->program().form().fusion, passes::Fusion::vertical);
    const auto result = run_on_host(**limited, *budget_, arguments_);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(*expected, *result), "");
    EXPECT_LE(budget_->statistics().peak_bytes, limit);
  }
}

TEST_F(LessFused, ReportedFloorIsTheLowerOne) {
  const auto floor = least_floor(*program_, options_);
  ASSERT_TRUE(floor.ok()) << floor.status().to_string();
  EXPECT_EQ(floor->bytes, least_floor_);
  EXPECT_LE(floor->lower_bound_bytes, floor->bytes);
}

TEST_F(LessFused, RefusalNamesTheLowerFloor) {
  const auto refused = executable(least_floor_ - 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  ASSERT_NE(refused.status().shortage(), nullptr);
  EXPECT_EQ(refused.status().shortage()->floor_bytes, least_floor_);
}

TEST_F(LessFused, FirstPlansKeepTheSameLimitsWithTheSameBits) {
  const auto unlimited = executable(planner::kUnlimited);
  ASSERT_TRUE(unlimited.ok());
  const std::int64_t peak = (*unlimited)->plan().peak_bytes;
  const auto expected = run_on_host(**unlimited, *budget_, arguments_);
  ASSERT_TRUE(expected.ok());
  options_.effort = planner::Effort::first;
  for (int i = 0; i <= 8; ++i) {
    const std::int64_t limit = least_floor_ + (peak - least_floor_) * i / 8;
    const auto limited = executable(limit);
    ASSERT_TRUE(limited.ok()) << limited.status().to_string();
    const auto result = run_on_host(**limited, *budget_, arguments_);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(*expected, *result), "");
    EXPECT_LE(budget_->statistics().peak_bytes, limit);
  }
  const auto refused = executable(least_floor_ - 1);
  ASSERT_FALSE(refused.ok());
  ASSERT_NE(refused.status().shortage(), nullptr);
  EXPECT_EQ(refused.status().shortage()->floor_bytes, least_floor_);
  // As they answer everybody else.
  EXPECT_EQ(least_floor(*program_, options_)->bytes, least_floor_);
}

TEST_F(LessFused, MoreMemoryIsNeverSlowerAcrossTheTwo) {
  double slower = -1;
  for (std::int64_t limit = least_floor_; limit <= full_floor_ + full_floor_ / 4;
       limit += std::max<std::int64_t>(full_floor_ / 40, 1)) {
    const auto made = executable(limit);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    const double seconds = (*made)->plan().predicted_seconds;
    if (slower >= 0) {
      EXPECT_LE(seconds, slower * (1 + 1e-9)) << "at " << limit;
    }
    slower = seconds;
  }
}

// Values that go down through products and come back one by one from the last: one kernel could
// read them all at once.
std::string skips(int count) {
  std::string text =
      "HloModule skips\nENTRY e {\n  x = f32[64,64] parameter(0)\n  w = f32[64,64] parameter(1)\n";
  std::string last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    text += "  d" + n + " = f32[64,64] dot(" + last +
            ", w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  s" + n +
            " = f32[64,64] tanh(d" + n + ")\n";
    last = "s" + n;
  }
  std::string sum = last;
  for (int i = count - 1; i-- > 0;) {
    const std::string n = std::to_string(i);
    text += std::string(i == 0 ? "  ROOT" : " ") + " u" + n + " = f32[64,64] add(" + sum + ", s" +
            n + ")\n";
    sum = "u" + n;
  }
  return text + "}\n";
}

// What is fused with a constant sees the constant's value; a NaN's sign must not tell.
TEST(LessFusedForms, KeepTheSignOfANanThatIsNearlyNegated) {
  const auto provider = create_provider();
  ASSERT_TRUE(provider.ok());
  auto module = ir::parse_module(R"(HloModule m
ENTRY e {
  x = f32[40] parameter(0)
  y = f32[40] parameter(1)
  c = f32[] constant(-1)
  b = f32[40] broadcast(c), dimensions={}
  p = f32[40] multiply(x, b)
  q = f32[40] divide(y, b)
  r = f32[40] multiply(b, y)
  z = f32[] constant(-0)
  zs = f32[40] broadcast(z), dimensions={}
  s = f32[40] subtract(zs, x)
  ROOT t = (f32[40], f32[40], f32[40], f32[40]) tuple(p, q, r, s)
})");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  std::vector<ir::Literal> arguments = cases::random_arguments(**module, 3);
  for (ir::Literal& argument : arguments) {
    for (int i = 0; i < 8; ++i) {
      argument.mutable_data<std::uint32_t>()[3 * i] = i % 2 == 0 ? 0x7fc00000u : 0xffc00000u;
    }
  }
  std::string error;
  const ir::Literal fused = testing::run_unlimited(**module, arguments, **provider, true, error);
  const ir::Literal apart = testing::run_unlimited(**module, arguments, **provider, false, error);
  EXPECT_EQ(error, "");
  EXPECT_TRUE(fused == apart);
}

TEST(NarrowFusion, NeedsNoMoreThanTheModuleAsWritten) {
  const auto provider = create_provider();
  ASSERT_TRUE(provider.ok());
  for (const bool optimize : {true, false}) {
    auto module = ir::parse_module(skips(16));
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    testing::LimitOptions limits;
    limits.optimize = optimize;
    EXPECT_EQ(testing::check_limits(**module, cases::random_arguments(**module, 5), **provider, 0,
                                    6, limits),
              "");
  }
  auto module = ir::parse_module(skips(16));
  auto program = Program::create(std::move(*module), **provider, {});
  ASSERT_TRUE(program.ok());
  planner::PlanOptions options;
  options.parameters = planner::default_residency((*program)->module());
  const auto full = (*program)->floor(options);
  const auto narrow = (*program)->in_form({passes::Fusion::narrow});
  ASSERT_TRUE(narrow.ok());
  const auto floor = (*narrow)->floor(options);
  ASSERT_TRUE(full.ok() && floor.ok());
  // Besides the parameters and the result, five arrays instead of sixteen and more.
  constexpr std::int64_t kArray = 64 * 64 * 4;
  EXPECT_GT(full->bytes, 3 * kArray + 14 * kArray);
  EXPECT_LE(floor->bytes, 3 * kArray + 5 * kArray);
}

// Levels of which one kernel makes three arrays, and a way back that reads two of them.
std::string levels(int count) {
  const std::string shape = "f32[256,256]";
  std::string text = "HloModule m\nENTRY e {\n  a0 = " + shape + " parameter(0)\n  w = " + shape +
                     " parameter(1)\n";
  const auto add = [&](const std::string& name, int i, const std::string& what) {
    text += "  " + name + std::to_string(i) + " = " + shape + " " + what + "\n";
  };
  const std::string dims = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  for (int i = 1; i <= count; ++i) {
    const std::string n = std::to_string(i), before = std::to_string(i - 1);
    add("p", i, "dot(a" + before + ", w)" + dims);
    add("g", i, "tanh(p" + n + ")");
    add("s", i, "tanh(g" + n + ")");
    add("a", i, "multiply(g" + n + ", s" + n + ")");
  }
  add("d", count, "negate(a" + std::to_string(count) + ")");
  for (int i = count; i > 0; --i) {
    const std::string n = std::to_string(i);
    add("h", i, "add(p" + n + ", s" + n + ")");
    add("m", i, "multiply(d" + n + ", h" + n + ")");
    add("d", i - 1, "dot(m" + n + ", w)" + dims);
  }
  return text + "  ROOT r = (" + shape + ") tuple(d0)\n}\n";
}

// A training step that pays for every byte, and less fused forms that are slower without a limit
// than it is within one.
TEST(PlanWithin, PlansNoFormThatCannotBeFaster) {
  const auto provider = create_provider();
  ASSERT_TRUE(provider.ok());
  const auto make = [&] {
    auto module = ir::parse_module(levels(12));
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    return *Program::create(std::move(*module), **provider, {});
  };
  const auto program = make();
  planner::PlanOptions options;
  options.parameters = planner::default_residency(program->module());
  const auto unlimited = program->plan(options);
  const auto vertical = program->in_form({passes::Fusion::vertical});
  ASSERT_TRUE(unlimited.ok() && vertical.ok());
  const auto fastest = (*vertical)->plan(options);
  ASSERT_TRUE(fastest.ok());
  // The limit at which the fully fused program has lost a fiftieth, and others nothing to win.
  bool found = false;
  for (int share = 95; share >= 50 && !found; share -= 1) {
    options.limit_bytes = (*unlimited)->peak_bytes / 100 * share;
    const auto limited = program->plan(options);
    if (!limited.ok()) break;
    found = (*limited)->predicted_seconds > 1.02 * (*unlimited)->predicted_seconds &&
            (*limited)->predicted_seconds <= (*fastest)->predicted_seconds;
  }
  ASSERT_TRUE(found) << (*fastest)->predicted_seconds / (*unlimited)->predicted_seconds;
  const auto again = make();
  const auto limited = plan_within(again, options);
  ASSERT_TRUE(limited.ok()) << limited.status().to_string();
  EXPECT_EQ(limited->program, again);
  // Its plan without a limit was asked for, and none within it.
  EXPECT_EQ((*again->in_form({passes::Fusion::vertical}))->plans().statistics().misses, 1);
}

// Forms that are searched at once on several threads give what they give one after the other.
TEST(ProgramForms, GiveTheSameOnOneThreadAndOnSeveral) {
  const auto provider = create_provider();
  ASSERT_TRUE(provider.ok());
  std::vector<std::string> texts{kText, levels(5), cases::scanned_attention(2)};
  for (const std::uint64_t seed : {1, 5, 9}) texts.push_back(cases::random_scan(seed));
  for (const std::string& text : texts) {
    const auto make = [&] {
      auto module = ir::parse_module(text);
      EXPECT_TRUE(module.ok()) << module.status().to_string();
      return *Program::create(std::move(*module), **provider, {});
    };
    planner::PlanOptions options;
    std::vector<std::string> answers[2];
    for (const bool one : {true, false}) {
      std::optional<OneThread> alone;
      if (one) alone.emplace();
      const auto program = make();
      options.parameters = planner::default_residency(program->module());
      options.limit_bytes = planner::kUnlimited;
      const auto floor = least_floor(*program, options);
      ASSERT_TRUE(floor.ok()) << floor.status().to_string();
      const auto unlimited = plan_within(program, options);
      ASSERT_TRUE(unlimited.ok()) << unlimited.status().to_string();
      const std::int64_t peak = unlimited->plan->peak_bytes;
      answers[one].push_back(fmt::format("{} {} {}", floor->bytes, floor->lower_bound_bytes, peak));
      for (const int share : {0, 30, 60, 90}) {
        options.limit_bytes = floor->bytes + (peak - floor->bytes) * share / 100;
        const auto fresh = make();
        const auto made = plan_within(fresh, options);
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        const ProgramForm& form = made->program->form();
        answers[one].push_back(fmt::format(
            "{} {} {} {} {}", static_cast<int>(form.fusion), static_cast<int>(form.residuals),
            form.recomputed_percent, made->plan->peak_bytes, made->plan->predicted_seconds));
      }
      options.limit_bytes = floor->bytes - 1;
      const auto refused = plan_within(make(), options);
      ASSERT_NE(refused.status().shortage(), nullptr);
      EXPECT_EQ(refused.status().shortage()->floor_bytes, floor->bytes);
    }
    EXPECT_EQ(answers[0], answers[1]);
  }
}

// Without a loop, nothing that loops recompute makes a difference.
TEST(ProgramForms, AreOneWhereTheirKernelsAre) {
  const auto provider = create_provider();
  ASSERT_TRUE(provider.ok());
  std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/passes/attention_step.hlo");
  // Names that are free again once the text is prepared may be given to a kernel, or the next ones.
  std::string taken = levels(3);
  const std::string root = "  ROOT";
  for (const char* name : {"add_fusion", "multiply_fusion", "tanh_fusion", "negate_fusion"}) {
    taken.insert(taken.find(root), std::string("  ") + name + " = f32[256,256] negate(w)\n");
  }
  for (const std::string& text : {taken, std::string(std::istreambuf_iterator<char>(file), {})}) {
    auto module = ir::parse_module(text);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto program = Program::create(std::move(*module), **provider, {});
    ASSERT_TRUE(program.ok());
    const auto carried = (*program)->in_form({passes::Fusion::full, passes::Residuals::carried});
    ASSERT_TRUE(carried.ok());
    EXPECT_EQ(carried->get(), program->get());
  }
}

TEST(ProgramAsWritten, HasNoLessFusedForm) {
  const auto provider = create_provider();
  ASSERT_TRUE(provider.ok());
  auto module = ir::parse_module(kText);
  ASSERT_TRUE(module.ok());
  const auto program = Program::create(std::move(*module), **provider, false);
  ASSERT_TRUE(program.ok());
  const auto less_fused = (*program)->in_form({passes::Fusion::vertical});
  ASSERT_TRUE(less_fused.ok());
  EXPECT_EQ(*less_fused, nullptr);
  planner::PlanOptions options;
  options.parameters = planner::default_residency((*program)->module());
  EXPECT_EQ(least_floor(**program, options)->bytes, (*program)->floor(options)->bytes);
}

}  // namespace
}  // namespace plimsoll::executor
