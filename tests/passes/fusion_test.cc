// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

const char* const kSum =
    "HloModule m\nsum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
    "ROOT r = f32[] add(x, y) }\n";

Result<bool> fuse_by_the_table(ir::Module& module) { return fuse(module); }
std::string fused(const std::string& lines) { return entry_after(fuse_by_the_table, lines); }

int count(const ir::Computation& computation, ir::Opcode opcode) {
  return static_cast<int>(std::count_if(computation.instructions().begin(),
                                        computation.instructions().end(),
                                        [&](const auto& i) { return i->opcode() == opcode; }));
}

TEST(Fuse, MakesOneKernelOfAChain) {
  EXPECT_EQ(fused("x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n a = f32[64] add(x, y)\n"
                  "b = f32[64] exponential(a)\n ROOT c = f32[64] multiply(b, x)"),
            "fusion{multiply(exponential(add(p0, p1)), p0)}(p0, p1)");
}

TEST(Fuse, CopiesBroadcastsAndConstantsIntoEveryUser) {
  EXPECT_EQ(fused("x = f32[64] parameter(0)\n c = f32[] constant(2)\n"
                  "b = f32[64] broadcast(c), dimensions={}\n a = f32[64] add(x, b)\n"
                  "d = f32[64] multiply(x, b)\n"
                  "ROOT r = (f32[64], f32[64], f32[64]) tuple(a, d, b)"),
            "tuple(fusion{add(p0, broadcast(2))}(p0), fusion{multiply(p0, broadcast(2))}(p0), "
            "fusion{broadcast(2)}())");
}

// A polynomial of 40 terms, longer than one kernel, whose constants all stand before it.
// ((x x + c0) x + c1) x + ...: two operations for each of the constants, which all stand in front.
std::unique_ptr<ir::Module> polynomial(int terms) {
  std::string constants, text = "y0 = f32[64] multiply(x, x)\n";
  for (int i = 0; i < terms; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    constants += "c" + n + " = f32[] constant(" + n + ".5)\n b" + n + " = f32[64] broadcast(c" + n +
                 "), dimensions={}\n";
    text += "t" + n + " = f32[64] multiply(y" + n + ", x)\n y" + next + " = f32[64] add(t" + n +
            ", b" + n + ")\n";
  }
  return parse("HloModule m\nENTRY e {\n x = f32[64] parameter(0)\n" + constants + text +
               "ROOT r = f32[64] negate(y" + std::to_string(terms) + ")\n}");
}

TEST(Fuse, ReadsNoConstantAsAnArrayWhereverItStands) {
  const auto module = polynomial(100);
  ASSERT_TRUE(fuse(*module).value());
  const ir::Computation& entry = *module->entry();
  EXPECT_GT(count(entry, ir::Opcode::fusion), 1);
  for (const auto& instruction : entry.instructions()) {
    if (instruction->opcode() != ir::Opcode::fusion) continue;
    for (const ir::Instruction* operand : instruction->operands()) {
      const bool is_array = operand->shape().rank() > 0;
      EXPECT_TRUE(!is_array || operand->opcode() == ir::Opcode::parameter ||
                  operand->operand_count() > 0)
          << instruction->name() << " reads " << operand->name();
    }
  }
}

// Of what is spelled out in some hundred operations, with as many constants.
TEST(Fuse, MakesOneKernelOfALongFunction) {
  const auto module = polynomial(60);
  ASSERT_TRUE(fuse(*module).value());
  EXPECT_EQ(count(*module->entry(), ir::Opcode::fusion), 1);
}

TEST(Fuse, RepeatsWhatIsCheaperThanStoringIt) {
  EXPECT_EQ(fused("x = f32[64] parameter(0)\n e = f32[64] exponential(x)\n"
                  "a = f32[64] add(e, x)\n b = f32[64] multiply(e, x)\n"
                  "ROOT r = (f32[64], f32[64]) tuple(a, b)"),
            "tuple(fusion{add(exponential(p0), p0)}(p0), "
            "fusion{multiply(exponential(p0), p0)}(p0))");
}

