// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

std::string n(int i) { return std::to_string(i); }

std::string fusion_of(const std::string& parameters, const std::string& body,
                      const std::string& result, const std::string& operands) {
  return "f {\n" + parameters + body + "}\nENTRY e {\n" + parameters + " ROOT r = " + result +
         " fusion(" + operands + "), kind=kLoop, calls=f }";
}

// Indices from -100 to 99, so that both ends are clamped.
TEST(GatherFusion, RowsWithTheirIndexComputationAndAnEpilogue) {
  for (const int rows : {1, 5, 33}) {
    for (const int width : {1, 3, 16, 17, 100}) {
      SCOPED_TRACE(n(rows) + " x " + n(width));
      const std::string ids = "s32[" + n(rows) + "]", out = "f32[" + n(rows) + "," + n(width) + "]";
      check(fusion_of(
          " t = f32[40," + n(width) + "] parameter(0)\n i = " + ids + " parameter(1)\n p = " + out +
              " parameter(2)\n",
          " z = s32[] constant(0)\n bz = " + ids +
              " broadcast(z), dimensions={}\n v = s32[] "
              "constant(40)\n bv = " +
              ids + " broadcast(v), dimensions={}\n c = pred[" + n(rows) +
              "] compare(i, bz), direction=LT\n w = " + ids + " add(i, bv)\n s = " + ids +
              " select(c, w, i)\n g = " + out +
              " gather(t, s), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
              "index_vector_dim=1, slice_sizes={1," +
              n(width) + "}\n q = " + out + " multiply(g, p)\n ROOT a = " + out + " add(q, g)\n",
          out, "t, i, p"));
    }
  }
}

TEST(GatherFusion, ElementsOfEveryTypeOfIndex) {
  for (const char* type : {"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"}) {
    for (const int count : {1, 7, 16, 50}) {
      SCOPED_TRACE(std::string(type) + " " + n(count));
      const std::string out = "f32[" + n(count) + "]";
      check(fusion_of(" t = f32[90] parameter(0)\n i = " + std::string(type) + "[" + n(count) +
                          "] parameter(1)\n",
                      " g = " + out +
                          " gather(t, i), offset_dims={}, collapsed_slice_dims={0}, "
                          "start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n ROOT a = " +
                          out + " negate(g)\n",
                      out, "t, i"));
    }
  }
}

TEST(GatherFusion, IndicesPastTheSignedRangeAreClampedToTheLast) {
  check(fusion_of(" t = f32[9] parameter(0)\n",
                  " i = u64[3] constant({18446744073709551615, 9223372036854775808, 4})\n"
                  " g = f32[3] gather(t, i), offset_dims={}, collapsed_slice_dims={0}, "
                  "start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n"
                  " ROOT a = f32[3] negate(g)\n",
                  "f32[3]", "t"));
}

TEST(GatherFusion, TheTableMayBeComputed) {
  check(
      fusion_of(" t = f32[20,24] parameter(0)\n b = f32[24] parameter(1)\n i = s32[6] "
                "parameter(2)\n",
                " bb = f32[20,24] broadcast(b), dimensions={1}\n s = f32[20,24] add(t, bb)\n"
                " g = f32[6,24] gather(s, i), offset_dims={1}, collapsed_slice_dims={0}, "
                "start_index_map={0}, index_vector_dim=1, slice_sizes={1,24}\n"
                " ROOT a = f32[24,6] transpose(g), dimensions={1,0}\n",
                "f32[24,6]", "t, b, i"));
}

TEST(GatherFusion, InsideConcatenateAndPad) {
  check(
      fusion_of(" t = f32[20,5] parameter(0)\n x = f32[3,5] parameter(1)\n i = s32[6] "
                "parameter(2)\n",
                " z = f32[] constant(7)\n"
                " g = f32[6,5] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
                "start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}\n"
                " c = f32[9,5] concatenate(x, g), dimensions={0}\n"
                " p = f32[9,8] pad(c, z), padding=0_0x1_2\n ROOT a = f32[9,8] negate(p)\n",
                "f32[9,8]", "t, x, i"));
}

TEST(GatherFusion, ReducedRowsAndColumns) {
  for (const char* reduced : {"1", "2", "1,2"}) {
    const std::string result = std::string(reduced) == "1"   ? "f32[4,40]"
                               : std::string(reduced) == "2" ? "f32[4,7]"
                                                             : "f32[4]";
    SCOPED_TRACE(reduced);
    check("sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }\n" +
              fusion_of(" t = f32[30,40] parameter(0)\n i = s32[4,7] parameter(1)\n",
                        " z = f32[] constant(0)\n g = f32[4,7,40] gather(t, i), offset_dims={2}, "
                        "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
                        "slice_sizes={1,40}\n q = f32[4,7,40] multiply(g, g)\n ROOT s = " +
                            result + " reduce(q, z), dimensions={" + reduced + "}, to_apply=sum\n",
                        result, "t, i"),
          1e-5);
  }
}

TEST(GatherFusion, IsRefusedWhereItsIndicesComeFromAReduce) {
  const auto module =
      parse("sum { x = s32[] parameter(0)\n y = s32[] parameter(1)\n ROOT s = s32[] add(x, y) }\n" +
            fusion_of(" t = f32[9] parameter(0)\n i = s32[4,7] parameter(1)\n",
                      " z = s32[] constant(0)\n s = s32[4] reduce(i, z), dimensions={1}, "
                      "to_apply=sum\n ROOT g = f32[4] gather(t, s), offset_dims={}, "
                      "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                      "slice_sizes={1}\n",
                      "f32[4]", "t, i"));
  ASSERT_NE(module, nullptr);
  EXPECT_FALSE(compiler().supports(*module->entry()->root()));
}

}  // namespace
}  // namespace plimsoll::jit::testing
