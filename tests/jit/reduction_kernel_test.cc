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
