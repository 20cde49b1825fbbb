// SPDX-License-Identifier: Apache-2.0
// GPU kernels of what the JIT does not fuse, against the library's kernels for the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "jit/gpu/gpu_code.h"
#include "kernels/kernels.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

bool is_contraction(const ir::Instruction& instruction) {
  return instruction.opcode() == ir::Opcode::dot || instruction.opcode() == ir::Opcode::convolution;
}

// Sums of products in another order than the CPU's: within `tolerance`; everything else bit for
// bit.
std::string check_library(const ir::Instruction& instruction,
                          const std::vector<ir::Literal>& operands, double tolerance,
                          GpuCheck& totals) {
  const auto kernel = kernels::make_kernel(instruction);
  if (!kernel.ok()) return "on the CPU: " + kernel.status().to_string();
  const auto expected = run_on_cpu(**kernel, instruction, operands);
  if (!expected.ok()) return "on the CPU: " + expected.status().to_string();
  return check_on_gpu(instruction, operands, totals, [&](const std::vector<ir::Literal>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::string message =
          tolerance > 0 ? cases::compare_close((*expected)[i], results[i], tolerance, 1)
                        : cases::compare_bits((*expected)[i], results[i]);
      if (!message.empty()) return "result " + std::to_string(i) + ": " + message;
    }
    return std::string();
  });
}

double tolerance_for(const ir::Instruction& instruction) {
  const ir::DType dtype = ir::leaves(instruction.shape())[0]->dtype();
  if (!is_contraction(instruction) || !ir::is_floating(dtype)) return 0;
  return dtype == ir::DType::f64 ? 1e-13 : dtype == ir::DType::f32 ? 1e-5 : 1e-2;
}

TEST(GpuLibrary, OpCasesHaveTheBitsOfTheCpuButForSumsOfProducts) {
  GpuCheck totals;
  std::map<ir::Opcode, int> checked;
  std::set<std::string> refused;
  for (const cases::OpCase& c : cases::op_cases()) {
    SCOPED_TRACE(c.name);
    const auto module = parse(c.hlo);
    if (module == nullptr) continue;
    const auto arguments = cases::random_arguments(*module, 7, c.ranges);
    std::unordered_map<const ir::Instruction*, ir::Literal> values;
    for (const auto& instruction : module->entry()->instructions()) {
      std::vector<ir::Literal> operands;
      bool known = true;
      for (const ir::Instruction* operand : instruction->operands()) {
        known = known && values.contains(operand);
        if (known) operands.push_back(values.at(operand));
      }
      if (!known) continue;
      if (instruction->opcode() == ir::Opcode::parameter) {
        values.emplace(
            instruction.get(),
            arguments[static_cast<std::size_t>(instruction->attributes().parameter_number)]);
        continue;
      }
      if (is_gpu_library_kernel(*instruction)) {
        const std::string message =
            check_library(*instruction, operands, tolerance_for(*instruction), totals);
        if (message.find("UNIMPLEMENTED") == std::string::npos) {
          EXPECT_EQ(message, "") << instruction->name();
          ++checked[instruction->opcode()];
        } else {
          refused.insert(c.name + ": " + message);
        }
      }
      auto value = ir::interpret(*instruction, operands);
      if (value.ok()) values.emplace(instruction.get(), std::move(*value));
    }
  }
  for (const ir::Opcode opcode :
       {ir::Opcode::dot, ir::Opcode::convolution, ir::Opcode::scatter, ir::Opcode::reduce_window,
        ir::Opcode::select_and_scatter, ir::Opcode::rng_bit_generator, ir::Opcode::sort}) {
    EXPECT_GT(checked[opcode], 2) << ir::to_string(opcode);
  }
  for (const std::string& message : refused) {
    EXPECT_NE(message.find("truth values"), std::string::npos) << message;
  }
}

// Places that are updated several times, in the order of the updates: windows of one element, of
// some that share a block, of more than a block has threads, and of several dimensions; updates
// that end within a block's turn, and operands smaller than there are blocks.
TEST(GpuScatter, TakesUpdatesInTheirOrder) {
  GpuCheck totals;
  const std::string rows =
      "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}";
  struct Case {
    std::string operand, updates, numbers;
    int count;
  };
  for (const auto& [operand, updates, numbers, count] : std::vector<Case>{
           {"70,33", "33", rows, 400},
           {"90,700", "700", rows, 300},
           {"2,256", "256", rows, 256},
           {"60", "",
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
            1000},
           {"5000", "",
            "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
            257},
           {"80,3,5", "3,5",
            "update_window_dims={1,2}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}",
            513},
       }) {
    SCOPED_TRACE(operand);
    const std::string n = std::to_string(count), u = n + (updates.empty() ? "" : "," + updates);
    const auto module = parse(
        "s { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\nENTRY e "
        "{ p = f32[" +
        operand + "] parameter(0)\n i = s32[" + n + ",1] parameter(1)\n u = f32[" + u +
        "] parameter(2)\n ROOT r = f32[" + operand + "] scatter(p, i, u), " + numbers +
        ", index_vector_dim=1, to_apply=s }");
    ASSERT_NE(module, nullptr);
    // Indices from -100 to 99: many are outside.
    EXPECT_EQ(check_library(*module->entry()->root(), arguments_for(*module->entry()), 0, totals),
              "");
  }
  EXPECT_EQ(totals.in_place, 6);
}

TEST(GpuWindows, PoolAndGiveBack) {
  GpuCheck totals;
  const std::string add =
      "s { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] "
      "add(x, y) }\n";
  const std::string ge =
      "g { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = pred[] "
      "compare(x, y), direction=GE }\n";
  for (const char* text :
       {"ENTRY e { p = f32[2,13,9,3] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[2,7,9,3] "
        "reduce-window(p, z), window={size=1x3x2x1 stride=1x2x1x1 pad=0_0x1_1x1_0x0_0}, to_apply=s "
        "}",
        "ENTRY e { p = f32[5,300] parameter(0)\n z = f32[] parameter(1)\n ROOT r = f32[5,300] "
        "reduce-window(p, z), window={size=1x300 pad=0_0x299_0}, to_apply=s }",
        "ENTRY e { p = f32[2,12,8,3] parameter(0)\n q = f32[2,6,5,3] parameter(1)\n z = f32[] "
        "parameter(2)\n ROOT r = f32[2,12,8,3] select-and-scatter(p, q, z), window={size=1x3x2x1 "
        "stride=1x2x2x1 pad=0_0x1_0x1_1x0_0}, select=g, scatter=s }"}) {
    SCOPED_TRACE(text);
    const auto module = parse(add + ge + text);
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(check_library(*module->entry()->root(), arguments_for(*module->entry()), 0, totals),
              "");
  }
  EXPECT_EQ(totals.kernels, 3);
}

}  // namespace
}  // namespace plimsoll::jit::testing
