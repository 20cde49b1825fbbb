// SPDX-License-Identifier: Apache-2.0
// Every op case that the JIT takes, as a GPU's kernel: the CPU's bits.
#include <gtest/gtest.h>

#include <unordered_map>

#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/cases/fused_entry.h"
#include "tests/cases/op_cases.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

constexpr int kGpuShards = 4;

// The instructions of the entry one by one, on the interpreter's values.
void check_instructions(const ir::Module& module, const std::vector<ir::Literal>& arguments,
                        GpuCheck& totals) {
  std::unordered_map<const ir::Instruction*, ir::Literal> values;
  for (const auto& instruction : module.entry()->instructions()) {
    if (instruction->opcode() == ir::Opcode::parameter) {
      values.emplace(
          instruction.get(),
          arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)]);
      continue;
    }
    std::vector<ir::Literal> operands;
    for (const ir::Instruction* operand : instruction->operands()) {
      operands.push_back(values.at(operand));
    }
    if (compiler().supports(*instruction)) {
      EXPECT_EQ(check_on_gpu(*instruction, operands, totals), "") << instruction->name();
    }
    auto value = ir::interpret(*instruction, operands);
    ASSERT_TRUE(value.ok()) << value.status().to_string();
    values.emplace(instruction.get(), std::move(*value));
  }
}

class GpuOpCases : public ::testing::TestWithParam<int> {};

// As one fusion, on numbers of which some are special; what is no fusion by its instructions.
TEST_P(GpuOpCases, HaveTheBitsOfTheCpu) {
  GpuCheck totals;
  const auto& table = cases::op_cases();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < table.size(); i += kGpuShards) {
    const cases::OpCase& c = table[i];
    SCOPED_TRACE(c.name);
    const auto module = parse(c.hlo);
    if (module == nullptr) continue;
    std::vector<cases::InputRange> ranges = c.ranges;
    ranges.resize(module->entry()->parameters().size());
    for (cases::InputRange& range : ranges) range.specials = true;
    const auto fusion = cases::fused_entry(*module);
    if (fusion != nullptr && compiler().supports(*fusion->entry()->root())) {
      EXPECT_EQ(check_root_on_gpu(*fusion, cases::random_arguments(*module, 11, ranges), totals),
                "");
    } else {
      check_instructions(*module, cases::random_arguments(*module, 7, c.ranges), totals);
    }
  }
  EXPECT_GT(totals.kernels, 50);
  EXPECT_GT(totals.in_place, 10);
  EXPECT_GT(totals.newer, 10);
}

INSTANTIATE_TEST_SUITE_P(Shards, GpuOpCases, ::testing::Range(0, kGpuShards));

}  // namespace
}  // namespace plimsoll::jit::testing
