// SPDX-License-Identifier: Apache-2.0
// Fusions as a GPU's kernels: large enough for 16-byte accesses, tails, several launches and
// several blocks a row, and at random.
#include <gtest/gtest.h>

#include <string>

#include "tests/cases/compare.h"
#include "tests/cases/fused_entry.h"
#include "tests/cases/op_cases.h"
#include "tests/cases/random_fusion.h"
#include "tests/cases/random_rows.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

std::string check_text(const std::string& text, GpuCheck& totals) {
  const auto module = parse(text);
  if (module == nullptr) return "no module";
  return check_root_on_gpu(*module, arguments_for(*module->entry()), totals);
}

TEST(GpuLoops, AccessSixteenBytesAndWhatIsLeft) {
  GpuCheck totals;
  for (const char* dtype : {"f32", "f64", "bf16", "s8", "pred"}) {
    for (const int size : {1, 255, 131072, 131073, 131079, 140001}) {
      SCOPED_TRACE(std::string(dtype) + std::to_string(size));
      const std::string shape = std::string(dtype) + "[" + std::to_string(size) + "]";
      EXPECT_EQ(check_text("ENTRY e { a = " + shape + " parameter(0)\n b = " + shape +
                               " parameter(1)\n ROOT r = " + shape + " maximum(a, b) }",
                           totals),
                "");
    }
  }
}

// Several pieces of 16 bytes, and of the last block of threads what is left.
TEST(GpuLoops, OfLargeArraysAreSeveralPiecesAThread) {
  GpuCheck totals;
  for (const int size : {1 << 20, (1 << 20) + 1023 * 4, (1 << 20) + 5}) {
    SCOPED_TRACE(size);
    const std::string shape = "f32[" + std::to_string(size) + "]";
    EXPECT_EQ(
        check_text("ENTRY e { a = " + shape + " parameter(0)\n ROOT r = " + shape + " negate(a) }",
                   totals),
        "");
  }
  EXPECT_EQ(check_text("f { p = bf16[4099,1024] parameter(0)\n q = bf16[1024] parameter(1)\n b = "
                       "bf16[4099,1024] broadcast(q), dimensions={1}\n ROOT m = bf16[4099,1024] "
                       "maximum(p, b) }\nENTRY e { p = bf16[4099,1024] parameter(0)\n q = "
                       "bf16[1024] parameter(1)\n ROOT r = bf16[4099,1024] fusion(p, q), "
                       "kind=kLoop, calls=f }",
                       totals),
            "");
  EXPECT_GT(totals.in_place, 0);
}

TEST(GpuLoops, FindTheirPlaceInRowsAndTransposes) {
  GpuCheck totals;
  for (const char* dims : {"300,128", "128,300", "257,131", "2,20000"}) {
    const std::string d = dims;
    SCOPED_TRACE(d);
    const std::string rows = d.substr(0, d.find(',')), columns = d.substr(d.find(',') + 1);
    EXPECT_EQ(
        check_text(
            "f { p = f32[" + d + "] parameter(0)\n q = f32[" + columns +
                "] parameter(1)\n s = f32[" + rows + "] parameter(2)\n bq = f32[" + d +
                "] broadcast(q), dimensions={1}\n bs = f32[" + d +
                "] broadcast(s), dimensions={0}\n m = f32[" + d + "] multiply(p, bq)\n a = f32[" +
                d + "] add(m, bs)\n ROOT e = f32[" + d + "] exponential(a) }\nENTRY e { p = f32[" +
                d + "] parameter(0)\n q = f32[" + columns + "] parameter(1)\n s = f32[" + rows +
                "] parameter(2)\n ROOT r = f32[" + d + "] fusion(p, q, s), kind=kLoop, calls=f }",
            totals),
        "");
    EXPECT_EQ(check_text("ENTRY e { p = f32[" + d + "] parameter(0)\n ROOT t = f32[" + columns +
                             "," + rows + "] transpose(p), dimensions={1,0} }",
                         totals),
              "");
  }
}

TEST(GpuLoops, LeaveTheCopyOfAnUpdateOutInPlace) {
  GpuCheck totals;
  EXPECT_EQ(check_text("ENTRY e { p = f32[100,40] parameter(0)\n u = f32[3,40] parameter(1)\n i = "
                       "s32[] parameter(2)\n j = s32[] parameter(3)\n ROOT r = f32[100,40] "
                       "dynamic-update-slice(p, u, i, j) }",
                       totals),
            "");
  EXPECT_EQ(totals.in_place, 1);
}

