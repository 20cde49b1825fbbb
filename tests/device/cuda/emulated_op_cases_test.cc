// SPDX-License-Identifier: Apache-2.0
// Op cases as programs on an emulated GPU, after all passes: the CPU's bits, or close where there
// are sums of products, or an operation that has no kernel, by name. Every one that is no fusion,
// and some of those that are, whose kernels tests/jit/gpu/gpu_op_case_test.cc runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/fused_entry.h"
#include "tests/cases/op_cases.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

constexpr int kCaseShards = 4;
// One in so many of the cases that are fusions.
constexpr std::size_t kFusions = 8;

bool has(const ir::Module& module, std::initializer_list<ir::Opcode> opcodes) {
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (std::find(opcodes.begin(), opcodes.end(), instruction->opcode()) != opcodes.end()) {
        return true;
      }
    }
  }
  return false;
}

class EmulatedOpCases : public ::testing::TestWithParam<int> {};

TEST_P(EmulatedOpCases, HaveTheBitsOfTheCpuOrANamedReason) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
  if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
    GTEST_SKIP() << compiler.status().message();
  }
  const auto cpu = backend::create_kernels(cpu_device()).value();
  RecordingOptions options;
  options.module_bytes = 0;
  RecordedGpu gpu(options, 0, create_emulated_kernels);
  std::map<std::string, std::set<std::string>> refused;  // cases by operation
  int exact = 0, close = 0;
  const auto& table = cases::op_cases();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < table.size(); i += kCaseShards) {
    const cases::OpCase& c = table[i];
    SCOPED_TRACE(c.name);
    const auto module = ir::parse_module(c.hlo, c.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    if (i / kCaseShards % kFusions != 0 && cases::fused_entry(**module) != nullptr) continue;
    const auto arguments = cases::random_arguments(**module, 7, c.ranges);
    std::string error;
    const ir::Literal expected = testing::run_unlimited(**module, arguments, *cpu, true, error);
    ASSERT_EQ(error, "") << "on the CPU";
    const ir::Literal result =
        testing::run_unlimited(**module, arguments, *gpu.provider(), true, error);
    constexpr std::string_view kRefused = "no kernel for '";
    if (const std::size_t at = error.find(kRefused); at != std::string::npos) {
      const std::size_t begin = at + kRefused.size();
      refused[error.substr(begin, error.find('\'', begin) - begin)].insert(c.name);
      continue;
    }
    EXPECT_EQ(error, "");
    if (!error.empty()) continue;
    using enum ir::Opcode;
    if (has(**module, {dot, convolution})) {
      ++close;
      EXPECT_EQ(cases::compare_close(expected, result, std::max(c.tolerance, 1e-6), 1), "");
    } else {
      ++exact;
      EXPECT_EQ(cases::compare_bits(expected, result), "");
    }
  }
  EXPECT_GT(exact, 40);
  EXPECT_GT(close, 2);
  // Collectives, those of one participant too (docs/gpu.md).
  const std::set<std::string> known = {
      "all-gather",           "all-gather-start",   "all-reduce",
      "all-reduce-start",     "all-to-all",         "async-start",
      "collective-broadcast", "collective-permute", "collective-permute-start",
      "copy-start",           "partition-id",       "ragged-all-to-all",
      "reduce-scatter",       "replica-id"};
  for (const auto& [operation, names] : refused) {
    EXPECT_TRUE(known.contains(operation)) << operation << ", e.g. " << *names.begin();
  }
  EXPECT_EQ(gpu.close(), "");
}

INSTANTIATE_TEST_SUITE_P(Shards, EmulatedOpCases, ::testing::Range(0, kCaseShards));

}  // namespace
}  // namespace plimsoll::device::cuda