// The kernel reads less than before.
TEST(Fuse, RepeatsWhatWidensASmallerOperand) {
  EXPECT_EQ(fused("x = bf16[512,1024] parameter(0)\n y = f32[512,1024] parameter(1)\n"
                  "w = f32[512,1024] convert(x)\n a = f32[512,1024] add(w, y)\n"
                  "b = f32[512,1024] multiply(w, y)\n"
                  "ROOT r = f32[512,2048] concatenate(a, b), dimensions={1}"),
            "fusion{concatenate(add(convert(p0), p1), multiply(convert(p0), p1))}(p0, p1)");
}

TEST(Fuse, NeverRepeatsWhatIsDearerThanReadingIt) {
  EXPECT_EQ(fused("x = f32[64] parameter(0)\n e = f32[64] exponential(x)\n"
                  "b = f32[32,64] broadcast(e), dimensions={1}\n y = f32[32,64] parameter(1)\n"
                  "ROOT r = f32[32,64] add(b, y)"),
            "fusion{add(broadcast(p0), p1)}(exponential(p0), p1)");
}

// Eight powers that two kernels read, fused for a device of these speeds; how many are left.
int powers_after_fusing(const KernelSpeeds& speeds) {
  const std::string power = "x = f32[65536] parameter(0)\n y = f32[65536] parameter(1)\n";
  std::string chain = "k0 = f32[65536] power(x, x)\n";
  for (int i = 1; i < 8; ++i) {
    const std::string last = "k" + std::to_string(i - 1);
    chain += "k" + std::to_string(i) + " = f32[65536] power(" + last + ", " + last + ")\n";
  }
  auto module = parse("HloModule m\nENTRY e {\n" + power + chain +
                      "a = f32[65536] add(k7, y)\n b = f32[65536] subtract(k7, y)\n"
                      "ROOT r = (f32[65536], f32[65536]) tuple(a, b) }");
  EXPECT_TRUE(*fuse(*module, speeds));
  int powers = 0;
  for (const auto& computation : module->computations()) {
    powers += count(*computation, ir::Opcode::power);
  }
  return powers;
}

TEST(Fuse, RepeatsWhereTheDeviceGainsByIt) {
  // Eight powers in each of two kernels against one stored array in the cache.
  EXPECT_LE(powers_after_fusing({}), 9);
  KernelSpeeds slow_to_launch;
  slow_to_launch.launch_seconds = 1e-3;
  EXPECT_EQ(powers_after_fusing(slow_to_launch), 16);
}

TEST(Fuse, ComputesOnceARowWhatARowShares) {
  EXPECT_EQ(fused("x = f32[32] parameter(0)\n e = f32[32] exponential(x)\n"
                  "b = f32[32,64] broadcast(e), dimensions={0}\n y = f32[32,64] parameter(1)\n"
                  "ROOT r = f32[32,64] add(b, y)"),
            "fusion{add(broadcast(exponential(p0)), p1)}(p0, p1)");
}

TEST(Fuse, ScalarsAreComputedInEveryKernelThatReadsThem) {
  EXPECT_EQ(fused("t = f32[] parameter(0)\n c = f32[] constant(0.5)\n s = f32[] power(c, t)\n"
                  "b = f32[4096] broadcast(s), dimensions={}\n x = f32[4096] parameter(1)\n"
                  "y = f32[512] parameter(2)\n d = f32[512] broadcast(s), dimensions={}\n"
                  "u = f32[4096] multiply(x, b)\n v = f32[512] divide(y, d)\n"
                  "ROOT r = (f32[4096], f32[512]) tuple(u, v)"),
            "tuple(fusion{multiply(p1, broadcast(power(0.5, p0)))}(p0, p1), "
            "fusion{divide(p1, broadcast(power(0.5, p0)))}(p0, p2))");
}

