// SPDX-License-Identifier: Apache-2.0
// Damaged artifacts: none may crash the reader, hang it, or make it take much memory.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/import/program_bytes.h"
#include "runtime/import/vhlo/vhlo.h"
#include "runtime/ir/text/text.h"
#include "tests/import/stored_files.h"

namespace plimsoll::import {
namespace {

std::vector<std::string> artifacts() {
  std::vector<std::string> all;
  for (const auto& path : stored_files("tests/c_api/jax_programs", ".mlirbc")) {
    all.push_back(bytes_of(path));
  }
  return all;
}

TEST(VhloFuzz, DamagedArtifactsAreErrors) {
  const std::vector<std::string> all = artifacts();
  ASSERT_GE(all.size(), 50U);
  const int mutants = mutants_of_each();
  std::int64_t refused = 0, read = 0;
  std::mt19937_64 random(20);
  for (const std::string& artifact : all) {
    for (int i = 0; i < mutants; ++i) {
      const auto module = vhlo::read_module(mutant(artifact, random), "mutant");
      if (module.ok()) {
        ++read;
        continue;
      }
      ++refused;
      EXPECT_TRUE(module.status().message().starts_with("mutant: ")) << module.status().message();
      EXPECT_NE(module.status().code(), StatusCode::internal) << module.status().message();
    }
  }
  EXPECT_GT(refused, read);
}

// constants.mlirbc, its constant pred[4] with a byte for each element: 2, 0, 255 and 1.
TEST(Vhlo, TruthsOfAByteEachAreZeroOrOne) {
  const auto module = vhlo::read_module(
      bytes_of(PLIMSOLL_SOURCE_DIR "/tests/import/vhlo_artifacts/truth_bytes.mlirbc"), "x");
  ASSERT_TRUE(module.ok()) << module.status().message();
  int found = 0;
  for (const auto& computation : (*module)->computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() != ir::Opcode::constant ||
          !(instruction->shape() == ir::Shape(ir::DType::pred, {4}))) {
        continue;
      }
      ++found;
      const auto bytes = instruction->attributes().literal->bytes();
      EXPECT_EQ(std::vector<std::byte>(bytes.begin(), bytes.end()),
                (std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}}));
    }
  }
  EXPECT_EQ(found, 1);
}

// jnp.sort(x, axis=1) as JAX 0.10.2 exports it for four devices with explicit axes: a comparison
// whose constants, made outside of it, are marked by how they are held.
TEST(Vhlo, MarksOfWhatIsDoneWithEachElementAreNone) {
  const auto module = read_program(
      bytes_of(PLIMSOLL_SOURCE_DIR "/tests/import/vhlo_artifacts/sort_of_explicit_axes.mlirbc"),
      "x");
  ASSERT_TRUE(module.ok()) << module.status().message();
  int sorts = 0;
  for (const auto& computation : (*module)->computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (instruction->opcode() != ir::Opcode::sort) continue;
      ++sorts;
      for (const auto& one : instruction->to_apply()->instructions())
        EXPECT_NE(one->opcode(), ir::Opcode::custom_call) << ir::to_text(**module);
    }
  }
  EXPECT_EQ(sorts, 1);
}

// erf(x), top_k(x, 2) and sinh(x) as JAX 0.8.3 exports them for CPUs: custom calls of MHLO's names.
TEST(Vhlo, CallsOfMhloAreOperations) {
  const auto module = vhlo::read_module(
      bytes_of(PLIMSOLL_SOURCE_DIR "/tests/import/vhlo_artifacts/calls_of_mhlo.mlirbc"), "x");
  ASSERT_TRUE(module.ok()) << module.status().message();
  for (const auto& instruction : (*module)->entry()->instructions()) {
    const ir::Opcode opcode = instruction->opcode();
    EXPECT_NE(opcode, ir::Opcode::custom_call) << ir::to_text(**module);
    if (opcode != ir::Opcode::topk) continue;
    EXPECT_EQ(instruction->attributes().find_extra("k"), "2");
    EXPECT_EQ(instruction->attributes().find_extra("largest"), "true");
    EXPECT_EQ(instruction->shape(), ir::Shape::tuple({ir::Shape(ir::DType::f32, {2, 2}),
                                                      ir::Shape(ir::DType::s32, {2, 2})}));
  }
  const std::string text = ir::to_text(**module);
  for (const char* opcode : {" erf(", " topk(", " sinh("})
    EXPECT_NE(text.find(opcode), std::string::npos) << opcode << text;
}

TEST(ProgramBytes, AreToldApart) {
  const auto message = [](std::string_view bytes) {
    const auto module = read_program(bytes, "x");
    return module.ok() ? std::string() : module.status().message();
  };
  EXPECT_EQ(message("HloModule m\nENTRY e { ROOT a = f32[2] parameter(0) }\n"), "");
  for (const char* text : {
           "module @m { func.func public @main() }",
           "module @m attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public @main() }",
           "\"builtin.module\"() <{sym_name = \"m\"}> ({ \"func.func\"() ({ }) }) : () -> ()",
           "// by hand\n\n  // HloModule\nmodule {\n  func.func @main() { stablehlo.add }\n}",
           "#loc1 = loc(\"x\")\n#loc = loc(unknown)\nmodule @m { }",
           "func.func @main(%x: tensor<4xf32>) { return %x }",
       }) {
    EXPECT_NE(message(text).find("StableHLO as text"), std::string::npos) << text;
  }
  // Names of HLO text.
  EXPECT_EQ(message("module { ROOT a = f32[2] parameter(0) }\n"), "");
  EXPECT_EQ(message("// module\ne { ROOT a = f32[2] parameter(0), "
                    "metadata={op_name=\"stablehlo.add\"} }\n"),
            "");
  EXPECT_NE(message("ML\xefR").find("makes no sense"), std::string::npos);
  EXPECT_NE(message(std::string("ML\xefR\x05", 5)).find("version 2"), std::string::npos);
  EXPECT_EQ(message("nonsense").substr(0, 2), "x:");
  // As jax.export wraps one: some bytes, a length, the artifact, some bytes.
  const std::string artifact = artifacts().front();
  std::string wrapped("\x10\x00\x00\x00more", 8);
  for (int i = 0; i < 4; ++i) wrapped.push_back(static_cast<char>(artifact.size() >> (8 * i)));
  EXPECT_EQ(message(wrapped + artifact + "behind"), "");
}

}  // namespace
}  // namespace plimsoll::import
