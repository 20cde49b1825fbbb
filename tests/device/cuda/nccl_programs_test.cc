// SPDX-License-Identifier: Apache-2.0
// Whole programs of several participants, each on a recorded GPU of its own, by a recorded NCCL.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/run_together.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/collectives/nccl_participants.h"
#include "tests/device/cuda/emulated_kernels.h"

namespace plimsoll::device::cuda {
namespace {

constexpr int kParticipants = 3;

// Every collective there is, in every dtype kind, along first and other dimensions.
constexpr const char* kAll = R"(
HloModule all, replica_count=3
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
half { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT r = bf16[] add(a, b) }
most { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] maximum(a, b) }
bits { a = u32[] parameter(0) b = u32[] parameter(1) ROOT r = u32[] xor(a, b) }
any { a = pred[] parameter(0) b = pred[] parameter(1) ROOT r = pred[] or(a, b) }
ENTRY e {
  x = f32[6,12] parameter(0)
  y = s32[9,5] parameter(1)
  h = bf16[40] convert(y1)
  y1 = s32[40] slice(y2), slice={[0:40]}
  y2 = s32[45] reshape(y)
  u = u32[9,5] convert(y)
  zero = s32[] constant(0)
  zeros = s32[9,5] broadcast(zero), dimensions={}
  p = pred[9,5] compare(y, zeros), direction=GT
  t = f32[6,12] tanh(x)
  ar = f32[6,12] all-reduce(t), replica_groups={{0,1,2}}, to_apply=sum
  ah = bf16[40] all-reduce(h), replica_groups={{0,1,2}}, to_apply=half
  ay = s32[9,5] all-reduce(y), replica_groups={{2,0},{1}}, to_apply=most
  au = u32[9,5] all-reduce(u), replica_groups={{0,1,2}}, to_apply=bits
  ap = pred[9,5] all-reduce(p), replica_groups={{0,1,2}}, to_apply=any
  g0 = f32[18,12] all-gather(t), replica_groups={{0,1,2}}, dimensions={0}
  g1 = s32[9,15] all-gather(y), replica_groups={{0,1,2}}, dimensions={1}
  s0 = f32[2,12] reduce-scatter(t), replica_groups={{0,1,2}}, dimensions={0}, to_apply=sum
  s1 = f32[6,4] reduce-scatter(t), replica_groups={{0,1,2}}, dimensions={1}, to_apply=sum
  a0 = f32[6,12] all-to-all(t), replica_groups={{0,1,2}}, dimensions={1}
  cp = f32[6,12] collective-permute(t), source_target_pairs={{0,1},{1,2}}
  cb = s32[9,5] collective-broadcast(y), replica_groups={{1,0,2}}
  gs = (f32[6,12], f32[18,12]) all-gather-start(t), replica_groups={{0,1,2}}, dimensions={0}
  gd = f32[18,12] all-gather-done(gs)
  i = u32[] replica-id()
  ROOT r = (f32[6,12], bf16[40], s32[9,5], u32[9,5], pred[9,5], f32[18,12], s32[9,15], f32[2,12],
    f32[6,4], f32[6,12], f32[6,12], s32[9,5], f32[18,12], u32[])
    tuple(ar, ah, ay, au, ap, g0, g1, s0, s1, a0, cp, cb, gd, i)
})";

constexpr const char* kRagged = R"(
HloModule ragged, replica_count=3
ENTRY e {
  x = f32[3,2] parameter(0)
  t = f32[3,2] tanh(x)
  y = f32[6,2] broadcast(one), dimensions={}
  one = f32[] constant(1)
  i = u32[] replica-id()
  begins = s32[3] constant({0, 1, 2})
  ones = s32[3] constant({1, 1, 1})
  n = s32[] convert(i)
  places = s32[3] broadcast(n), dimensions={}
  ROOT r = f32[6,2] ragged-all-to-all(t, y, begins, ones, places, ones), replica_groups={{0,1,2}}
})";

