// SPDX-License-Identifier: Apache-2.0
// Weights that lie as their kernel wants them, from the start: the same bits, less workspace.
#include "runtime/program/prepared_constants.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// A convolution of 32 features into 32, whose weights are a parameter or a constant; `read_again`:
// something else reads them, too.
std::unique_ptr<ir::Module> convolution(const ir::Literal* weights, bool read_again = false,
                                        bool reversed = false) {
  std::string text =
      "HloModule m\nENTRY e {\n x = f32[2,12,12,32] parameter(0)\n w = f32[3,3,32,32] ";
  text += weights == nullptr ? "parameter(1)\n" : "constant({...})\n";
  text += " c = f32[2,12,12,32] convolution(x, w), window={size=3x3 pad=1_1x1_1";
  text += reversed ? " rhs_reversal=1x1}" : "}";
  text += ", dim_labels=b01f_01io->b01f\n";
  text += read_again ? " n = f32[3,3,32,32] negate(w)\n"
                       " ROOT r = (f32[2,12,12,32], f32[3,3,32,32]) tuple(c, n)\n}"
                     : " ROOT r = f32[2,12,12,32] negate(c)\n}";
  auto module = ir::parse_module(text, "convolution");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  for (const auto& instruction : (*module)->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::constant) continue;
    instruction->attributes().literal = std::make_shared<const ir::Literal>(*weights);
  }
  return std::move(*module);
}

ir::Literal numbers(const ir::Dims& dims, int seed) {
  ir::Literal literal(ir::Shape(ir::DType::f32, dims));
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    literal.set(i, static_cast<double>((i * 7 + seed) % 31 - 15) / 16);
  }
  return literal;
}

const device::Kernel* convolution_kernel(const Program& program) {
  for (const auto& computation : program.module().computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() == ir::Opcode::convolution) return program.kernel(*instruction);
    }
  }
  return nullptr;
}

TEST(PreparedConstants, GiveTheSameBitsInLessWorkspace) {
  const std::vector<ir::Literal> arguments = {numbers({2, 12, 12, 32}, 1),
                                              numbers({3, 3, 32, 32}, 2)};
  const auto budget = memory::Budget::create(device::default_device(), std::int64_t{64} << 20);
  for (const bool reversed : {false, true}) {
    std::vector<ir::Literal> results;
    std::vector<std::int64_t> workspaces;
    for (const bool constant : {false, true}) {
      const auto program = Program::create(
          convolution(constant ? &arguments[1] : nullptr, false, reversed), provider());
      ASSERT_TRUE(program.ok()) << program.status().to_string();
      const auto executable = make_executable(*program, {}, {}, *budget);
      ASSERT_TRUE(executable.ok()) << executable.status().to_string();
      for (int run = 0; run < 2; ++run) {
        auto result =
            run_on_host(**executable, *budget, std::span(arguments).first(constant ? 1 : 2));
        ASSERT_TRUE(result.ok()) << result.status().to_string();
        results.push_back(std::move(*result));
      }
      const device::Kernel* const kernel = convolution_kernel(**program);
      ASSERT_NE(kernel, nullptr);
      workspaces.push_back(kernel->workspace_bytes());
    }
    for (const ir::Literal& result : results) EXPECT_EQ(result, results.front());
    if (workspaces[0] >= arguments[1].shape().byte_size()) {
      EXPECT_LE(workspaces[1], workspaces[0] - arguments[1].shape().byte_size()) << reversed;
    }
  }
}

TEST(PreparedConstants, LeaveAloneWhatOthersRead) {
  const ir::Literal weights = numbers({3, 3, 32, 32}, 2);
  const auto program = Program::create(convolution(&weights, true), provider());
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  for (const auto& instruction : (*program)->module().entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::constant) continue;
    EXPECT_EQ(*instruction->attributes().literal, weights);
  }
}

}  // namespace
}  // namespace plimsoll::executor
