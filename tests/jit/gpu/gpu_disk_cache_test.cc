// SPDX-License-Identifier: Apache-2.0
// GPU kernels on disk, for later processes.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "jit/gpu/gpu_kernel_text.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

namespace fs = std::filesystem;
using KernelPointer = std::shared_ptr<const GpuKernel>;

// A loop, a row fusion's reduction, a sort of several launches, and two products that differ by an
// attribute alone.
std::vector<std::string> programs() {
  const std::string product =
      "ENTRY e { a = f32[32,32] parameter(0)\n b = f32[32,32] parameter(1)\n ROOT r = f32[32,32] "
      "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims=";
  return {
      "ENTRY e { x = f32[37] parameter(0)\n ROOT y = f32[37] exponential(x) }",
      "s { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\nENTRY e { "
      "x = f32[9,7000] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[9] reduce(x, z), "
      "dimensions={1}, to_apply=s }",
      "c { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT l = pred[] compare(a, b), "
      "direction=LT }\nENTRY e { p = f32[3000] parameter(0)\n ROOT r = f32[3000] sort(p), "
      "dimensions={0}, to_apply=c }",
      product + "{0} }", product + "{1} }"};
}

class GpuDiskCache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GpuCompiler::create({75}).ok()) GTEST_SKIP() << "this LLVM has no NVPTX target";
    std::string name = (fs::temp_directory_path() / "plimsoll-gpu-kernels-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
    folder_ = base_ / "kernels";
  }
  void TearDown() override {
    if (!base_.empty()) fs::remove_all(base_);
  }

  // By a compiler of its own; one kernel a program, then the two of a codec.
  std::vector<KernelPointer> compile_all(int capability = 75,
                                         DiskCacheMode mode = DiskCacheMode::read_write) const {
    auto compiler = GpuCompiler::create({capability}, {mode, folder_.string(), 64 << 20});
    EXPECT_TRUE(compiler.ok()) << compiler.status().to_string();
    std::vector<KernelPointer> kernels;
    for (const std::string& text : programs()) {
      const auto kernel = (*compiler)->compile(*parse(text)->entry()->root());
      EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
      kernels.push_back(*kernel);
    }
    const auto codec = (*compiler)->codec({.kind = ir::CodecKind::int4, .seed = 3},
                                          ir::Shape(ir::DType::f32, {100}));
    EXPECT_TRUE(codec.ok()) << codec.status().to_string();
    kernels.push_back(codec->encode);
    kernels.push_back(codec->decode);
    return kernels;
  }

  static std::int64_t loaded(const std::vector<KernelPointer>& kernels) {
    return std::count_if(kernels.begin(), kernels.end(),
                         [](const KernelPointer& kernel) { return kernel->from_disk; });
  }
  // But for where they come from.
  static void expect_equal(const std::vector<KernelPointer>& a,
                           const std::vector<KernelPointer>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(write_gpu_kernel(*a[i]), write_gpu_kernel(*b[i])) << a[i]->name;
    }
  }

  std::vector<fs::path> entries() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".kernel") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  fs::path base_, folder_;
};

constexpr std::int64_t kKernels = 7;

TEST_F(GpuDiskCache, ALaterCompilerLoadsWhatAnEarlierOneMade) {
  const auto made = compile_all();
  EXPECT_EQ(loaded(made), 0);
  const auto again = compile_all();
  EXPECT_EQ(loaded(again), kKernels);
  expect_equal(made, again);
  EXPECT_GT(made[2]->launches.size(), 2u);
  EXPECT_NE(made[3]->ptx, made[4]->ptx);
  EXPECT_EQ(loaded(compile_all(75, DiskCacheMode::off)), 0);
}

TEST_F(GpuDiskCache, EachComputeCapabilityHasKernelsOfItsOwn) {
  const auto old = compile_all(75);
  const auto made = compile_all(80);
  EXPECT_EQ(loaded(made), 0);
  EXPECT_NE(made[0]->ptx, old[0]->ptx);
  EXPECT_EQ(entries().size(), std::size_t{2 * kKernels});
  expect_equal(compile_all(80), made);
  expect_equal(compile_all(75), old);
}

TEST_F(GpuDiskCache, WhatIsDamagedIsMadeAgain) {
  const auto made = compile_all();
  for (const double place : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    for (const fs::path& file : entries()) {
      std::string bytes = read(file);
      char& byte = bytes[static_cast<std::size_t>(place * static_cast<double>(bytes.size() - 1))];
      byte = static_cast<char>(byte ^ 4);
      std::ofstream(file, std::ios::binary) << bytes;
    }
    const auto again = compile_all();
    EXPECT_EQ(loaded(again), 0) << place;
    expect_equal(made, again);
    EXPECT_EQ(loaded(compile_all()), kKernels) << place;
  }
  for (const fs::path& file : entries()) fs::resize_file(file, fs::file_size(file) / 2);
  expect_equal(made, compile_all());
  EXPECT_EQ(disk_cache_contents(folder_.string())->counters.damaged, 6 * kKernels);
}

TEST_F(GpuDiskCache, CompilersThatRaceForOneFolderAllSucceed) {
  const auto made = compile_all(80, DiskCacheMode::off);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { expect_equal(compile_all(80), made); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(loaded(compile_all(80)), kKernels);
  EXPECT_EQ(disk_cache_contents(folder_.string())->counters.damaged, 0);
}

TEST(GpuKernelText, OfAnotherLengthIsNoKernel) {
  GpuKernel kernel;
  kernel.name = "two";
  kernel.ptx = "text";
  kernel.inputs = 2;
  kernel.outputs = 1;
  kernel.workspace_bytes = 48;
  kernel.is_library = true;
  kernel.launches = {{"kernel_0", 3, 256, 0, {0, 1, 2}, 0, 0}, {"kernel_1", 1, 32, 64, {2, 3}}};
  const std::string text = write_gpu_kernel(kernel);
  const auto back = read_gpu_kernel(text);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(back->from_disk);
  EXPECT_EQ(write_gpu_kernel(*back), text);
  EXPECT_TRUE(back->is_library);
  EXPECT_EQ(back->launches[0].arguments, kernel.launches[0].arguments);
  EXPECT_EQ(back->launches[0].unless_output, 0);
  EXPECT_EQ(back->launches[1].shared_bytes, 64u);
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(read_gpu_kernel(text.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(read_gpu_kernel(text + '\0').has_value());
}

}  // namespace
}  // namespace plimsoll::jit::testing
