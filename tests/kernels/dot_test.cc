// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "kernels/cpu/products/product_loops.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/kernels/kernel_harness.h"

namespace plimsoll::kernels {
namespace {

using ir::DType;
using ir::Shape;

std::string braces(const std::vector<std::int64_t>& values) {
  std::string text = "{";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
  return text + "}";
}

// Compares bit for bit with the interpreter, on values whose sums are exact in every order.
std::string check(const Shape& lhs, const Shape& rhs, const Shape& out,
                  const ir::DotDimensions& d) {
  const std::string text = "HloModule m\nENTRY e {\n  a = " + lhs.to_string() +
                           " parameter(0)\n  b = " + rhs.to_string() +
                           " parameter(1)\n  ROOT c = " + out.to_string() +
                           " dot(a, b), lhs_batch_dims=" + braces(d.lhs_batch) +
                           ", rhs_batch_dims=" + braces(d.rhs_batch) +
                           ", lhs_contracting_dims=" + braces(d.lhs_contracting) +
                           ", rhs_contracting_dims=" + braces(d.rhs_contracting) + "\n}\n";
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string() << text;
  if (!module.ok()) return "";
  const std::vector<ir::Literal> operands = {small_integers(lhs, 1), small_integers(rhs, 2)};
  std::string kernel;
  const ir::Instruction& root = *(*module)->entry()->root();
  auto got = run_instruction(root, operands, &kernel);
  auto expected = ir::interpret(root, operands);
  EXPECT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_TRUE(expected.ok()) << expected.status().to_string();
  if (got.ok() && expected.ok()) {
    EXPECT_EQ(cases::compare_bits(*expected, *got), "") << kernel << "\n" << text;
  }
  return kernel;
}

Shape f32(std::initializer_list<std::int64_t> dims) { return Shape(DType::f32, dims); }

TEST(Dot, EveryTransposeRunsInTheLibrary) {
  // Large enough to be cut into tiles of rows, with a smaller last one.
  EXPECT_EQ(check(f32({150, 90}), f32({90, 170}), f32({150, 170}), {{1}, {0}, {}, {}}),
            "onednn.dot");
  EXPECT_EQ(check(f32({90, 150}), f32({90, 170}), f32({150, 170}), {{0}, {0}, {}, {}}),
            "onednn.dot");
  EXPECT_EQ(check(f32({150, 90}), f32({170, 90}), f32({150, 170}), {{1}, {1}, {}, {}}),
            "onednn.dot");
  EXPECT_EQ(check(f32({90, 150}), f32({170, 90}), f32({150, 170}), {{0}, {1}, {}, {}}),
            "onednn.dot");
  EXPECT_EQ(check(f32({5, 90}), f32({90, 800}), f32({5, 800}), {{1}, {0}, {}, {}}), "onednn.dot");
}

TEST(Dot, BatchOfHeadsNeedsNoCopy) {
  EXPECT_EQ(check(f32({2, 33, 4, 16}), f32({2, 35, 4, 16}), f32({2, 4, 33, 35}),
                  {{3}, {3}, {0, 2}, {0, 2}}),
            "onednn.dot");
}

TEST(Dot, ContractingDimsThatNoStrideWalksAreCopied) {
  EXPECT_EQ(check(f32({3, 20, 5}), f32({5, 3, 30}), f32({20, 30}), {{0, 2}, {1, 0}, {}, {}}),
            "onednn.dot");
  EXPECT_EQ(check(f32({3, 4, 5, 6}), f32({6, 3, 7}), f32({4, 5, 7}), {{0, 3}, {1, 0}, {}, {}}),
            "onednn.dot");
}

TEST(Dot, MatrixTimesVectorHasLoopsOfItsOwn) {
  EXPECT_EQ(check(f32({300, 130}), f32({130}), f32({300}), {{1}, {0}, {}, {}}), "dot.vector");
  EXPECT_EQ(check(f32({130, 300}), f32({130}), f32({300}), {{0}, {0}, {}, {}}), "dot.vector");
  EXPECT_EQ(check(f32({130}), f32({130, 300}), f32({300}), {{0}, {0}, {}, {}}), "dot.vector");
  EXPECT_EQ(check(f32({130}), f32({130}), f32({}), {{0}, {0}, {}, {}}), "dot.vector");
}

// Every way that they lie, of every size: rows on both sides are contiguous or not.
TEST(Dot, ManySmallMatricesHaveLoopsOfTheirOwn) {
  for (const DType t : {DType::f32, DType::f64, DType::s32, DType::u32, DType::s64, DType::u64}) {
    for (const std::int64_t m : {1, 2, 3, 8, 16}) {
      for (const std::int64_t n : {1, 3, 4, 5, 8, 9, 16}) {
        for (const std::int64_t k : {1, 3, 8, 15}) {
          const Shape out(t, {70, m, n});
          EXPECT_EQ(check(Shape(t, {70, m, k}), Shape(t, {70, k, n}), out, {{2}, {1}, {0}, {0}}),
                    "dot.small");
          EXPECT_EQ(check(Shape(t, {70, k, m}), Shape(t, {70, n, k}), out, {{1}, {2}, {0}, {0}}),
                    "dot.small");
          EXPECT_EQ(check(Shape(t, {m, 3, k, 11}), Shape(t, {11, n, 3, k}), Shape(t, {3, 11, m, n}),
                          {{2}, {3}, {1, 3}, {2, 0}}),
                    "dot.small");
        }
      }
    }
    EXPECT_EQ(check(Shape(t, {9, 4, 6}), Shape(t, {9, 6}), Shape(t, {9, 4}), {{2}, {1}, {0}, {0}}),
              "dot.small");
  }
  EXPECT_EQ(check(f32({4, 6}), f32({6, 5}), f32({4, 5}), {{1}, {0}, {}, {}}), "dot.small");
  EXPECT_EQ(check(f32({9, 4, 17}), f32({9, 17, 5}), f32({9, 4, 5}), {{2}, {1}, {0}, {0}}),
            "onednn.dot");
}

TEST(Dot, WideNumbersTimesAVectorAreReadAsTheyLie) {
  for (const DType t : {DType::f64, DType::s32, DType::u64}) {
    const Shape x(t, {400}), out(t, {700});
    EXPECT_EQ(check(Shape(t, {700, 400}), x, out, {{1}, {0}, {}, {}}), "dot.few_rows");
    EXPECT_EQ(check(Shape(t, {400, 700}), x, out, {{0}, {0}, {}, {}}), "dot.few_rows");
    EXPECT_EQ(check(x, Shape(t, {400, 700}), out, {{0}, {0}, {}, {}}), "dot.few_rows");
    EXPECT_EQ(check(x, Shape(t, {700, 400}), out, {{0}, {1}, {}, {}}), "dot.few_rows");
  }
}

TEST(Dot, EveryDtypeMatchesTheInterpreter) {
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
    const DType t = static_cast<DType>(i);
    check(Shape(t, {3, 40, 70}), Shape(t, {3, 70, 66}), Shape(t, {3, 40, 66}),
          {{2}, {1}, {0}, {0}});
  }
  check(Shape(DType::bf16, {40, 70}), Shape(DType::bf16, {70, 66}), f32({40, 66}),
        {{1}, {0}, {}, {}});
  check(Shape(DType::s8, {40, 70}), Shape(DType::s8, {70, 66}), Shape(DType::s32, {40, 66}),
        {{1}, {0}, {}, {}});
}

// What multiplies bytes to results of a byte or four.
const char* byte_kernel() {
  return byte_product_loops(true, true) != nullptr ? "dot.packed" : "dot.widened";
}

// Whatever lies together, at every size of a last block.
TEST(Dot, HalvesAndBytesAreWidenedBlockByBlockOrPacked) {
  const struct {
    DType operand, result;
  } dtypes[] = {{DType::f16, DType::f16},  {DType::f16, DType::f32}, {DType::s8, DType::s32},
                {DType::u8, DType::s32},   {DType::s8, DType::s8},   {DType::u8, DType::u64},
                {DType::pred, DType::pred}};
  for (const auto& [t, out] : dtypes) {
    const bool is_byte = (t == DType::s8 || t == DType::u8) && out != DType::u64;
    const std::string kernel = is_byte ? byte_kernel() : "dot.widened";
    EXPECT_EQ(check(Shape(t, {150, 300}), Shape(t, {300, 270}), Shape(out, {150, 270}),
                    {{1}, {0}, {}, {}}),
              kernel);
    EXPECT_EQ(
        check(Shape(t, {40, 150}), Shape(t, {270, 40}), Shape(out, {150, 270}), {{0}, {1}, {}, {}}),
        kernel);
    EXPECT_EQ(check(Shape(t, {2, 33, 4, 16}), Shape(t, {2, 35, 4, 16}), Shape(out, {2, 4, 33, 35}),
                    {{3}, {3}, {0, 2}, {0, 2}}),
              kernel);
    EXPECT_EQ(check(Shape(t, {3, 20, 5}), Shape(t, {5, 3, 30}), Shape(out, {20, 30}),
                    {{0, 2}, {1, 0}, {}, {}}),
              kernel);
  }
  EXPECT_EQ(check(Shape(DType::f16, {40, 70}), f32({70, 66}), f32({40, 66}), {{1}, {0}, {}, {}}),
            "dot.widened");
}

TEST(Dot, SumsOfBytesAreExactHoweverManyTheyAre) {
  for (const DType t : {DType::s8, DType::u8}) {
    const Shape lhs(t, {3, 5000}), rhs(t, {5000, 2}), out(DType::s32, {3, 2});
    auto module = ir::parse_module("ENTRY e {\n  a = " + lhs.to_string() +
                                   " parameter(0)\n  b = " + rhs.to_string() +
                                   " parameter(1)\n  ROOT c = " + out.to_string() +
                                   " dot(a, b), lhs_contracting_dims={1}, "
                                   "rhs_contracting_dims={0}\n}\n");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    std::vector<ir::Literal> operands = {ir::Literal(lhs), ir::Literal(rhs)};
    for (ir::Literal& operand : operands) {
      for (std::int64_t i = 0; i < operand.shape().element_count(); ++i) {
        operand.set(i, t == DType::u8 ? 255 - (i % 7 == 0) : (i % 5 == 0 ? 127 : -128));
      }
    }
    std::string kernel;
    const ir::Instruction& root = *(*module)->entry()->root();
    const auto got = run_instruction(root, operands, &kernel);
    const auto expected = ir::interpret(root, operands);
    ASSERT_TRUE(got.ok() && expected.ok());
    EXPECT_EQ(kernel, byte_kernel());
    EXPECT_EQ(cases::compare_bits(*expected, *got), "");
  }
}

TEST(Dot, EmptyShapesGiveZerosOrNothing) {
  check(f32({4, 0}), f32({0, 5}), f32({4, 5}), {{1}, {0}, {}, {}});
  check(f32({0, 3}), f32({3, 5}), f32({0, 5}), {{1}, {0}, {}, {}});
}

}  // namespace
}  // namespace plimsoll::kernels
