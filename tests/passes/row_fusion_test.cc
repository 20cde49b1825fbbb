// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

const char* const kReducers =
    "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\nROOT r = f32[] add(x, y) "
    "}\nmax { x = f32[] parameter(0)\n y = f32[] parameter(1)\nROOT r = f32[] maximum(x, y) }\n";

// Kernels of the optimized program.
int kernels_of(const std::string& text, const OptimizeOptions& options = {}) {
  auto module = parse(std::string(kReducers) + text);
  const Status status = optimize(*module, options);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  int kernels = 0;
  for (const auto& instruction : module->entry()->instructions()) {
    const ir::OpClass op_class = op_info(instruction->opcode()).op_class;
    if (op_class != ir::OpClass::structure && instruction->opcode() != ir::Opcode::constant) {
      ++kernels;
    }
  }
  return kernels;
}

std::string with_dims(std::string text, const std::string& rows, const std::string& minor) {
  for (const auto& [word, value] :
       {std::pair<std::string, std::string>{"$R", rows}, {"$M", minor}}) {
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word)) {
      text.replace(at, word.size(), value);
    }
  }
  return text;
}

constexpr const char* kSoftmax = R"(
  x = f32[$R,$M] parameter(0)
  z = f32[] constant(0)
  ninf = f32[] constant(-inf)
  m = f32[$R] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[$R,$M] broadcast(m), dimensions={0}
  c = f32[$R,$M] subtract(x, mb)
  e = f32[$R,$M] exponential(c)
  s = f32[$R] reduce(e, z), dimensions={1}, to_apply=sum
  sb = f32[$R,$M] broadcast(s), dimensions={0}
)";

std::string softmax(const std::string& rows, const std::string& minor) {
  return with_dims("ENTRY e {" + std::string(kSoftmax) + "  ROOT y = f32[$R,$M] divide(e, sb) }",
                   rows, minor);
}

TEST(FuseRows, SoftmaxIsOneKernel) {
  EXPECT_EQ(kernels_of(softmax("64", "100")), 1);
  EXPECT_EQ(kernels_of(softmax("512", "16384")), 1);
  EXPECT_EQ(kernels_of(softmax("70000", "2")), 1);
}

TEST(FuseRows, LeavesRowsThatNoCacheHolds) { EXPECT_GT(kernels_of(softmax("64", "200000")), 1); }

TEST(FuseRows, LeavesFewLongRowsToAllThreads) {
  EXPECT_GT(kernels_of(softmax("2", "60000")), 1);
  EXPECT_EQ(kernels_of(softmax("2", "600")), 1);
}

TEST(FuseRows, SoftmaxWithItsGradientIsTwoKernels) {
  EXPECT_EQ(kernels_of(with_dims("ENTRY e {" + std::string(kSoftmax) + R"(
  y = f32[$R,$M] divide(e, sb)
  w = f32[$M,$M] parameter(1)
  g = f32[$R,$M] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gy = f32[$R,$M] multiply(g, y)
  t = f32[$R] reduce(gy, z), dimensions={1}, to_apply=sum
  tb = f32[$R,$M] broadcast(t), dimensions={0}
  d = f32[$R,$M] subtract(g, tb)
  dx = f32[$R,$M] multiply(d, y)
  ROOT r = (f32[$R,$M], f32[$R,$M]) tuple(y, dx) })",
                                 "128", "64")),
            3);  // and the dot
}

TEST(FuseRows, CrossEntropyIsOneKernelUpToItsMean) {
  EXPECT_EQ(kernels_of(with_dims("ENTRY e {" + std::string(kSoftmax) + R"(
  label = s32[$R] parameter(1)
  lb = s32[$R,$M] broadcast(label), dimensions={0}
  i = s32[$R,$M] iota(), iota_dimension=1
  hit = pred[$R,$M] compare(i, lb), direction=EQ
  l = f32[$R] log(s)
  logb = f32[$R,$M] broadcast(l), dimensions={0}
  o = f32[$R,$M] subtract(c, logb)
  zb = f32[$R,$M] broadcast(z), dimensions={}
  h = f32[$R,$M] select(hit, o, zb)
  ROOT r = f32[$R] reduce(h, z), dimensions={1}, to_apply=sum })",
                                 "128", "1000")),
            1);
}

