// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/collectives_beside.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "collectives/communication_thread.h"
#include "runtime/executor/run_together.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// Control predecessors keep what runs meanwhile behind the collectives.
constexpr std::string_view kTwoReplicas =
    "HloModule m, replica_count=2\n"
    "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
    "ENTRY e {\n  x = f32[64,64] parameter(0)\n  y = f32[64,64] parameter(1)\n";

struct TwoReplicas {
  std::vector<std::vector<ir::Literal>> arguments;
  std::vector<std::shared_ptr<memory::Budget>> budgets;
  std::shared_ptr<const Executable> executable;

  Result<std::vector<ir::Literal>> run() const {
    return run_together(*executable, budgets, arguments);
  }
};

TwoReplicas prepare_two(const std::string& body, std::int64_t overlap_bytes) {
  TwoReplicas made;
  auto module = ir::parse_module(std::string(kTwoReplicas) + body + "}\n");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  for (std::uint64_t p = 0; p < 2; ++p) {
    made.arguments.push_back(cases::random_arguments(**module, p + 1));
    made.budgets.push_back(memory::Budget::create(device::default_device(), planner::kUnlimited));
  }
  ProgramOptions options(false);
  options.overlap_bytes = overlap_bytes;
  const auto program = Program::create(std::move(*module), provider(), options);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  auto executable = make_executable(*program, {}, {}, *made.budgets[0]);
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  made.executable = std::move(executable).value();
  return made;
}

// Where participants have to share processors, going on takes from kernels what it saves.
TEST(CollectivesBeside, HowMuchIsWorthItDependsOnWhoSharesProcessors) {
  constexpr std::int64_t kShort = 512 << 10, kLong = 8 << 20;
  EXPECT_EQ(overlap_bytes_for(2, 2), kShort);
  EXPECT_EQ(overlap_bytes_for(3, 2), kLong);
  const auto chosen = [](const ProgramOptions& options) {
    auto module = ir::parse_module(
        "HloModule m, replica_count=100000\n"
        "ENTRY e { ROOT x = f32[4] parameter(0) }");
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    const auto program = Program::create(std::move(*module), provider(), options);
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    return (*program)->options().overlap_bytes.value();
  };
  ProgramOptions options;
  // Those of a device with memory of its own take no processor.
  EXPECT_EQ(chosen(options), provider().device()->is_host_memory() ? kLong : kShort);
  options.participants_here = 1;
  EXPECT_EQ(chosen(options), kShort);
  options.overlap_bytes = 0;
  EXPECT_EQ(chosen(options), 0);
}

std::int64_t beside(const std::string& body, std::int64_t overlap_bytes = 1) {
  const TwoReplicas apart = prepare_two(body, 0), made = prepare_two(body, overlap_bytes);
  EXPECT_EQ(apart.executable->launches().beside, 0);
  EXPECT_EQ(apart.executable->plan().peak_bytes, made.executable->plan().peak_bytes);
  const auto expected = apart.run(), results = made.run();
  EXPECT_TRUE(expected.ok() && results.ok()) << results.status().to_string();
  if (!expected.ok() || !results.ok()) return -1;
  EXPECT_TRUE(*expected == *results);
  return made.executable->launches().beside;
}

// 64 x 64 floats are 16 KiB.
constexpr const char* kWorkBetween =
    "  a = f32[64,64] all-reduce(x), replica_groups={{0,1}}, to_apply=sum\n"
    "  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "control-predecessors={a}\n"
    "  t = f32[64,64] tanh(d)\n  ROOT r = f32[64,64] add(a, t)\n";

TEST(CollectivesBeside, GoOnUntilTheirResultsAreRead) {
  EXPECT_EQ(beside(kWorkBetween), 1);
  // Read at once.
  EXPECT_EQ(beside("  a = f32[64,64] all-reduce(x), replica_groups={{0,1}}, to_apply=sum\n"
                   "  t = f32[64,64] tanh(a)\n  ROOT r = f32[64,64] add(t, y)\n"),
            0);
}

TEST(CollectivesBeside, OnlyWhereThereIsAsMuchToDoAsIsAskedFor) {
  // y is read once and d written, then read, and t written.
  EXPECT_EQ(beside(kWorkBetween, 48 << 10), 1);
  EXPECT_EQ(beside(kWorkBetween, 1 << 20), 0);
  EXPECT_EQ(beside(kWorkBetween, 0), 0);
}

