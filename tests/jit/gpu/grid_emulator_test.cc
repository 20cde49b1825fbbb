// SPDX-License-Identifier: Apache-2.0
// What the emulator finds in kernels that are wrong, and that it does as a GPU does.
#include "tests/jit/gpu/grid_emulator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

constexpr const char* kDeclarations =
    "@shared = internal addrspace(3) global [64 x i32] undef\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "declare void @llvm.nvvm.barrier0()\n"
    "declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)\n"
    "declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32)\n"
    "declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))\n"
    "declare void @llvm.nvvm.cp.async.commit.group()\n"
    "declare void @llvm.nvvm.cp.async.wait.group(i32)\n"
    "declare {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32, i32, i32, i32, "
    "i32, i32, float, float, float, float)\n";

constexpr std::uint32_t kThreads = 64;
using Words = std::array<std::uint32_t, kThreads>;

// An entry `k(ptr out)` of one block of 64 threads; `body` ends with what it returns: the i32 that
// thread %t stores in its place.
Result<Words> run_block(const std::string& body, ThreadOrder order) {
  const std::string text =
      std::string(kDeclarations) +
      "define void @k(ptr %out) {\nentry:\n"
      "  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
      "  %mine = getelementptr [64 x i32], ptr addrspace(3) @shared, i32 0, i32 %t\n"
      "  %place = getelementptr i32, ptr %out, i32 %t\n" +
      body + "  store i32 %result, ptr %place\n  ret void\n}\n";
  GpuLaunch launch;
  launch.entry = "k";
  launch.block = kThreads;
  launch.arguments = {0};
  PLIMSOLL_ASSIGN_OR_RETURN(const auto kernel, EmulatedKernel::of_text(text, {launch}));
  alignas(kGpuAlignment) Words words{};
  void* const out = words.data();
  PLIMSOLL_RETURN_IF_ERROR(kernel->launch("k", 1, kThreads, std::span(&out, 1), order));
  return words;
}

constexpr ThreadOrder kForward{ThreadOrder::Kind::forward, 0};
constexpr ThreadOrder kBackward{ThreadOrder::Kind::backward, 0};

const std::string kNeighbour =
    "  store i32 %t, ptr addrspace(3) %mine\n"
    "  BARRIER\n"
    "  %next = add i32 %t, 1\n  %wrapped = and i32 %next, 63\n"
    "  %other = getelementptr [64 x i32], ptr addrspace(3) @shared, i32 0, i32 %wrapped\n"
    "  %result = load i32, ptr addrspace(3) %other\n";

std::string neighbour(const std::string& between) {
  std::string text = kNeighbour;
  return text.replace(text.find("BARRIER"), 7, between);
}

TEST(GridEmulator, PassesSharedMemoryOnAtABarrier) {
  for (const ThreadOrder order :
       {kForward, kBackward, ThreadOrder{ThreadOrder::Kind::shuffled, 3}}) {
    const auto words = run_block(neighbour("call void @llvm.nvvm.barrier0()"), order);
    ASSERT_TRUE(words.ok()) << words.status().to_string();
    for (std::uint32_t t = 0; t < kThreads; ++t) EXPECT_EQ((*words)[t], (t + 1) % kThreads);
  }
}

TEST(GridEmulator, ShowsAMissingBarrierByTheOrderOfThreads) {
  // Another wait keeps the threads fibers.
  const std::string other = "call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 0, i32 0, i32 31)";
  const auto forward = run_block(other + "\n" + neighbour(""), kForward);
  const auto backward = run_block(other + "\n" + neighbour(""), kBackward);
  ASSERT_TRUE(forward.ok()) << forward.status().to_string();
  ASSERT_TRUE(backward.ok()) << backward.status().to_string();
  EXPECT_NE(*forward, *backward);
}

TEST(GridEmulator, RefusesABarrierThatSomeThreadsPass) {
  const auto words = run_block(
      "  %few = icmp ult i32 %t, 40\n  br i1 %few, label %yes, label %no\nyes:\n"
      "  call void @llvm.nvvm.barrier0()\n  br label %no\nno:\n  %result = add i32 %t, 0\n",
      kForward);
  ASSERT_FALSE(words.ok());
  EXPECT_NE(words.status().message().find("not all threads of the block came to a barrier"),
            std::string::npos)
      << words.status().message();
}

TEST(GridEmulator, RefusesAnExchangeThatSomeThreadsPass) {
  const auto words = run_block(
      "  %few = icmp ult i32 %t, 40\n  br i1 %few, label %yes, label %no\nyes:\n"
      "  %x = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %t, i32 1, i32 31)\n"
      "  br label %no\nno:\n  %result = add i32 %t, 0\n",
      kForward);
  ASSERT_FALSE(words.ok());
  EXPECT_NE(words.status().message().find("not all threads of a warp came to an exchange"),
            std::string::npos)
      << words.status().message();
}

