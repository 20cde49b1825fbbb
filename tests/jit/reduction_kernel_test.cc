// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

struct Case {
  const char* dims;
  const char* reduced;
  const char* result;
};

constexpr Case kCases[] = {
    {"7", "0", ""},
    {"16", "0", ""},
    {"5000", "0", ""},
    {"100003", "0", ""},
    {"3,10", "1", "3"},
    {"9,49", "1", "9"},
    {"5,1000", "1", "5"},
    {"2,9001", "1", "2"},
    {"10,3", "0", "3"},
    {"1000,10", "0", "10"},
    {"300,17", "0", "17"},
    {"3,700", "0", "700"},
    {"9,4,5,20", "0,1,2", "20"},
    {"4,20,7,7", "0,2,3", "20"},
    {"2,3,4,5", "1,3", "2,4"},
    {"2,3,4,5", "0,2", "3,5"},
    {"1,1", "0,1", ""},
    {"1,8,1", "0", "8,1"},
    {"0,4", "0", "4"},
    {"4,0", "1", "4"},
    {"0,4", "1", "0"},
    {"6,1,50", "2", "6,1"},
    {"600,2,3", "0,2", "2"},
    {"40,300,2", "1", "40,2"},
};

std::string reduce_text(const std::string& dtype, const Case& c, const std::string& op) {
  return "r { x = " + dtype + "[] parameter(0)\n y = " + dtype +
         "[] parameter(1)\n ROOT s = " + dtype + "[] " + op + "(x, y) }\nENTRY e { a = " + dtype +
         "[" + c.dims + "] parameter(0)\n i = " + dtype + "[] parameter(1)\n ROOT o = " + dtype +
         "[" + c.result + "] reduce(a, i), dimensions={" + c.reduced + "}, to_apply=r }";
}

TEST(ReductionKernel, SumsAgreeWithTheInterpreter) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.dims);
    check(reduce_text("f32", c, "add"), 1e-4);
    check(reduce_text("f64", c, "add"), 1e-12);
  }
}

// More than 2048 blocks of 4096 elements would be too many: they are larger.
TEST(ReductionKernel, OfManyBlocksTakeEveryElementOnce) {
  check(reduce_text("s32", {"9000001", "0", ""}, "add"));
  check(reduce_text("s32", {"10000,9,100", "0,2", "9"}, "add"));
}

// Sums of columns as jit/graph/reduction_shape.h orders them, one column at a time.
std::vector<float> column_sums(const ir::Literal& operand, float initial, bool squared) {
  constexpr std::int64_t kLanes = 4;
  const std::int64_t rows = operand.shape().dims()[0], columns = operand.shape().dims()[1];
  std::int64_t block_rows = 256;
  while (rows > 1024 * block_rows) block_rows *= 2;
  std::vector<float> sums;
  for (std::int64_t c = 0; c < columns; ++c) {
    float sum = initial;
    for (std::int64_t first = 0; first < rows; first += block_rows) {
      float lanes[kLanes] = {-0.0f, -0.0f, -0.0f, -0.0f};
      for (std::int64_t r = first; r < std::min(first + block_rows, rows); ++r) {
        const auto x = static_cast<float>(operand.at(r * columns + c));
        lanes[(r - first) % kLanes] += squared ? x * x : x;
      }
      float block = lanes[0];
      for (std::int64_t l = 1; l < std::min(kLanes, rows); ++l) block += lanes[l];
      sum += block;
    }
    sums.push_back(sum);
  }
  return sums;
}

TEST(ReductionKernel, AddsColumnsInTheOrderOfTheirShape) {
  for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{{1, 40},
                                                                      {3, 700},
                                                                      {15, 64},
                                                                      {16, 600},
                                                                      {300, 1037},
                                                                      {513, 48},
                                                                      {1024, 513},
                                                                      {600, 5},
                                                                      {270000, 3}}) {
    const std::string full = "f32[" + std::to_string(rows) + "," + std::to_string(columns) + "]";
    const std::string kept = "f32[" + std::to_string(columns) + "]";
    SCOPED_TRACE(full);
    const auto module = parse(
        "s { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\nf { p "
        "= " +
        full + " parameter(0)\n i = f32[] parameter(1)\n pp = " + full + " multiply(p, p)\n a = " +
        kept + " reduce(p, i), dimensions={0}, to_apply=s\n b = " + kept +
        " reduce(pp, i), dimensions={0}, to_apply=s\n ROOT t = (" + kept + ", " + kept +
        ") tuple(a, b) }\nENTRY e { p = " + full +
        " parameter(0)\n i = f32[] parameter(1)\n "
        "ROOT r = (" +
        kept + ", " + kept + ") fusion(p, i), kind=kInput, calls=f }");
    ASSERT_NE(module, nullptr);
    const auto arguments = arguments_for(*module->entry());
    for (Compiler* with : {&compiler(), &streaming_compiler()}) {
      const auto results = run(*module->entry()->root(), arguments, -1, *with);
      ASSERT_TRUE(results.ok()) << results.status().to_string();
      for (int i = 0; i < 2; ++i) {
        const auto expected =
            column_sums(arguments[0], static_cast<float>(arguments[1].at(0)), i == 1);
        for (std::size_t c = 0; c < expected.size(); ++c) {
          const auto sum = (*results)[static_cast<std::size_t>(i)].at(static_cast<std::int64_t>(c));
          ASSERT_EQ(sum, expected[c]) << "of column " << c;
        }
      }
    }
  }
}

TEST(ReductionKernel, ExactReductionsMatchBitForBit) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.dims);
    check(reduce_text("s32", c, "add"));
    check(reduce_text("f32", c, "maximum"));
    check(reduce_text("bf16", c, "minimum"));
    check(reduce_text("u8", c, "multiply"));
    check(reduce_text("pred", c, "or"));
  }
}

TEST(ReductionKernel, FindsTheLargestWithItsPosition) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.dims);
    const std::string d = c.dims, o = c.result;
    check(
        "r { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n j = s32[] "
        "parameter(3)\n g = pred[] compare(v, w), direction=GT\n q = pred[] compare(v, w), "
        "direction=EQ\n l = pred[] compare(i, j), direction=LT\n t = pred[] and(q, l)\n k = pred[] "
        "or(g, t)\n x = f32[] select(k, v, w)\n y = s32[] select(k, i, j)\n ROOT z = (f32[], "
        "s32[]) tuple(x, y) }\nENTRY e { a = f32[" +
        d + "] parameter(0)\n b = s32[" + d +
        "] parameter(1)\n m = f32[] parameter(2)\n n = s32[] parameter(3)\n ROOT o = (f32[" + o +
        "], s32[" + o + "]) reduce(a, b, m, n), dimensions={" + c.reduced + "}, to_apply=r }");
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