TEST(CollectivesBeside, SeveralAreUnderWayInOrder) {
  EXPECT_GE(
      beside("  a = f32[64,64] all-reduce(x), replica_groups={{0,1}}, to_apply=sum\n"
             "  b = f32[64,64] collective-permute(a), source_target_pairs={{0,1},{1,0}}\n"
             "  c = f32[128,64] all-gather(y), replica_groups={{0,1}}, dimensions={0}\n"
             "  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, "
             "rhs_contracting_dims={0}, control-predecessors={b, c}\n  e = f32[64,64] add(b, d)\n"
             "  f = f32[64,64] slice(c), slice={[32:96],[0:64]}, control-predecessors={d}\n"
             "  ROOT r = f32[64,64] add(e, f)\n"),
      1);
}

// Halves in the program are the same: the done half reads what the start half makes.
TEST(CollectivesBeside, HalvesOfAPairGoOnInBetween) {
  EXPECT_EQ(beside("  s = f32[64,64] all-reduce-start(x), replica_groups={{0,1}}, to_apply=sum\n"
                   "  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, "
                   "rhs_contracting_dims={0}, control-predecessors={s}\n"
                   "  a = f32[64,64] all-reduce-done(s), control-predecessors={d}\n"
                   "  ROOT r = f32[64,64] add(a, d)\n"),
            1);
}

// What an operand of no further use leaves free is not written meanwhile: a chain of values of its
// size would, if the arena were packed as small without a thought of it.
TEST(CollectivesBeside, OperandsStayWhereTheArenaIsNoLargerForIt) {
  const std::string body =
      "  n = f32[64,64] negate(x)\n"
      "  g = f32[128,64] all-gather(n), replica_groups={{0,1}}, dimensions={0}\n"
      "  a = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "control-predecessors={g}\n"
      "  b = f32[64,64] dot(a, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "  w = f32[320,64] pad(b, f32[] constant(0)), padding=0_256x0_0\n"
      "  v = f32[320,64] tanh(w)\n  z = f32[64,64] slice(v), slice={[0:64],[0:64]}\n"
      "  h = f32[64,64] slice(g), slice={[32:96],[0:64]}, control-predecessors={v}\n"
      "  ROOT r = f32[64,64] add(h, z)\n";
  EXPECT_EQ(beside(body, 5 * (64 * 64 * 4)), 1);
}

// A loop's meetings end with its rounds, and those around it go on.
TEST(CollectivesBeside, GoOnWhileALoopRuns) {
  EXPECT_EQ(
      beside("  a = f32[64,64] all-reduce(x), replica_groups={{0,1}}, to_apply=sum\n"
             "  zero = s32[] constant(0)\n  init = (s32[], f32[64,64]) tuple(zero, y)\n"
             "  loop = (s32[], f32[64,64]) while(init), condition={ p = (s32[], f32[64,64]) "
             "parameter(0) i = s32[] get-tuple-element(p), index=0 k = s32[] constant(3) ROOT c = "
             "pred[] compare(i, k), direction=LT }, body={ q = (s32[], f32[64,64]) parameter(0) "
             "j = s32[] get-tuple-element(q), index=0 one = s32[] constant(1) next = s32[] add(j, "
             "one) v = f32[64,64] get-tuple-element(q), index=1 m = f32[64,64] all-reduce(v), "
             "replica_groups={{0,1}}, to_apply=sum w = f32[64,64] dot(v, v), "
             "lhs_contracting_dims={1}, rhs_contracting_dims={0}, control-predecessors={m} u = "
             "f32[64,64] tanh(w) o = "
             "f32[64,64] add(m, u) ROOT t = (s32[], f32[64,64]) tuple(next, o) }\n"
             "  l = f32[64,64] get-tuple-element(loop), index=1\n"
             "  ROOT r = f32[64,64] add(a, l)\n"),
      2);
}

