// SPDX-License-Identifier: Apache-2.0
// Pieces of one kernel's result, and units of the kernel that reads it.
#include "runtime/device/cpu/chained_launch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/device/kernel_provider.h"

namespace plimsoll::device {
namespace {

// to[i] = 2 from[i], in pieces.
class Doubles final : public Kernel, public ResultPieces {
 public:
  explicit Doubles(std::vector<std::int64_t> ends, std::int64_t failing = -1)
      : ends_(std::move(ends)), failing_(failing) {}
  Status launch(Stream&, const KernelArguments&) const override { return ok_status(); }
  KernelOrigin origin() const override { return KernelOrigin::own; }
  const std::string& name() const override { return name_; }
  std::span<const std::int64_t> piece_ends() const override { return ends_; }
  Status begin(const KernelArguments&) const override {
    has_begun = true;
    return ok_status();
  }
  Status run_piece(const KernelArguments& arguments, std::int64_t piece) const override {
    EXPECT_TRUE(has_begun);
    if (piece == failing_) return unavailable("a piece that fails");
    const auto* const from = static_cast<const float*>(arguments.inputs[0]);
    auto* const to = static_cast<float*>(arguments.outputs[0]);
    const auto i = static_cast<std::size_t>(piece);
    for (std::int64_t j = i == 0 ? 0 : ends_[i - 1]; j < ends_[i]; ++j) to[j] = 2 * from[j];
    return ok_status();
  }

  mutable std::atomic<bool> has_begun{false};

 private:
  std::string name_ = "doubles";
  std::vector<std::int64_t> ends_;
  std::int64_t failing_;
};

constexpr std::int64_t kElements = 1000, kRun = 32;

// outputs[0][i] += inputs[1][i], so that a unit that runs twice shows.
void add_units(const void* const* inputs, void* const* outputs, void*, std::int64_t begin,
               std::int64_t end) {
  const auto* const from = static_cast<const float*>(inputs[1]);
  auto* const to = static_cast<float*>(outputs[0]);
  for (std::int64_t i = begin * kRun; i < std::min(end * kRun, kElements); ++i) to[i] += from[i];
}

class Adds final : public PhasedKernel {
 public:
  explicit Adds(std::uint64_t own_inputs, std::int64_t cut = 1) {
    phase_.run = add_units;
    phase_.units = (kElements + kRun - 1) / kRun;
    phase_.cut = cut;
    phase_.unit_seconds = 1e-6;
    phase_.run_elements = kRun;
    phase_.own_inputs = own_inputs;
  }
  Status launch(Stream&, const KernelArguments&) const override { return ok_status(); }
  KernelOrigin origin() const override { return KernelOrigin::jit; }
  const std::string& name() const override { return name_; }
  std::span<const KernelPhase> phases() const override { return {&phase_, 1}; }
  std::span<const void* const> tables() const override { return {}; }
  std::size_t input_count() const override { return 2; }
  std::size_t output_count() const override { return 1; }

 private:
  std::string name_ = "adds";
  KernelPhase phase_;
};

TEST(ChainedLaunch, RunsEveryUnitOnceAfterThePiecesThatItReads) {
  auto stream = default_device()->create_stream();
  ASSERT_TRUE(stream.ok());
  std::vector<float> from(kElements);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  // Pieces that end where units do, and elsewhere; shorter than a unit; one alone.
  const std::vector<std::vector<std::int64_t>> cuts = {
      {1000}, {320, 640, 1000}, {100, 101, 102, 500, 999, 1000}, {31, 33, 1000}, {990, 1000}};
  for (const auto& ends : cuts) {
    for (const std::int64_t cut : {1, 4}) {
      const Doubles doubles(ends);
      const Adds adds(2, cut);
      const auto chain = CpuChainedLaunch::create(doubles, 1, adds, 1);
      ASSERT_NE(chain, nullptr);
      std::vector<float> made(kElements), sums(kElements, 1);
      const std::array<const void*, 3> inputs = {from.data(), nullptr, made.data()};
      const std::array<void*, 2> outputs = {made.data(), sums.data()};
      const std::array<void*, 2> workspaces = {};
      const Status status = chain->launch(**stream, inputs, outputs, workspaces);
      ASSERT_TRUE(status.ok()) << status.to_string();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        ASSERT_EQ(sums[i], 1 + 2 * from[i]) << i << " of " << ends.size() << " pieces";
      }
    }
  }
}

TEST(ChainedLaunch, APieceThatFailsIsTheError) {
  auto stream = default_device()->create_stream();
  ASSERT_TRUE(stream.ok());
  const Doubles doubles({500, 1000}, 1);
  const Adds adds(2);
  const auto chain = CpuChainedLaunch::create(doubles, 1, adds, 1);
  ASSERT_NE(chain, nullptr);
  std::vector<float> from(kElements), made(kElements), sums(kElements);
  const std::array<const void*, 3> inputs = {from.data(), nullptr, made.data()};
  const std::array<void*, 2> outputs = {made.data(), sums.data()};
  const std::array<void*, 2> workspaces = {};
  const Status status = chain->launch(**stream, inputs, outputs, workspaces);
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_EQ(chain->launch(**stream, std::span(inputs).first(2), outputs, workspaces).code(),
            StatusCode::internal);
}

TEST(ChainedLaunch, TakesOnlyWhatReadsTheSamePositions) {
  const Doubles whole({}), pieces({1000});
  const Adds adds(2), others(1);
  EXPECT_EQ(CpuChainedLaunch::create(whole, 1, adds, 1), nullptr);
  EXPECT_EQ(CpuChainedLaunch::create(pieces, 1, others, 1), nullptr);
  EXPECT_NE(CpuChainedLaunch::create(pieces, 1, others, 0), nullptr);
}

}  // namespace
}  // namespace plimsoll::device