constexpr const char* kLayerNorm = R"(
  x = f32[$R,$M] parameter(0)
  w = f32[$M] parameter(1)
  b = f32[$M] parameter(2)
  z = f32[] constant(0)
  n = f32[] constant(0.01)
  nb = f32[$R,1] broadcast(n), dimensions={}
  s = f32[$R] reduce(x, z), dimensions={1}, to_apply=sum
  s1 = f32[$R,1] reshape(s)
  mean = f32[$R,1] multiply(s1, nb)
  mean0 = f32[$R] reshape(mean)
  mb = f32[$R,$M] broadcast(mean0), dimensions={0}
  c = f32[$R,$M] subtract(x, mb)
  cc = f32[$R,$M] multiply(c, c)
  v = f32[$R] reduce(cc, z), dimensions={1}, to_apply=sum
  v1 = f32[$R,1] reshape(v)
  var = f32[$R,1] multiply(v1, nb)
  ve = f32[$R,1] add(var, nb)
  rstd = f32[$R,1] rsqrt(ve)
  rstd0 = f32[$R] reshape(rstd)
  rb = f32[$R,$M] broadcast(rstd0), dimensions={0}
  h = f32[$R,$M] multiply(c, rb)
  wb = f32[$R,$M] broadcast(w), dimensions={1}
  bb = f32[$R,$M] broadcast(b), dimensions={1}
  hw = f32[$R,$M] multiply(h, wb)
  y = f32[$R,$M] add(hw, bb)
)";

TEST(FuseRows, LayerNormWithWhatTheGradientNeedsIsOneKernel) {
  EXPECT_EQ(kernels_of(with_dims("ENTRY e {" + std::string(kLayerNorm) +
                                     "ROOT r = (f32[$R,$M], f32[$R,$M], f32[$R,1]) tuple(y, c, "
                                     "rstd) }",
                                 "96", "200")),
            1);
}

constexpr const char* kLayerNormGradient = R"(ENTRY e {
  g = f32[$R,$M] parameter(0)
  h = f32[$R,$M] parameter(1)
  rstd = f32[$R] parameter(2)
  w = f32[$M] parameter(3)
  z = f32[] constant(0)
  n = f32[] constant(0.01)
  nb = f32[$R] broadcast(n), dimensions={}
  db = f32[$M] reduce(g, z), dimensions={0}, to_apply=sum
  gh = f32[$R,$M] multiply(g, h)
  dw = f32[$M] reduce(gh, z), dimensions={0}, to_apply=sum
  wb = f32[$R,$M] broadcast(w), dimensions={1}
  gw = f32[$R,$M] multiply(g, wb)
  gwh = f32[$R,$M] multiply(gw, h)
  s = f32[$R] reduce(gwh, z), dimensions={1}, to_apply=sum
  sm = f32[$R] multiply(s, nb)
  smb = f32[$R,$M] broadcast(sm), dimensions={0}
  hs = f32[$R,$M] multiply(h, smb)
  t = f32[$R] reduce(gw, z), dimensions={1}, to_apply=sum
  tm = f32[$R] multiply(t, nb)
  tmb = f32[$R,$M] broadcast(tm), dimensions={0}
  d1 = f32[$R,$M] subtract(gw, tmb)
  d2 = f32[$R,$M] subtract(d1, hs)
  rb = f32[$R,$M] broadcast(rstd), dimensions={0}
  dx = f32[$R,$M] multiply(d2, rb)
  ROOT r = (f32[$R,$M], f32[$M], f32[$M]) tuple(dx, dw, db) })";

TEST(FuseRows, GradientOfLayerNormIsOneKernelWithTheSumsOfColumns) {
  EXPECT_EQ(kernels_of(with_dims(kLayerNormGradient, "96", "200")), 1);
  EXPECT_EQ(kernels_of(with_dims(kLayerNormGradient, "4096", "1024")), 1);
  EXPECT_EQ(kernels_of(with_dims(kLayerNormGradient, "4096", "9")), 1);
}

TEST(FuseRows, SumsOfColumnsStayApartWhereRowsAreFewOrWideOrShort) {
  EXPECT_EQ(kernels_of(with_dims(kLayerNormGradient, "512", "1024")), 2);
  EXPECT_EQ(kernels_of(with_dims(kLayerNormGradient, "4096", "5000")), 2);
  EXPECT_EQ(kernels_of(with_dims(kLayerNormGradient, "40000", "8")), 2);
  // They are not for GPUs, nor for forms that are to hold little.
  const std::string text = with_dims(kLayerNormGradient, "4096", "1024");
  EXPECT_EQ(kernels_of(text, {.launches_cost = true}), 2);
  EXPECT_GT(kernels_of(text, {.fusion = Fusion::vertical}), 1);
}

// As JAX writes it: sums over dimensions of one element between the others.
TEST(FuseRows, SumsOfSingleElementsDoNotPartRows) {
  const std::string text = with_dims(R"(ENTRY e {
  x = f32[$R,$M] parameter(0)
  g = f32[$R,$M] parameter(1)
  z = f32[] constant(0)
  xx = f32[$R,$M] multiply(x, x)
  s = f32[$R] reduce(xx, z), dimensions={1}, to_apply=sum
  s1 = f32[$R,1] reshape(s)
  i = f32[$R,1] rsqrt(s1)
  i0 = f32[$R] reduce(i, z), dimensions={1}, to_apply=sum
  ib = f32[$R,$M] broadcast(i0), dimensions={0}
  n = f32[$R,$M] multiply(x, ib)
  ng = f32[$R,$M] multiply(n, g)
  dw = f32[$M] reduce(ng, z), dimensions={0}, to_apply=sum
  dw1 = f32[1,$M] reshape(dw)
  dw0 = f32[$M] reduce(dw1, z), dimensions={0}, to_apply=sum
  ROOT r = (f32[$R,$M], f32[$M]) tuple(n, dw0) })",
                                     "2048", "256");
  EXPECT_EQ(kernels_of(text), 1);
  // Forms that are to hold little keep them.
  EXPECT_GT(kernels_of(text, {.fusion = Fusion::narrow}),
            kernels_of(text, {.fusion = Fusion::vertical}));
}

