// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/op_cases.h"

#include <algorithm>
#include <map>
#include <string>

#include "jit/graph/graph.h"
#include "jit/keys/canonical.h"
#include "jit/keys/structural_key.h"
#include "tests/cases/compare.h"
#include "tests/cases/fused_entry.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

// Every supported instruction of `module`'s entry on the interpreter's values of its operands.
int check_instructions(const ir::Module& module, const std::vector<ir::Literal>& arguments,
                       double tolerance) {
  int checked = 0;
  std::unordered_map<const ir::Instruction*, ir::Literal> values;
  for (const auto& instruction : module.entry()->instructions()) {
    std::vector<ir::Literal> operands;
    for (const ir::Instruction* operand : instruction->operands()) {
      operands.push_back(values.at(operand));
    }
    if (instruction->opcode() == ir::Opcode::parameter) {
      values.emplace(
          instruction.get(),
          arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)]);
      continue;
    }
    auto expected = ir::interpret(*instruction, operands);
    EXPECT_TRUE(expected.ok()) << expected.status().to_string();
    if (!expected.ok()) return checked;
    if (compiler().supports(*instruction)) {
      ++checked;
      auto results = run(*instruction, operands);
      EXPECT_TRUE(results.ok()) << results.status().to_string();
      const auto leaves = flatten(*expected);
      for (std::size_t i = 0; results.ok() && i < leaves.size(); ++i) {
        EXPECT_EQ(cases::compare(leaves[i], (*results)[i], tolerance), "") << instruction->name();
      }
    }
    values.emplace(instruction.get(), std::move(*expected));
  }
  return checked;
}

// Products err relative to themselves at every step, and the two orders of elements err apart; the
// interpreter also rounds 16-bit ones at every step, the compiler once.
double tolerance_of(const cases::OpCase& c) {
  if (c.tolerance == 0 || !c.name.starts_with("reduce.multiply")) return c.tolerance;
  return c.name.ends_with("f16") ? 0.1 : 8 * c.tolerance;
}

TEST(OpCases, EverySupportedInstructionMatchesTheInterpreter) {
  int checked = 0;
  for (const cases::OpCase& c : cases::op_cases()) {
    SCOPED_TRACE(c.name);
    const auto module = parse(c.hlo);
    if (module == nullptr) continue;
    checked +=
        check_instructions(*module, cases::random_arguments(*module, 7, c.ranges), tolerance_of(c));
  }
  EXPECT_GT(checked, 200);
}

TEST(OpCases, FusedEntriesMatchTheInterpreter) {
  int checked = 0;
  for (const cases::OpCase& c : cases::op_cases()) {
    SCOPED_TRACE(c.name);
    const auto module = parse(c.hlo);
    if (module == nullptr) continue;
    const auto fusion = cases::fused_entry(*module);
    if (fusion == nullptr || !compiler().supports(*fusion->entry()->root())) continue;
    ++checked;
    const auto arguments = cases::random_arguments(*module, 11, c.ranges);
    auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    auto results = run(*fusion->entry()->root(), arguments);
    ASSERT_TRUE(results.ok()) << results.status().to_string();
    const auto leaves = flatten(*expected);
    ASSERT_EQ(leaves.size(), results->size());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_EQ(cases::compare(leaves[i], (*results)[i], tolerance_of(c)), "");
    }
  }
  EXPECT_GT(checked, 200);
}

TEST(OpCases, EqualStructuralKeysMeanEqualKernels) {
  std::map<std::string, std::string> kernels;  // canonical text by structural key
  const auto check = [&](const ir::Instruction& instruction) {
    const auto key = structural_key(instruction);
    const auto graph = KernelGraph::create(instruction);
    if (!key || !graph.ok()) return;
    const auto [it, is_new] = kernels.emplace(*key, canonical_text(*graph));
    EXPECT_TRUE(is_new || it->second == canonical_text(*graph)) << instruction.name();
  };
  for (const cases::OpCase& c : cases::op_cases()) {
    for (const std::int64_t extent : {0, 17, 70000}) {
      const std::string text = extent == 0 ? c.hlo : cases::resized(c, extent);
      if (text.empty()) continue;
      SCOPED_TRACE(c.name);
      const auto module = parse(text);
      if (module == nullptr) continue;
      for (const auto& instruction : module->entry()->instructions()) {
        check(*instruction);
      }
      if (const auto fusion = cases::fused_entry(*module)) check(*fusion->entry()->root());
    }
  }
  EXPECT_GT(kernels.size(), 500u);
}

TEST(OpCases, SupportsWhatTheTableCallsElementwiseMovementAndReduce) {
  for (const cases::OpCase& c : cases::op_cases()) {
    const auto module = parse(c.hlo);
    if (module == nullptr) continue;
    for (const auto& instruction : module->entry()->instructions()) {
      const auto op_class = ir::op_info(instruction->opcode()).op_class;
      using ir::OpClass;
      if (op_class == OpClass::unary || op_class == OpClass::binary ||
          op_class == OpClass::ternary || op_class == OpClass::movement ||
          instruction->opcode() == ir::Opcode::reduce) {
        EXPECT_TRUE(kernel_text(*instruction, 64).ok()) << c.name << ": " << instruction->name();
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
