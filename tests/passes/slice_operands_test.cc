// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "runtime/ir/fusions/sliced_operands.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// A loop whose body has `lines`, of the stack `w`, the number `i` and `x`, that end in y.
int sliced_dots(const std::string& lines) {
  const std::string state = "(s32[], f32[64,64], f32[5,64,64])";
  auto module = parse("HloModule m\nbody { p = " + state +
                      " parameter(0)\n i = s32[] get-tuple-element(p), index=0\n x = f32[64,64] "
                      "get-tuple-element(p), index=1\n w = f32[5,64,64] get-tuple-element(p), "
                      "index=2\n zero = s32[] constant(0)\n one = s32[] constant(1)\n" +
                      lines + "\n j = s32[] add(i, one)\n ROOT t = " + state +
                      " tuple(j, y, w) }\nmore { p = " + state +
                      " parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] "
                      "constant(5)\n ROOT c = pred[] compare(i, n), direction=LT }\nENTRY e { x = "
                      "f32[64,64] parameter(0)\n w = f32[5,64,64] parameter(1)\n i = s32[] "
                      "constant(0)\n s = " +
                      state + " tuple(i, x, w)\n ROOT l = " + state +
                      " while(s), condition=more, body=body }\n");
  if (module == nullptr) return -1;
  EXPECT_TRUE(slice_operands(*module).ok());
  EXPECT_TRUE(ir::verify(*module).ok());
  int count = 0;
  for (const auto& computation : module->computations()) {
    for (const auto& instruction : computation->instructions()) {
      count += ir::has_sliced_operands(*instruction) ? 1 : 0;
    }
  }
  return count;
}

constexpr const char* kSlice =
    "s = f32[1,64,64] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,64,64}\n"
    "layer = f32[64,64] reshape(s)\n";
constexpr const char* kDot =
    "y = f32[64,64] dot(x, layer), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";

TEST(SliceOperands, TakesSlicesThatAProductAloneReads) {
  EXPECT_EQ(sliced_dots(std::string(kSlice) + kDot), 1);
  // On both sides, of two slices.
  EXPECT_EQ(sliced_dots(std::string(kSlice) +
                        "s2 = f32[1,64,64] dynamic-slice(w, one, zero, zero), "
                        "dynamic_slice_sizes={1,64,64}\n l2 = f32[64,64] reshape(s2)\n y = "
                        "f32[64,64] dot(l2, layer), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}"),
            1);
  // Some rows of one matrix lie side by side.
  EXPECT_EQ(sliced_dots("s = f32[1,32,64] dynamic-slice(w, i, one, zero), "
                        "dynamic_slice_sizes={1,32,64}\n layer = f32[32,64] reshape(s)\n z = "
                        "f32[64,32] dot(x, layer), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={1}\n y = f32[64,64] dot(z, z), "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
            1);
}

// An optimizer's step of the weights reads them element by element, where they lie as well.
TEST(SliceOperands, TakesSlicesOfKernelsOfElements) {
  EXPECT_EQ(
      sliced_dots(std::string(kSlice) + "d = f32[64,64] dot(x, layer), lhs_contracting_dims={1}, "
                                        "rhs_contracting_dims={0}\n y = f32[64,64] add(d, layer)"),
      1);
}

TEST(SliceOperands, LeavesTheOthers) {
  // Somebody else reads the slice as a whole.
  EXPECT_EQ(sliced_dots(std::string(kSlice) +
                        "d = f32[64,64] dot(x, layer), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n turned = f32[64,64] reverse(layer), "
                        "dimensions={0}\n y = f32[64,64] add(d, turned)"),
            0);
  // Some columns do not lie side by side.
  EXPECT_EQ(sliced_dots("s = f32[1,64,32] dynamic-slice(w, i, zero, one), "
                        "dynamic_slice_sizes={1,64,32}\n layer = f32[64,32] reshape(s)\n z = "
                        "f32[64,32] dot(x, layer), lhs_contracting_dims={1}, "
                        "rhs_contracting_dims={0}\n y = f32[64,64] dot(z, z), "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
            0);
  // A constant on the other side is packed by another kernel.
  EXPECT_EQ(sliced_dots(std::string(kSlice) +
                        "k = f32[64,64] constant({...})\n y = f32[64,64] dot(layer, k), "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
            0);
  // What a loop makes itself may go before the product comes.
  EXPECT_EQ(sliced_dots("v = f32[5,64,64] negate(w)\n s = f32[1,64,64] dynamic-slice(v, i, zero, "
                        "zero), dynamic_slice_sizes={1,64,64}\n layer = f32[64,64] reshape(s)\n" +
                        std::string(kDot)),
            0);
}

TEST(SliceOperands, TakesPartsThatAreAlwaysTheSame) {
  const char* const kPart =
      "s = f32[1,64,64] slice(w), slice={[3:4], [0:64], [0:64]}\nlayer = f32[64,64] reshape(s)\n";
  EXPECT_EQ(sliced_dots(std::string(kPart) + kDot), 1);
  // Two products share one, as the gradient of a layer does with the layer.
  EXPECT_EQ(
      sliced_dots(std::string(kPart) + "d = f32[64,64] dot(x, layer), lhs_contracting_dims={1}, "
                                       "rhs_contracting_dims={0}\n y = f32[64,64] dot(d, layer), "
                                       "lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
      2);
  // Every other row.
  EXPECT_EQ(sliced_dots("s = f32[1,32,64] slice(w), slice={[3:4], [0:64:2], [0:64]}\n"
                        "layer = f32[32,64] reshape(s)\n z = f32[64,32] dot(x, layer), "
                        "lhs_contracting_dims={1}, rhs_contracting_dims={1}\n y = f32[64,64] "
                        "dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}"),
            0);
}

// What a program is given, and by where in it parts begin.
TEST(SliceOperands, TakesPartsOfTheProgramsParameters) {
  const auto parts_of = [](int start) {
    auto module = parse(
        "HloModule m\nENTRY e { x = f32[8,64] parameter(0)\n w = f32[8192] parameter(1)\n"
        "s = f32[4096] slice(w), slice={[" +
        std::to_string(start) + ":" + std::to_string(start + 4096) +
        "]}\n m = f32[64,64] reshape(s)\n ROOT y = f32[8,64] dot(x, m), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0} }");
    return *slice_operands(*module);
  };
  EXPECT_TRUE(parts_of(0));
  EXPECT_TRUE(parts_of(16));
  EXPECT_FALSE(parts_of(8));  // no multiple of 64 bytes
}

}  // namespace
}  // namespace plimsoll::passes