// Behind a loop that met others itself, readers wait for what was begun behind it.
TEST(CollectivesBeside, AreCountedApartFromThoseOfLoops) {
  const TwoReplicas made = prepare_two(
      "  zero = s32[] constant(0)\n  init = (s32[], f32[64,64]) tuple(zero, y)\n"
      "  loop = (s32[], f32[64,64]) while(init), condition={ p = (s32[], f32[64,64]) parameter(0) "
      "i = s32[] get-tuple-element(p), index=0 k = s32[] constant(3) ROOT c = pred[] compare(i, "
      "k), "
      "direction=LT }, body={ q = (s32[], f32[64,64]) parameter(0) j = s32[] get-tuple-element(q), "
      "index=0 one = s32[] constant(1) next = s32[] add(j, one) v = f32[64,64] "
      "get-tuple-element(q), index=1 m = f32[64,64] all-reduce(v), replica_groups={{0,1}}, "
      "to_apply=sum w = f32[64,64] tanh(v), control-predecessors={m} o = f32[64,64] add(m, w) ROOT "
      "t "
      "= (s32[], f32[64,64]) tuple(next, o) }\n"
      "  l = f32[64,64] get-tuple-element(loop), index=1\n  h = f32[64,64] tanh(l)\n"
      "  b = f32[64,64] all-reduce(h), replica_groups={{0,1}}, to_apply=sum\n"
      "  d = f32[64,64] negate(x), control-predecessors={b}\n"
      "  ROOT r = f32[64,64] add(b, d)\n",
      1);
  ASSERT_EQ(made.executable->launches().beside, 2);
  made.executable->enable_joint_launches(false);  // nothing goes on
  const auto expected = made.run();
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  made.executable->enable_joint_launches(true);
  for (int round = 0; round < 20; ++round) {
    const auto results = made.run();
    ASSERT_TRUE(results.ok()) << results.status().to_string();
    ASSERT_TRUE(*results == *expected) << "round " << round;
  }
}

// An error of what is under way is the run's, and names the instruction; the other participant gets
// it, too.
TEST(CollectivesBeside, AnErrorOfOneUnderWayIsTheRunsError) {
  const TwoReplicas made = prepare_two(
      "  n = s32[2] constant({0,1})\n  w = s32[2] constant({1,70})\n"
      "  g = f32[64,64] ragged-all-to-all(x, x, n, w, n, w), replica_groups={{0,1}}\n"
      "  d = f32[64,64] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "control-predecessors={g}\n  b = f32[320,64] pad(d, f32[] constant(0)), "
      "padding=0_256x0_0\n  v = f32[320,64] tanh(b)\n  z = f32[64,64] slice(v), "
      "slice={[0:64],[0:64]}\n  ROOT r = f32[64,64] add(g, z)\n",
      1);
  EXPECT_EQ(made.executable->launches().beside, 1);
  for (int round = 0; round < 2; ++round) {
    const auto results = made.run();
    EXPECT_EQ(results.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(results.status().message().find("'g': ragged-all-to-all 'g' of f32[64,64]"),
              std::string::npos)
        << results.status().to_string();
  }
}

// Waits until it is let go; then gives what it was made with.
class HeldKernel final : public device::Kernel {
 public:
  explicit HeldKernel(Status gives = ok_status()) : gives_(std::move(gives)) {}
  Status launch(device::Stream&, const device::KernelArguments&) const override {
    let_go_.get_future().wait();
    ++launches;
    return gives_;
  }
  void let_go() const { let_go_.set_value(); }
  std::int64_t workspace_bytes() const override { return 0; }
  device::KernelOrigin origin() const override { return device::KernelOrigin::own; }
  const std::string& name() const override { return name_; }

  mutable std::atomic<int> launches = 0;

 private:
  const std::string name_ = "held";
  Status gives_;
  mutable std::promise<void> let_go_;
};

TEST(CommunicationThread, BeginsAtOnceAndIsWaitedFor) {
  const auto device = device::default_device();
  const auto stream = device->create_stream();
  ASSERT_TRUE(stream.ok());
  const HeldKernel first, second(unavailable("the line is cut")), third;
  collectives::CommunicationThread thread(*device);
  EXPECT_TRUE(thread.begin(**stream, {&first, {}, {}, nullptr, "a"}).ok());
  EXPECT_TRUE(thread.begin(**stream, {&second, {}, {}, nullptr, "b"}).ok());
  EXPECT_TRUE(thread.begin(**stream, {&third, {}, {}, nullptr, "c"}).ok());
  EXPECT_EQ(thread.begun(), 3);
  EXPECT_TRUE(thread.wait(0).ok());
  EXPECT_EQ(first.launches, 0);
  first.let_go();
  EXPECT_TRUE(thread.wait(1).ok());
  EXPECT_EQ(first.launches, 1);
  second.let_go();
  EXPECT_EQ(thread.wait(2).to_string(), "UNAVAILABLE: 'b': the line is cut");
  EXPECT_EQ(thread.wait(3).to_string(), "UNAVAILABLE: 'b': the line is cut");
  EXPECT_EQ(thread.begin(**stream, {&first, {}, {}, nullptr, "d"}).to_string(),
            "UNAVAILABLE: 'b': the line is cut");
  EXPECT_EQ(third.launches, 0);
}

}  // namespace
}  // namespace plimsoll::executor
