// SPDX-License-Identifier: Apache-2.0
// Weights that lie as their kernel wants them, from the start: the same bits, less workspace.
#include "runtime/program/prepared_constants.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
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

// Of our own products, which pack an operand that is no constant at every launch.
TEST(PreparedConstants, OfPackedProductsGiveTheSameBits) {
  struct Case {
    ir::Dims left, right;
    const char* text;
    const char* kernel;
  };
  const Case cases[] = {
      {{300, 1200},
       {1200, 420},
       "f32[300,420] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
       "dot.packed"},
      {{300, 1200},
       {420, 1200},
       "f32[300,420] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
       "dot.packed"},
      {{1, 4, 4, 160},
       {3, 3, 160, 72},
       "f32[1,4,4,72] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
       "convolution.packed"}};
  for (const Case& one : cases) {
    const std::vector<ir::Literal> arguments = {numbers(one.left, 1), numbers(one.right, 2)};
    const auto budget = memory::Budget::create(device::default_device(), std::int64_t{64} << 20);
    std::vector<ir::Literal> results;
    for (const bool constant : {false, true}) {
      const std::string text = "HloModule m\nENTRY e {\n x = " + arguments[0].shape().to_string() +
                               " parameter(0)\n w = " + arguments[1].shape().to_string() +
                               (constant ? " constant({...})" : " parameter(1)") +
                               "\n ROOT r = " + one.text + "\n}";
      auto module = ir::parse_module(text, "product");
      ASSERT_TRUE(module.ok()) << module.status().to_string();
      for (const auto& instruction : (*module)->entry()->instructions()) {
        if (instruction->opcode() != ir::Opcode::constant) continue;
        instruction->attributes().literal = std::make_shared<const ir::Literal>(arguments[1]);
      }
      const auto program = Program::create(std::move(*module), provider());
      ASSERT_TRUE(program.ok()) << program.status().to_string();
      const ir::Computation& entry = *(*program)->module().entry();
      EXPECT_EQ((*program)->kernel(*entry.root())->name(), one.kernel);
      for (const auto& instruction : entry.instructions()) {
        if (instruction->opcode() != ir::Opcode::constant) continue;
        EXPECT_FALSE(*instruction->attributes().literal == arguments[1]) << "lies as it did";
      }
      const auto executable = make_executable(*program, {}, {}, *budget);
      ASSERT_TRUE(executable.ok()) << executable.status().to_string();
      auto result =
          run_on_host(**executable, *budget, std::span(arguments).first(constant ? 1 : 2));
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      results.push_back(std::move(*result));
    }
    EXPECT_EQ(results[0], results[1]) << one.text;
  }
}

// A layer of few rows: by a constant, also one that is turned first, it is packed once, at every
// limit; by a parameter it is the library's.
TEST(PreparedConstants, ProductsByConstantsArePackedAtEveryLimit) {
  const std::string head = "HloModule m\nENTRY e {\n x = f32[32,256] parameter(0)\n";
  const std::string tail =
      " y = f32[32,512] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " ROOT r = f32[32,512] negate(y)\n}";
  struct Case {
    const char* weights;
    bool is_constant;
  };
  for (const Case& one : {Case{" v = f32[256,512] constant({...})\n", true},
                          Case{" w = f32[512,256] constant({...})\n v = f32[256,512] transpose(w), "
                               "dimensions={1,0}\n",
                               true},
                          Case{" v = f32[256,512] parameter(1)\n", false}}) {
    auto module = ir::parse_module(head + one.weights + tail, "layer");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    for (const auto& instruction : (*module)->entry()->instructions()) {
      if (instruction->opcode() != ir::Opcode::constant) continue;
      instruction->attributes().literal =
          std::make_shared<const ir::Literal>(numbers(instruction->shape().dims(), 2));
    }
    const auto program = Program::create(std::move(*module), provider());
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    const auto kernel_of_dot = [](const Program& form) {
      for (const auto& instruction : form.module().entry()->instructions()) {
        if (instruction->opcode() == ir::Opcode::dot) return form.kernel(*instruction)->name();
      }
      return std::string();
    };
    EXPECT_EQ(kernel_of_dot(**program) == "dot.packed", one.is_constant) << one.weights;
    for (const passes::Fusion fusion : {passes::Fusion::none, passes::Fusion::as_written}) {
      ProgramForm form;
      form.fusion = fusion;
      const auto other = (*program)->in_form(form);
      ASSERT_TRUE(other.ok()) << other.status().to_string();
      EXPECT_EQ(kernel_of_dot(**other), kernel_of_dot(**program)) << one.weights;
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

// Of this process's own, in bytes.
std::int64_t private_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

// 40 MiB that a file has, in another order than the product wants them or packed from where they
// lie: what the library keeps of them is the packed form, in every form of the program.
TEST(PreparedConstants, NoPlainWeightsAreKeptThatAFileHas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const ir::Shape shape(ir::DType::f32, {4096, 2560});
  for (const bool turned : {true, false}) {
    const std::string weights =
        turned ? " w = f32[4096,2560] constant({...})\n v = f32[2560,4096] transpose(w), "
                 "dimensions={1,0}\n y = f32[32,4096] dot(x, v), lhs_contracting_dims={1}, "
                 "rhs_contracting_dims={0}\n"
               : " w = f32[4096,2560] constant({...})\n y = f32[32,4096] dot(x, w), "
                 "lhs_contracting_dims={1}, rhs_contracting_dims={1}\n";
    auto module = ir::parse_module("HloModule m\nENTRY e {\n x = f32[32,2560] parameter(0)\n" +
                                       weights + " ROOT r = f32[32,4096] negate(y)\n}",
                                   "layer");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    int made = 0;
    const auto literal = std::make_shared<const ir::Literal>(
        ir::Literal::deferred(shape, [&made](std::span<std::byte> to) {
          ++made;
          for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<std::byte>(i % 61);
        }));
    for (const auto& instruction : (*module)->entry()->instructions()) {
      if (instruction->opcode() == ir::Opcode::constant)
        instruction->attributes().literal = literal;
    }
    const std::int64_t before = private_memory();
    const auto program = Program::create(std::move(*module), provider());
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    ProgramForm form;
    form.fusion = passes::Fusion::none;
    const auto other = (*program)->in_form(form);
    ASSERT_TRUE(other.ok()) << other.status().to_string();
    EXPECT_GT(made, 0);
    const int once = made;
    EXPECT_NE(literal->held_bytes(), nullptr);
    EXPECT_EQ(made, once + 1) << "the plain weights were still there";
    EXPECT_LT(private_memory() - before, shape.byte_size() * 3 / 2) << turned;
  }
}

}  // namespace
}  // namespace plimsoll::executor