TEST(GridEmulator, ExchangesRegistersWithinGroups) {
  // Groups of eight: ((32 - 8) << 8) | 31.
  const auto above = run_block(
      "  %result = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %t, i32 3, i32 6175)\n",
      kBackward);
  const auto first = run_block(
      "  %result = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %t, i32 2, i32 6175)\n",
      kForward);
  ASSERT_TRUE(above.ok()) << above.status().to_string();
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    EXPECT_EQ((*above)[t], t % 8 + 3 < 8 ? t + 3 : t);
    EXPECT_EQ((*first)[t], t / 8 * 8 + 2);
  }
}

// Numbers of rows by numbers of columns: a thread has sums of its row, and of the eighth below.
TEST(GridEmulator, MultipliesMatricesThatAWarpHas) {
  const std::string pairs =
      "  %lane = and i32 %t, 31\n  %low = lshr i32 %lane, 2\n  %high = add i32 %low, 8\n"
      "  %x = uitofp i32 %low to float\n  %y = uitofp i32 %high to float\n"
      "  %i = bitcast float %x to i32\n  %j = bitcast float %y to i32\n"
      "  %k = lshr i32 %i, 16\n  %l = lshr i32 %j, 16\n"
      "  %a = or i32 %i, %k\n  %b = or i32 %j, %l\n"
      "  %all = call {float, float, float, float} @llvm.nvvm.mma.m16n8k16.row.col.bf16(i32 %a, i32 "
      "%b, i32 %a, i32 %b, i32 %a, i32 %a, float 1.0, float 1.0, float 1.0, float 1.0)\n";
  for (const std::uint32_t which : {0U, 1U, 2U, 3U}) {
    const auto words =
        run_block(pairs + "  %own = extractvalue {float, float, float, float} %all, " +
                      std::to_string(which) + "\n  %result = fptoui float %own to i32\n",
                  kBackward);
    ASSERT_TRUE(words.ok()) << words.status().to_string();
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      const std::uint32_t row = t % 32 / 4 + which / 2 * 8, column = t % 4 * 2 + which % 2;
      EXPECT_EQ((*words)[t], 16 * row * column + 1) << which << " " << t;
    }
  }
}

// Four words of the argument, which holds zeros, into shared memory.
const std::string kCopied =
    "  %aligned = and i32 %t, 60\n"
    "  %to = getelementptr [64 x i32], ptr addrspace(3) @shared, i32 0, i32 %aligned\n"
    "  %from = getelementptr i32, ptr %out, i32 %aligned\n"
    "  %global = addrspacecast ptr %from to ptr addrspace(1)\n"
    "  store i32 7, ptr addrspace(3) %mine\n  call void @llvm.nvvm.barrier0()\n"
    "  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %to, ptr addrspace(1) "
    "%global)\n  call void @llvm.nvvm.cp.async.commit.group()\n";

TEST(GridEmulator, CopiesAreDoneWhenTheyAreWaitedFor) {
  const std::string load = "  %result = load i32, ptr addrspace(3) %mine\n";
  const std::string wait =
      "  call void @llvm.nvvm.cp.async.wait.group(i32 0)\n  call void @llvm.nvvm.barrier0()\n";
  const auto late = run_block(kCopied + load + wait, kForward);
  const auto done = run_block(kCopied + wait + load, kForward);
  ASSERT_TRUE(late.ok()) << late.status().to_string();
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  // The first of four threads that copy the same: the others come after it has waited.
  EXPECT_EQ((*late)[4], 7U);
  EXPECT_EQ((*done)[4], 0U);
  const auto never = run_block(kCopied + load, kForward);
  ASSERT_FALSE(never.ok());
  EXPECT_NE(never.status().message().find("was never waited for"), std::string::npos);
}

TEST(GridEmulator, MakesTheNanOfAGpu) {
  const auto words = run_block(
      "  %a = fsub float 0x7FF0000000000000, 0x7FF0000000000000\n"
      "  %x = uitofp i32 %t to float\n  %y = fdiv float %x, 0.0\n  %z = fmul float %y, 0.0\n"
      "  %result = bitcast float %z to i32\n",
      kForward);
  ASSERT_TRUE(words.ok()) << words.status().to_string();
  EXPECT_EQ((*words)[5], 0x7fffffffu);
}

TEST(GridEmulator, RefusesAPointerThatIsNotAligned) {
  GpuLaunch launch;
  launch.entry = "k";
  const auto kernel =
      EmulatedKernel::of_text("define void @k(ptr %out) {\n  ret void\n}\n", {launch});
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  alignas(kGpuAlignment) std::array<std::byte, 64> memory{};
  void* const out = memory.data() + 4;
  EXPECT_EQ((*kernel)->launch("k", 1, 32, std::span(&out, 1), kForward).code(),
            StatusCode::invalid_argument);
}

TEST(GridEmulator, NamesAnIntrinsicThatItDoesNotHave) {
  const auto kernel = EmulatedKernel::of_text(
      "declare i32 @llvm.nvvm.read.ptx.sreg.clock()\ndefine void @k() {\n  %x = call i32 "
      "@llvm.nvvm.read.ptx.sreg.clock()\n  ret void\n}\n",
      {});
  EXPECT_EQ(kernel.status().code(), StatusCode::unimplemented);
  EXPECT_NE(kernel.status().message().find("clock"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::jit::testing
