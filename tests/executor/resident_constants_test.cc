// SPDX-License-Identifier: Apache-2.0
// Constants go to the device once and stay there, as long as there is room.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/ir/text/text.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// The constant is used where it cannot be folded.
constexpr std::string_view kProgram = R"(
HloModule constants
ENTRY e {
  c = f32[4] constant({1, 2, 3, 4})
  x = f32[4] parameter(0)
  ROOT r = f32[4] add(c, x)
})";
constexpr std::int64_t kBytes = 16, kBooked = 64;

class ResidentConstants : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ir::parse_module(kProgram, "constants");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    program_ = Program::create(std::move(*module), provider(), false).value();
    budget_ = memory::Budget::create(device_, 4096);
    stream_ = device_->create_stream().value();
    executable_ = make_executable(program_, {}, {}, *budget_).value();
    x_ = budget_->allocate(kBytes, memory::Tag::parameters, "x").value();
    r_ = budget_->allocate(kBytes, memory::Tag::outputs, "r").value();
    const std::vector<float> values(4, 10);
    ASSERT_TRUE(
        stream_->copy(x_.data(), values.data(), kBytes, device::CopyKind::host_to_device).ok());
    ASSERT_TRUE(stream_->synchronize().ok());
  }
  Status run() {
    void* const in[] = {x_.data()};
    void* const out[] = {r_.data()};
    return executable_->run(*stream_, *budget_, Arguments{in, out});
  }
  std::vector<float> result() {
    std::vector<float> values(4);
    EXPECT_TRUE(
        stream_->copy(values.data(), r_.data(), kBytes, device::CopyKind::device_to_host).ok());
    EXPECT_TRUE(stream_->synchronize().ok());
    return values;
  }

  const std::shared_ptr<device::Device> device_ = device::default_device();
  std::shared_ptr<const Program> program_;
  std::shared_ptr<memory::Budget> budget_;
  std::unique_ptr<device::Stream> stream_;
  std::shared_ptr<const Executable> executable_;
  memory::Allocation x_, r_;
};

TEST_F(ResidentConstants, AreCopiedOnceAndBookedInEveryRun) {
  const std::vector<float> expected = {11, 12, 13, 14};
  for (int i = 0; i < 3; ++i) {
    budget_->reset_peak();
    if (i > 0) device_->fail(device::Call::copy, 1);  // there is nothing to copy any more
    const Status status = run();
    device_->fail(device::Call::copy, 0);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(result(), expected);
    const memory::Statistics now = budget_->statistics();
    constexpr auto kConstants = static_cast<std::size_t>(memory::Tag::constants);
    EXPECT_EQ(now.peak_by_tag[kConstants], kBooked);
    EXPECT_EQ(now.used_by_tag[kConstants], 0);
    EXPECT_EQ(now.cached_bytes, kBooked);
  }
}

TEST_F(ResidentConstants, ARunThatFailsLeavesNoneBehind) {
  device_->fail(device::Call::launch, 1);
  EXPECT_FALSE(run().ok());
  EXPECT_EQ(budget_->statistics().cached_bytes, 0);
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(result()[3], 14);
}

TEST_F(ResidentConstants, GiveWayWhenTheRoomIsNeeded) {
  ASSERT_TRUE(run().ok());
  ASSERT_TRUE(budget_->allocate(budget_->available(), memory::Tag::arena, "all").ok());
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(result()[0], 11);
}

TEST_F(ResidentConstants, ServeEveryPlanOfTheProgramAndGoWithIt) {
  ASSERT_TRUE(run().ok());
  executable_ = make_executable(program_, {}, {}, *budget_).value();
  device_->fail(device::Call::copy, 1);
  const Status status = run();
  device_->fail(device::Call::copy, 0);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(budget_->statistics().cached_bytes, kBooked);
  executable_ = nullptr;
  program_ = nullptr;
  EXPECT_EQ(budget_->statistics().cached_bytes, 0);
}

// Eight layers of weights in bytes for two of them: what stays, stays from run to run, and what
// comes has the same bits each time.
TEST(StreamedConstants, GiveTheSameBitsWithinTheLimit) {
  constexpr int kLayers = 8;
  constexpr std::int64_t kRow = 32, kWeightsBytes = kRow * kRow * 4;
  auto module = std::make_unique<ir::Module>("layers");
  ir::Computation* const entry = module->add_computation("e");
  module->set_entry(entry);
  ir::Instruction* h = entry->add_parameter(0, ir::Shape(ir::DType::f32, {4, kRow}));
  for (int layer = 0; layer < kLayers; ++layer) {
    ir::Literal weights(ir::Shape(ir::DType::f32, {kRow, kRow}));
    for (std::int64_t i = 0; i < kRow * kRow; ++i) {
      weights.set(i, static_cast<double>((i * 7 + layer * 13) % 17 - 8) / 32);
    }
    auto d = std::make_shared<ir::DotDimensions>();
    d->lhs_contracting = {1};
    d->rhs_contracting = {0};
    ir::Attributes attributes;
    attributes.dot = std::move(d);
    h = ir::build(*entry, ir::Opcode::dot, {h, entry->add_constant(std::move(weights))},
                  std::move(attributes))
            .value();
  }
  const auto program = Program::create(std::move(module), provider()).value();
  std::vector<ir::Literal> arguments;
  arguments.emplace_back(ir::Shape(ir::DType::f32, {4, kRow}));
  for (std::int64_t i = 0; i < 4 * kRow; ++i) {
    arguments[0].set(i, static_cast<double>(i % 9 - 4) / 4);
  }
  const auto device = device::default_device();
  const auto run_within = [&](std::int64_t limit, int times, std::int64_t* uploads) {
    const auto budget = memory::Budget::create(device, limit);
    const auto executable = make_executable(program, {}, {}, *budget);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    ir::Literal result;
    for (int i = 0; i < times && executable.ok(); ++i) {
      auto made = run_on_host(**executable, *budget, arguments);
      EXPECT_TRUE(made.ok()) << made.status().to_string();
      if (!made.ok()) break;
      EXPECT_TRUE(i == 0 || *made == result) << i;
      result = std::move(*made);
    }
    if (executable.ok()) *uploads = (*executable)->plan().counts.upload;
    EXPECT_LE(budget->statistics().peak_bytes, limit);
    return result;
  };
  std::int64_t uploads = -1;
  const auto expected = run_within(1 << 20, 1, &uploads);
  EXPECT_EQ(uploads, 0);
  const std::int64_t floor = program->floor({}).value().bytes;
  EXPECT_LT(floor, 2 * kWeightsBytes);
  EXPECT_TRUE(run_within(floor, 3, &uploads) == expected);
  EXPECT_EQ(uploads, kLayers);
  EXPECT_TRUE(run_within(5 * kWeightsBytes, 3, &uploads) == expected);
  EXPECT_GT(uploads, 0);
  EXPECT_LT(uploads, kLayers);
}

}  // namespace
}  // namespace plimsoll::executor
