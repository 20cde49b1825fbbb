// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/op_cases.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

// Runs the entry: kernels where there are any, the interpreter for the rest.
Result<ir::Literal> run_module(const ir::Module& module, std::span<const ir::Literal> arguments,
                               int& kernels_run) {
  std::unordered_map<const ir::Instruction*, ir::Literal> values;
  for (const auto& instruction : module.entry()->instructions()) {
    std::vector<ir::Literal> operands;
    for (const ir::Instruction* operand : instruction->operands())
      operands.push_back(values.at(operand));
    if (instruction->opcode() == ir::Opcode::parameter) {
      values[instruction.get()] =
          arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)];
    } else if (supports(*instruction)) {
      ++kernels_run;
      PLIMSOLL_ASSIGN_OR_RETURN(values[instruction.get()], run_instruction(*instruction, operands));
    } else {
      PLIMSOLL_ASSIGN_OR_RETURN(values[instruction.get()], ir::interpret(*instruction, operands));
    }
  }
  return values.at(module.entry()->root());
}

TEST(Kernels, AgreeWithTheInterpreterOnEveryOpCase) {
  int kernels_run = 0;
  for (const cases::OpCase& c : cases::op_cases()) {
    SCOPED_TRACE(c.name);
    auto module = ir::parse_module(c.hlo, c.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    int here = 0;
    const auto arguments = cases::random_arguments(**module, 17, c.ranges);
    auto got = run_module(**module, arguments, here);
    kernels_run += here;
    if (here == 0) continue;
    auto expected = ir::interpret(**module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    if (!got.ok()) {
      ADD_FAILURE() << got.status().to_string();
      continue;
    }
    EXPECT_EQ(cases::compare(*expected, *got, c.tolerance), "");
  }
  EXPECT_GT(kernels_run, 50);
}

}  // namespace
}  // namespace plimsoll::kernels