constexpr const char* kRows =
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,16}";

TEST(Fuse, GatherJoinsItsReadersAndTakesItsIndices) {
  EXPECT_EQ(fused(std::string("t = f32[99,16] parameter(0)\n i = s32[8] parameter(1)\n"
                              "j = s32[8] parameter(2)\n k = s32[8] add(i, j)\n"
                              "p = f32[8,16] parameter(3)\n g = f32[8,16] gather(t, k), ") +
                  kRows + "\n ROOT r = f32[8,16] add(g, p)"),
            "fusion{add(gather(p2, add(p0, p1)), p3)}(p1, p2, p0, p3)");
}

TEST(Fuse, GatherOfAComputedArrayIsCopiedOnlyWhereTheArrayIsNoLarger) {
  // Both readers would hold all of the table instead of a few rows.
  const std::string rows = kRows;
  EXPECT_EQ(fused("x = f32[999,16] parameter(0)\n y = f32[999,999] parameter(1)\n"
                  "t = f32[999,16] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                  "i = s32[8] parameter(2)\n g = f32[8,16] gather(t, i), " +
                  rows +
                  "\n a = f32[8,16] negate(g)\n b = f32[8,16] abs(g)\n"
                  "ROOT r = (f32[8,16], f32[8,16]) tuple(a, b)"),
            "tuple(negate(gather(dot(p1, p0), p2)), abs(gather(dot(p1, p0), p2)))");
}

TEST(Fuse, ReductionTakesPrologueAndEpilogueButNoBroadcastOfItself) {
  EXPECT_EQ(
      after(fuse_by_the_table, std::string(kSum) +
                                   "ENTRY e { x = f32[8,64] parameter(0)\n z = f32[] constant(0)\n"
                                   "q = f32[8,64] multiply(x, x)\n"
                                   "s = f32[64] reduce(q, z), dimensions={0}, to_apply=sum\n"
                                   "n = f32[64] sqrt(s)\n"
                                   "b = f32[8,64] broadcast(n), dimensions={1}\n"
                                   "ROOT r = f32[8,64] divide(x, b) }"),
      "fusion{divide(p1, broadcast(p0))}("
      "fusion{sqrt(reduce(multiply(p0, p0), 0))}(p0), p0)");
}

// Row sums of the first product are little beside it. Added to what two more products give, they
// are summed before those take memory; added to what is there they are not stored.
TEST(Fuse, SumsUpALargeArrayBeforeMoreIsMade) {
  const auto with = [](const std::string& other) {
    const std::string product =
        " = f32[256,256] dot({}, {}), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    const auto of = [&](const std::string& name, const std::string& a) {
      std::string text = name + product;
      for (int i = 0; i < 2; ++i) text.replace(text.find("{}"), 2, a);
      return text;
    };
    const auto module =
        parse(std::string(kSum) +
              "ENTRY e {\n x = f32[256,256] parameter(0)\n v = f32[256] parameter(1)\n" +
              of("a", "x") + of("b", "a") + of("c", "b") +
              "zero = f32[] constant(0)\n"
              "few = f32[256] reduce(a, zero), dimensions={1}, to_apply=sum\n"
              "late = f32[256] reduce(c, zero), dimensions={1}, to_apply=sum\n"
              "s = f32[256] add(few, " +
              other + ")\n ROOT r = (f32[256], f32[256]) tuple(s, late)\n}\n");
    EXPECT_TRUE(fuse(*module).value());
    return expression(*module->entry()->root()->operand(0));
  };
  EXPECT_EQ(with("v").find("fusion{add(reduce"), 0U) << with("v");
  EXPECT_EQ(with("late").find("add(reduce"), std::string::npos) << with("late");
}