TEST(GpuLoops, UpdateSeveralArraysByWhatTheyReplace) {
  GpuCheck totals;
  EXPECT_EQ(
      check_text("f { w = f32[5,9,40] parameter(0)\n m = f32[5,9,40] parameter(1)\n g = f32[9,40] "
                 "parameter(2)\n i = s32[] parameter(3)\n z = s32[] constant(0)\n"
                 " wi = f32[1,9,40] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,9,40}\n"
                 " mi = f32[1,9,40] dynamic-slice(m, i, z, z), dynamic_slice_sizes={1,9,40}\n"
                 " gi = f32[1,9,40] reshape(g)\n m1 = f32[1,9,40] add(mi, gi)\n"
                 " w1 = f32[1,9,40] multiply(wi, m1)\n"
                 " wr = f32[5,9,40] dynamic-update-slice(w, w1, i, z, z)\n"
                 " mr = f32[5,9,40] dynamic-update-slice(m, m1, i, z, z)\n"
                 " ROOT r = (f32[5,9,40], f32[5,9,40]) tuple(wr, mr) }\n"
                 "ENTRY e { w = f32[5,9,40] parameter(0)\n m = f32[5,9,40] parameter(1)\n"
                 " g = f32[9,40] parameter(2)\n i = s32[] parameter(3)\n ROOT r = (f32[5,9,40], "
                 "f32[5,9,40]) fusion(w, m, g, i), kind=kLoop, calls=f }",
                 totals),
      "");
  EXPECT_EQ(totals.in_place, 1);
}

std::string reduce_of(const std::string& dtype, const std::string& dims, const std::string& result,
                      const std::string& reduced, const std::string& op) {
  return "r { x = " + dtype + "[] parameter(0)\n y = " + dtype +
         "[] parameter(1)\n ROOT s = " + dtype + "[] " + op + "(x, y) }\nENTRY e { a = " + dtype +
         "[" + dims + "] parameter(0)\n i = " + dtype + "[] parameter(1)\n ROOT o = " + dtype +
         "[" + result + "] reduce(a, i), dimensions={" + reduced + "}, to_apply=r }";
}

struct GpuReduction {
  const char *dims, *reduced, *result;
};

// Rows and columns around the edges of lanes, warps and blocks.
const GpuReduction kGpuReductions[] = {
    {"7,2", "1", "7"},
    {"40,3", "1", "40"},
    {"9,31", "1", "9"},
    {"5,255", "1", "5"},
    {"5,256", "1", "5"},
    {"3,321", "1", "3"},
    {"2,4097", "1", "2"},
    {"30000", "0", ""},
    {"50,300,20", "0,2", "300"},
    {"1,40", "0", "40"},
    {"3,700", "0", "700"},
    {"257,16", "0", "16"},
    {"600,1028", "0", "1028"},
    {"6,300,130", "1", "6,130"},
    {"0,4", "0", "4"},
    {"4,20,7,7", "0,2,3", "20"},
    // More blocks than a thread reads by itself.
    {"150000", "0", ""},
    {"9000,3", "0", "3"},
    {"8800,35", "0", "35"},
    {"3,140000", "1", "3"},
};

TEST(GpuReductions, KeepTheCpusOrder) {
  GpuCheck totals;
  for (const GpuReduction& c : kGpuReductions) {
    SCOPED_TRACE(c.dims);
    for (const char* dtype : {"f32", "bf16", "s32"}) {
      EXPECT_EQ(check_text(reduce_of(dtype, c.dims, c.result, c.reduced, "add"), totals), "");
    }
  }
}

// A thread takes several short rows, of which the last ones are missing.
TEST(GpuReductions, OfManyShortRowsKeepTheCpusOrder) {
  GpuCheck totals;
  for (const char* dims : {"16387,64", "131075,4"}) {
    SCOPED_TRACE(dims);
    const std::string rows = std::string(dims).substr(0, std::string(dims).find(','));
    EXPECT_EQ(check_text(reduce_of("f32", dims, rows, "1", "add"), totals), "");
  }
}

// Of more than 2048 blocks of 4096 elements, and so in larger ones.
TEST(GpuReductions, OfMoreThanTheMostBlocksKeepTheCpusOrder) {
  GpuCheck totals;
  EXPECT_EQ(check_text(reduce_of("f32", "8400001", "", "0", "add"), totals), "");
}