class NcclPrograms : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
    if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
      GTEST_SKIP() << compiler.status().message();
    }
  }
  void load(const char* text) {
    auto module = ir::parse_module(text, "nccl");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    module_ = std::move(*module);
    arguments_.clear();
    for (std::uint64_t p = 0; p < kParticipants; ++p) {
      arguments_.push_back(cases::random_arguments(*module_, p + 1));
    }
  }
  std::vector<ir::Literal> on_cpu() {
    const auto cpu = backend::create_kernels(cpu_device()).value();
    std::vector<std::shared_ptr<memory::Budget>> budgets;
    for (int p = 0; p < kParticipants; ++p) {
      budgets.push_back(memory::Budget::create(cpu_device(), planner::kUnlimited));
    }
    const auto program = executor::Program::create(module_->clone(), *cpu, {}).value();
    const auto executable = executor::make_executable(program, {}, {}, *budgets[0]).value();
    return executor::run_together(*executable, budgets, arguments_).value();
  }
  // Of participant p, as it comes; `limit` bytes above the program's least.
  Status run(collectives::NcclParticipants& group, std::vector<ir::Literal>& results) {
    results.resize(kParticipants);
    const auto statuses =
        group.run_nccl([&](collectives::NcclCommunicator& communicator) -> Status {
          const auto self = static_cast<std::size_t>(communicator.participant());
          auto& gpu = group.gpu(communicator.participant());
          PLIMSOLL_ASSIGN_OR_RETURN(
              const auto program, executor::Program::create(module_->clone(), *gpu.provider(), {}));
          const auto budget = memory::Budget::create(gpu.device, planner::kUnlimited);
          PLIMSOLL_ASSIGN_OR_RETURN(const auto executable,
                                    executor::make_executable(program, {}, {}, *budget));
          executor::RunOptions options;
          options.communicator = &communicator;
          for (int round = 0; round < 2; ++round) {
            PLIMSOLL_ASSIGN_OR_RETURN(
                results[self],
                executor::run_on_host(*executable, *budget, arguments_[self], options));
          }
          return ok_status();
        });
    for (const Status& status : statuses) PLIMSOLL_RETURN_IF_ERROR(status);
    return ok_status();
  }

  std::unique_ptr<ir::Module> module_;
  std::vector<std::vector<ir::Literal>> arguments_;
};

collectives::NcclParticipants::Options options_of(bool keeps_order) {
  return {.keeps_order = keeps_order, .make_kernels = create_emulated_kernels};
}

TEST_F(NcclPrograms, InOrderHaveTheBitsOfParticipantsOfOneProcess) {
  load(kAll);
  const auto expected = on_cpu();
  collectives::NcclParticipants group(kParticipants, options_of(true));
  std::vector<ir::Literal> results;
  const Status status = run(group, results);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::size_t p = 0; p < kParticipants; ++p) {
    EXPECT_EQ(cases::compare_bits(expected[p], results[p]), "") << p;
  }
  EXPECT_GT(group.gpu(0).driver.calls("ncclAllReduce"), 0);
  EXPECT_GT(group.gpu(0).driver.calls("ncclAllGather"), 0);
  EXPECT_EQ(group.gpu(0).driver.calls("ncclReduceScatter"), 0);
}

// What is added in another order is the only difference.
TEST_F(NcclPrograms, WithoutOrderDifferInSumsOfFloatsAlone) {
  load(kAll);
  const auto expected = on_cpu();
  collectives::NcclParticipants group(kParticipants, options_of(false));
  std::vector<ir::Literal> results;
  const Status status = run(group, results);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::size_t p = 0; p < kParticipants; ++p) {
    for (std::size_t i = 0; i < expected[p].elements().size(); ++i) {
      const ir::Literal &wanted = expected[p].elements()[i], &made = results[p].elements()[i];
      const bool is_sum = i == 0 || i == 1 || i == 7 || i == 8;
      if (!is_sum) {
        EXPECT_EQ(cases::compare_bits(wanted, made), "") << p << ", result " << i;
        continue;
      }
      const double bound = i == 1 ? 2e-2 : 1e-6;
      for (std::int64_t k = 0; k < wanted.shape().element_count(); ++k) {
        EXPECT_NEAR(made.at(k), wanted.at(k), bound * (4 + std::abs(wanted.at(k))));
      }
    }
  }
  EXPECT_GT(group.gpu(0).driver.calls("ncclReduceScatter"), 0);
}

TEST_F(NcclPrograms, TradeRowsOfAnyNumber) {
  load(kRagged);
  const auto expected = on_cpu();
  collectives::NcclParticipants group(kParticipants, options_of(false));
  std::vector<ir::Literal> results;
  const Status status = run(group, results);
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (std::size_t p = 0; p < kParticipants; ++p) {
    EXPECT_EQ(cases::compare_bits(expected[p], results[p]), "") << p;
  }
}

}  // namespace
}  // namespace plimsoll::device::cuda