TEST(Fuse, UpdateStaysTheRootOnAnOperandFromOutside) {
  EXPECT_EQ(fused("x = f32[64] parameter(0)\n y = f32[4] parameter(1)\n i = s32[] parameter(2)\n"
                  "n = f32[64] negate(x)\n m = f32[4] negate(y)\n"
                  "ROOT r = f32[64] dynamic-update-slice(n, m, i)"),
            "fusion{dynamic-update-slice(p1, negate(p0), p2)}(p1, negate(p0), p2)");
}

TEST(Fuse, UpdateReadsWhatItReplacesAndNothingElseOfItsArray) {
  const auto update = [](const std::string& from) {
    return fused(
        "x = f32[64] parameter(0)\n i = s32[] parameter(1)\n j = s32[] parameter(2)\n"
        "s = f32[4] " +
        from +
        ", dynamic_slice_sizes={4}\n n = f32[4] negate(s)\n"
        "ROOT r = f32[64] dynamic-update-slice(x, n, i)");
  };
  EXPECT_EQ(update("dynamic-slice(x, i)"),
            "fusion{dynamic-update-slice(p0, negate(dynamic-slice(p0, p1)), p1)}(p0, p1)");
  EXPECT_EQ(update("dynamic-slice(x, j)"),
            "fusion{dynamic-update-slice(p1, negate(p0), p2)}(dynamic-slice(p0, p2), p0, p1)");
}

TEST(Fuse, LeavesWhatHasControlEdges) {
  EXPECT_EQ(fused("x = f32[64] parameter(0)\n a = f32[64] negate(x)\n"
                  "b = f32[64] abs(x), control-predecessors={a}\n ROOT r = f32[64] add(a, b)"),
            "add(negate(p0), abs(p0))");
}

TEST(Fuse, SecondRunFindsNothing) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[64] parameter(0)\n a = f32[64] negate(x)\n"
      "ROOT r = f32[64] abs(a) }");
  EXPECT_TRUE(*fuse(*module));
  EXPECT_FALSE(*fuse(*module));
}

TEST(FuseMultiOutput, MergesReductionsOfTheSameArray) {
  auto module = parse(std::string(kSum) +
                      "ENTRY e { x = f32[8,64] parameter(0)\n y = f32[8,64] parameter(1)\n"
                      "z = f32[] constant(0)\n q = f32[8,64] multiply(x, y)\n"
                      "s = f32[64] reduce(q, z), dimensions={0}, to_apply=sum\n"
                      "t = f32[64] reduce(x, z), dimensions={0}, to_apply=sum\n"
                      "ROOT r = (f32[64], f32[64]) tuple(s, t) }");
  ASSERT_TRUE(*fuse(*module));
  ASSERT_TRUE(*fuse_multi_output(*module));
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  EXPECT_EQ(count(*module->entry(), ir::Opcode::fusion), 1);
}

TEST(FuseMultiOutput, MergesAProducerThatIsStoredAnyway) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[64] parameter(0)\n y = f32[64] parameter(1)\n"
      "a = f32[64] exponential(x)\n b = f32[64] multiply(a, y)\n"
      "ROOT r = (f32[64], f32[64]) tuple(a, b) }");
  ASSERT_TRUE(*fuse_multi_output(*module));
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  EXPECT_EQ(expression(*module->entry()->root()->operand(0)),
            "fusion{tuple(exponential(p0), multiply(exponential(p0), p1))}(p0, p1)#0");
}

TEST(FuseMultiOutput, MergesReadersOfPartsOfOneArray) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[64,3] parameter(0)\n"
      "a = f32[64,1] slice(x), slice={[0:64], [0:1]}\n b = f32[64,1] negate(a)\n"
      "c = f32[64,1] slice(x), slice={[0:64], [2:3]}\n d = f32[64,1] abs(c)\n"
      "ROOT r = (f32[64,1], f32[64,1]) tuple(b, d) }");
  ASSERT_TRUE(*fuse(*module));
  ASSERT_TRUE(*fuse_multi_output(*module));
  EXPECT_EQ(count(*module->entry(), ir::Opcode::fusion), 1);
}