// A pair of results without an identity: lanes that took nothing must not be combined.
TEST(GpuReductions, FindTheLargestWithItsPosition) {
  GpuCheck totals;
  for (const GpuReduction& c : kGpuReductions) {
    SCOPED_TRACE(c.dims);
    const std::string d = c.dims, o = c.result;
    EXPECT_EQ(
        check_text(
            "r { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n j = "
            "s32[] parameter(3)\n g = pred[] compare(v, w), direction=GT\n q = pred[] compare(v, "
            "w), direction=EQ\n l = pred[] compare(i, j), direction=LT\n t = pred[] and(q, l)\n k "
            "= "
            "pred[] or(g, t)\n x = f32[] select(k, v, w)\n y = s32[] select(k, i, j)\n ROOT z = "
            "(f32[], s32[]) tuple(x, y) }\nENTRY e { a = f32[" +
                d + "] parameter(0)\n b = s32[" + d +
                "] parameter(1)\n m = f32[] parameter(2)\n n = s32[] parameter(3)\n ROOT o = "
                "(f32[" +
                o + "], s32[" + o + "]) reduce(a, b, m, n), dimensions={" + c.reduced +
                "}, to_apply=r }",
            totals),
        "");
  }
}

// In registers, in loops of a warp, and in blocks whose warps share a row.
TEST(GpuRows, KeepTheCpusOrderAtEveryLength) {
  constexpr std::int64_t kMinors[] = {2,   3,    9,    16,   33,   127,   256,  300,
                                      700, 1030, 3000, 4096, 4100, 20001, 40000};
  GpuCheck totals;
  for (std::size_t i = 0; i < std::size(kMinors); ++i) {
    const std::int64_t rows = kMinors[i] > 4000 ? 2 : 1 + static_cast<std::int64_t>(i * 7 % 30);
    const std::string text =
        cases::RandomRows(i, rows, kMinors[i], i % 5 == 4 ? "f64" : "f32").text();
    SCOPED_TRACE(text);
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const auto fusion = cases::fused_entry(*module);
    ASSERT_NE(fusion, nullptr);
    EXPECT_EQ(check_root_on_gpu(*fusion, arguments_for(*module->entry(), i), totals), "");
  }
  EXPECT_GT(totals.in_place, 1);
}

TEST(GpuFusions, OfRandomNeighboursHaveTheBitsOfTheCpu) {
  constexpr std::int64_t kExtents[] = {0, 1, 17, 64, 257};
  GpuCheck totals;
  const auto& table = cases::op_cases();
  for (std::size_t i = 0; i < table.size(); i += 7) {
    const std::int64_t extent = kExtents[i % std::size(kExtents)];
    const std::string hlo = extent > 0 ? cases::resized(table[i], extent) : table[i].hlo;
    if (hlo.empty()) continue;
    const auto program = parse(hlo);
    if (program == nullptr) continue;
    const auto module = cases::random_fusion(*program, i);
    if (module == nullptr) continue;
    const auto fusion = cases::fused_entry(*module);
    if (fusion == nullptr || !compiler().supports(*fusion->entry()->root())) continue;
    SCOPED_TRACE(table[i].name + "\n" + ir::to_text(*fusion));
    std::vector<cases::InputRange> ranges(module->entry()->parameters().size(),
                                          {-4, 4, i % 3 == 0});
    EXPECT_EQ(check_root_on_gpu(*fusion, cases::random_arguments(*module, i, ranges), totals), "");
  }
  EXPECT_GT(totals.kernels, 40);
}

// Two results of a part that nobody takes, and reductions that share the workspace.
TEST(GpuFusions, HorizontalPartsRunOneAfterTheOther) {
  GpuCheck totals;
  EXPECT_EQ(check_text(
                "s { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n"
                "f { p = f32[9000] parameter(0)\n z = f32[] constant(0)\n q = f32[9000] negate(p)\n"
                " r = f32[] reduce(p, z), dimensions={0}, to_apply=s\n ROOT t = (f32[9000], f32[]) "
                "tuple(q, r) }\n"
                "g { p = f32[50,30] parameter(0)\n ROOT q = f32[30,50] transpose(p), "
                "dimensions={1,0} }\n"
                "h { a = f32[9000] parameter(0)\n b = f32[50,30] parameter(1)\n x = (f32[9000], "
                "f32[]) fusion(a), kind=kInput, calls=f\n y = f32[30,50] fusion(b), kind=kLoop, "
                "calls=g\n r = f32[] get-tuple-element(x), index=1\n ROOT t = (f32[30,50], f32[]) "
                "tuple(y, r) }\n"
                "ENTRY e { a = f32[9000] parameter(0)\n b = f32[50,30] parameter(1)\n ROOT r = "
                "(f32[30,50], f32[]) fusion(a, b), kind=kLoop, calls=h }",
                totals),
            "");
  EXPECT_EQ(totals.kernels, 1);
}

}  // namespace
}  // namespace plimsoll::jit::testing