TEST(FuseRows, NoRowNeedsWhatFollowsFromColumns) {
  const std::string text = with_dims(R"(ENTRY e {
  x = f32[$R,$M] parameter(0)
  z = f32[] constant(0)
  ninf = f32[] constant(-inf)
  m = f32[$R] reduce(x, ninf), dimensions={1}, to_apply=max
  mb = f32[$R,$M] broadcast(m), dimensions={0}
  d = f32[$R,$M] subtract(x, mb)
  c = f32[$M] reduce(d, z), dimensions={0}, to_apply=sum
  cb = f32[$R,$M] broadcast(c), dimensions={1}
  y = f32[$R,$M] multiply(d, cb)
  ROOT s = f32[$R] reduce(y, z), dimensions={1}, to_apply=sum })",
                                     "2048", "256");
  EXPECT_EQ(kernels_of(text), 2);
}

TEST(FuseRows, RowsMustBeTheSame) {
  // The second reduction runs along a dimension in between.
  EXPECT_GT(kernels_of(R"(ENTRY e {
  x = f32[8,8,64] parameter(0)
  z = f32[] constant(0)
  s = f32[8,8] reduce(x, z), dimensions={2}, to_apply=sum
  sb = f32[8,8,64] broadcast(s), dimensions={0,1}
  d = f32[8,8,64] subtract(x, sb)
  ROOT t = f32[8,64] reduce(d, z), dimensions={1}, to_apply=sum })"),
            1);
  // A row's sum is read by the elements of another row.
  EXPECT_GT(kernels_of(R"(ENTRY e {
  x = f32[64,64] parameter(0)
  z = f32[] constant(0)
  s = f32[64] reduce(x, z), dimensions={1}, to_apply=sum
  sb = f32[64,64] broadcast(s), dimensions={1}
  ROOT d = f32[64,64] subtract(x, sb) })"),
            1);
}

// Two large inputs that are needed no more once their row is summed, beside two others.
TEST(FuseRows, HoldsNoMoreThanTheKernelsApart) {
  const std::string text = R"(ENTRY e {
  x = f32[512,512] parameter(0)
  z = f32[] constant(0)
  a = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[512,512] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ab = f32[512,512] multiply(a, b)
  abx = f32[512,512] multiply(ab, x)
  s = f32[512] reduce(abx, z), dimensions={1}, to_apply=sum
  c = f32[512,512] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  sb = f32[512,512] broadcast(s), dimensions={0}
  d = f32[512,512] multiply(x, sb)
  ROOT r = f32[512,512] multiply(d, c) })";
  EXPECT_EQ(kernels_of(text), 5);
}

TEST(FuseRows, SecondRunFindsNothing) {
  auto module = parse(std::string(kReducers) + softmax("64", "100"));
  ASSERT_TRUE(*fuse(*module));
  EXPECT_TRUE(*fuse_rows(*module));
  EXPECT_FALSE(*fuse_rows(*module));

  module = parse(kReducers + with_dims(kLayerNormGradient, "2048", "256"));
  ASSERT_TRUE(*fuse(*module));
  EXPECT_TRUE(*fuse_rows(*module));
  EXPECT_TRUE(*fuse_columns(*module));
  EXPECT_FALSE(*fuse_columns(*module));
}

TEST(ReduceSingle, IsTheOperationOnTheElementAndTheInitialValue) {
  const auto reduced = [](const std::string& type, const std::string& initial,
                          const std::string& operation) {
    return after(reduce_single, "HloModule m\nf { a = " + type + "[] parameter(0)\n b = " + type +
                                    "[] parameter(1)\nROOT c = " + type + "[] " + operation +
                                    "(a, b) }\nENTRY e { x = " + type +
                                    "[4,1] parameter(0)\n i = " + type + "[] " + initial +
                                    "\nROOT r = " + type +
                                    "[4] reduce(x, i), dimensions={1}, to_apply=f }\n");
  };
  EXPECT_EQ(reduced("f32", "constant(0)", "add"), "add(broadcast(0), reshape(p0))");
  EXPECT_EQ(reduced("bf16", "parameter(1)", "maximum"), "maximum(broadcast(p1), reshape(p0))");
  EXPECT_EQ(reduced("f32", "constant(0)", "subtract"), "reduce(p0, 0)");
  EXPECT_EQ(reduced("pred", "parameter(1)", "or"), "reduce(p0, p1)");
}

}  // namespace
}  // namespace plimsoll::passes