TEST(FuseMultiOutput, NeverMakesACycle) {
  // b needs a through a dot, which no fusion can take in.
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[8,8] parameter(0)\n a = f32[8,8] exponential(x)\n"
      "d = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "b = f32[8,8] multiply(d, x)\n ROOT r = (f32[8,8], f32[8,8]) tuple(a, b) }");
  EXPECT_FALSE(*fuse_multi_output(*module));
}

// Batch norm on [N,C] with its gradient: every large array is read by few kernels.
TEST(Pipeline, BatchNormIsAHandfulOfKernels) {
  auto module = parse(std::string(kSum) + R"(
ENTRY e {
  x = f32[512,64] parameter(0)
  gamma = f32[64] parameter(1)
  beta = f32[64] parameter(2)
  g = f32[512,64] parameter(3)
  z = f32[] constant(0)
  n = f32[] constant(0.001953125)
  eps = f32[] constant(1e-5)
  nb = f32[64] broadcast(n), dimensions={}
  epsb = f32[64] broadcast(eps), dimensions={}
  s = f32[64] reduce(x, z), dimensions={0}, to_apply=sum
  mean = f32[64] multiply(s, nb)
  xx = f32[512,64] multiply(x, x)
  ss = f32[64] reduce(xx, z), dimensions={0}, to_apply=sum
  sq = f32[64] multiply(ss, nb)
  mm = f32[64] multiply(mean, mean)
  var = f32[64] subtract(sq, mm)
  ve = f32[64] add(var, epsb)
  rstd = f32[64] rsqrt(ve)
  meanb = f32[512,64] broadcast(mean), dimensions={1}
  rstdb = f32[512,64] broadcast(rstd), dimensions={1}
  gammab = f32[512,64] broadcast(gamma), dimensions={1}
  betab = f32[512,64] broadcast(beta), dimensions={1}
  xc = f32[512,64] subtract(x, meanb)
  xhat = f32[512,64] multiply(xc, rstdb)
  xg = f32[512,64] multiply(xhat, gammab)
  y = f32[512,64] add(xg, betab)
  zb = f32[512,64] broadcast(z), dimensions={}
  relu = f32[512,64] maximum(y, zb)
  mask = pred[512,64] compare(y, zb), direction=GT
  dy = f32[512,64] select(mask, g, zb)
  dbeta = f32[64] reduce(dy, z), dimensions={0}, to_apply=sum
  dyx = f32[512,64] multiply(dy, xhat)
  dgamma = f32[64] reduce(dyx, z), dimensions={0}, to_apply=sum
  a = f32[64] multiply(dbeta, nb)
  b = f32[64] multiply(dgamma, nb)
  ab = f32[512,64] broadcast(a), dimensions={1}
  bb = f32[512,64] broadcast(b), dimensions={1}
  bx = f32[512,64] multiply(xhat, bb)
  d1 = f32[512,64] subtract(dy, ab)
  d2 = f32[512,64] subtract(d1, bx)
  sc = f32[64] multiply(gamma, rstd)
  scb = f32[512,64] broadcast(sc), dimensions={1}
  dx = f32[512,64] multiply(d2, scb)
  ROOT r = (f32[512,64], f32[512,64], f32[64], f32[64]) tuple(relu, dx, dgamma, dbeta)
})");
  const Status status = optimize(*module);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(ir::verify(*module).ok()) << ir::verify(*module).message();
  int kernels = 0;
  for (const auto& instruction : module->entry()->instructions()) {
    const ir::OpClass op_class = op_info(instruction->opcode()).op_class;
    if (op_class != ir::OpClass::structure && instruction->opcode() != ir::Opcode::constant) {
      ++kernels;
    }
  }
  EXPECT_LE(kernels, 5) << ir::to_text(*module);
}

}  // namespace
}  // namespace plimsoll::passes
