// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

std::string simplified(const std::string& lines) { return entry_after(simplify, lines); }

TEST(Simplify, DropsNeutralOperands) {
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n one = f32[] constant(1)\n"
                       "b = f32[4] broadcast(one), dimensions={}\n ROOT r = f32[4] multiply(x, b)"),
            "p0");
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n z = f32[4] constant({0, 0, 0, 0})\n"
                       "ROOT r = f32[4] subtract(x, z)"),
            "p0");
  EXPECT_EQ(simplified("x = s32[] parameter(0)\n z = s32[] constant(0)\n"
                       "ROOT r = s32[] multiply(x, z)"),
            "0");
}

TEST(Simplify, KeepsWhatChangesTheSignOfZero) {
  EXPECT_EQ(simplified("x = f32[] parameter(0)\n z = f32[] constant(0)\n"
                       "ROOT r = f32[] add(x, z)"),
            "add(p0, 0)");
  EXPECT_EQ(simplified("x = f32[] parameter(0)\n z = f32[] constant(-0)\n"
                       "ROOT r = f32[] add(x, z)"),
            "p0");
  EXPECT_EQ(simplified("x = f32[] parameter(0)\n z = f32[] constant(-0)\n"
                       "ROOT r = f32[] subtract(x, z)"),
            "subtract(p0, -0)");
  EXPECT_EQ(simplified("x = f32[] parameter(0)\n z = f32[] constant(0)\n"
                       "ROOT r = f32[] multiply(x, z)"),
            "multiply(p0, 0)");
}

TEST(Simplify, TakesChangesOfMeaningBackUnlessBitsAreLost) {
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n b = s32[4] bitcast-convert(x)\n"
                       "ROOT r = f32[4] bitcast-convert(b)"),
            "p0");
  EXPECT_EQ(simplified("x = pred[4] parameter(0)\n b = u8[4] bitcast-convert(x)\n"
                       "ROOT r = pred[4] bitcast-convert(b)"),
            "p0");
  EXPECT_EQ(simplified("x = u8[4] parameter(0)\n b = pred[4] bitcast-convert(x)\n"
                       "ROOT r = u8[4] bitcast-convert(b)"),
            "bitcast-convert(bitcast-convert(p0))");
}

TEST(Simplify, DividesByPowersOfTwoByMultiplying) {
  EXPECT_EQ(simplified("x = f32[] parameter(0)\n c = f32[] constant(8)\n"
                       "ROOT r = f32[] divide(x, c)"),
            "multiply(p0, 0.125)");
  EXPECT_EQ(simplified("x = f32[] parameter(0)\n c = f32[] constant(3)\n"
                       "ROOT r = f32[] divide(x, c)"),
            "divide(p0, 3)");
}

TEST(Simplify, ComposesMovement) {
  EXPECT_EQ(simplified("x = f32[2,3,4] parameter(0)\n"
                       "a = f32[3,4,2] transpose(x), dimensions={1,2,0}\n"
                       "ROOT r = f32[2,3,4] transpose(a), dimensions={2,0,1}"),
            "p0");
  EXPECT_EQ(simplified("x = f32[2,6] parameter(0)\n a = f32[12] reshape(x)\n"
                       "ROOT r = f32[3,4] reshape(a)"),
            "reshape(p0)");
  EXPECT_EQ(simplified("x = f32[1,6] parameter(0)\n"
                       "ROOT r = f32[6,1] transpose(x), dimensions={1,0}"),
            "reshape(p0)");
  EXPECT_EQ(simplified("x = f32[3] parameter(0)\n a = f32[3,4] broadcast(x), dimensions={0}\n"
                       "ROOT r = f32[2,3,4] broadcast(a), dimensions={1,2}"),
            "broadcast(p0)");
}

TEST(Simplify, ComposesSlices) {
  EXPECT_EQ(simplified("x = f32[10] parameter(0)\n a = f32[8] slice(x), slice={[1:9]}\n"
                       "ROOT r = f32[3] slice(a), slice={[2:7:2]}"),
            "slice(p0)");
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
                       "c = f32[8] concatenate(x, y), dimensions={0}\n"
                       "ROOT r = f32[4] slice(c), slice={[4:8]}"),
            "p1");
  EXPECT_EQ(simplified("x = f32[8] parameter(0)\n i = s32[] constant(30)\n"
                       "ROOT r = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}"),
            "slice(p0)");
}

TEST(Simplify, ASelectionOfTruthsIsItsPredicate) {
  const std::string truths =
      "x = pred[4] parameter(0)\n t = pred[] constant(true)\n f = pred[] constant(false)\n"
      "ts = pred[4] broadcast(t), dimensions={}\n fs = pred[4] broadcast(f), dimensions={}\n";
  EXPECT_EQ(simplified(truths + "ROOT r = pred[4] select(x, ts, fs)"), "p0");
  EXPECT_EQ(simplified(truths + "ROOT r = pred[4] select(x, fs, ts)"), "not(p0)");
}

TEST(Simplify, MergesConversionsThatLoseNothing) {
  EXPECT_EQ(simplified("x = bf16[4] parameter(0)\n a = f32[4] convert(x)\n"
                       "ROOT r = bf16[4] convert(a)"),
            "p0");
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n a = bf16[4] convert(x)\n"
                       "ROOT r = f32[4] convert(a)"),
            "convert(convert(p0))");
  EXPECT_EQ(simplified("x = s8[4] parameter(0)\n a = s32[4] convert(x)\n"
                       "ROOT r = f32[4] convert(a)"),
            "convert(p0)");
  EXPECT_EQ(simplified("x = s32[4] parameter(0)\n a = f32[4] convert(x)\n"
                       "ROOT r = f64[4] convert(a)"),
            "convert(convert(p0))");
}

TEST(Simplify, SinksBroadcastsBelowElementwiseOperations) {
  EXPECT_EQ(simplified("x = f32[3] parameter(0)\n c = f32[] constant(2)\n"
                       "a = f32[3,4] broadcast(x), dimensions={0}\n"
                       "b = f32[3,4] broadcast(c), dimensions={}\n"
                       "ROOT r = f32[3,4] add(a, b)"),
            "broadcast(add(p0, broadcast(2)))");
}

TEST(Simplify, FoldsSmallConstants) {
  EXPECT_EQ(simplified("a = f32[] constant(2)\n b = f32[] constant(3)\n c = f32[] add(a, b)\n"
                       "x = f32[4] parameter(0)\n d = f32[4] broadcast(c), dimensions={}\n"
                       "ROOT r = f32[4] add(x, d)"),
            "add(p0, broadcast(5))");
}

// Weights of four gates in another order, transposed: moved once, to the same bits.
TEST(Simplify, MovesConstantsThatAreReadInAnotherOrder) {
  std::string numbers;
  for (int i = 0; i < 8; ++i) {
    numbers += (i > 0 ? ", {" : "{");
    for (int k = 0; k < 20; ++k) numbers += (k > 0 ? ", " : "") + std::to_string(i * 20 + k);
    numbers += "}";
  }
  const std::string text = "w = f32[8,20] constant({" + numbers +
                           "})\n"
                           "a = f32[4,20] slice(w), slice={[0:4], [0:20]}\n"
                           "b = f32[4,20] slice(w), slice={[4:8], [0:20]}\n"
                           "c = f32[8,20] concatenate(b, a), dimensions={0}\n"
                           "t = f32[20,8] transpose(c), dimensions={1,0}\n"
                           "v = f32[20,8] reverse(t), dimensions={1}\n"
                           "r = f32[160] reshape(v)\n"
                           "x = f32[160] parameter(0)\n";
  EXPECT_EQ(simplified(text + "ROOT s = f32[160] add(x, r)"), "add(p0, constantf32[160])");
  const auto module = parse("HloModule m\nENTRY e {\n" + text + "ROOT s = f32[160] add(x, r)\n}");
  const ir::Literal zero(ir::Shape(ir::DType::f32, {160}));
  const auto before = ir::interpret(*module, {&zero, 1});
  ASSERT_TRUE(simplify(*module).ok());
  const auto moved = ir::interpret(*module, {&zero, 1});
  ASSERT_TRUE(before.ok() && moved.ok());
  EXPECT_EQ(*before, *moved);
  EXPECT_EQ(before->at(0), 60);  // v[0, 0] is t[0, 7], c[7, 0] and w[3, 0]
  // What is read as it is, too, is not there twice.
  EXPECT_EQ(simplified("w = f32[2,100] constant({...})\n"
                       "t = f32[100,2] transpose(w), dimensions={1,0}\n"
                       "u = f32[2,100] reshape(t)\n"
                       "ROOT s = f32[2,100] add(w, u)"),
            "add(constantf32[2,100], reshape(transpose(constantf32[2,100])))");
}

TEST(Simplify, LeavesElidedConstantsAlone) {
  EXPECT_EQ(simplified("a = f32[100] constant({...})\n b = f32[100] constant({...})\n"
                       "ROOT r = f32[100] add(a, b)"),
            "add(constantf32[100], constantf32[100])");
}

TEST(Simplify, DecidesWhatConstantsDecide) {
  const std::string branches =
      "HloModule m\nf { x = f32[] parameter(0)\n ROOT r = f32[] negate(x) }\n"
      "g { x = f32[] parameter(0)\n ROOT r = f32[] exponential(x) }\n";
  EXPECT_EQ(
      after(simplify, branches + "ENTRY e { x = f32[] parameter(0)\n p = pred[] constant(false)\n"
                                 "ROOT r = f32[] conditional(p, x, x), true_computation=f, "
                                 "false_computation=g }"),
      "exponential(p0)");
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n y = f32[4] parameter(1)\n"
                       "p = pred[] constant(true)\n"
                       "b = pred[4] broadcast(p), dimensions={}\n"
                       "ROOT r = f32[4] select(b, x, y)"),
            "p0");
}

// A dot over other dims may add in another order.
TEST(Simplify, KeepsTransposesBeforeDots) {
  EXPECT_EQ(simplified("x = f32[5,2] parameter(0)\n y = f32[5,3] parameter(1)\n"
                       "t = f32[2,5] transpose(x), dimensions={1,0}\n"
                       "ROOT r = f32[2,3] dot(t, y), lhs_contracting_dims={1}, "
                       "rhs_contracting_dims={0}"),
            "dot(transpose(p0), p1)");
}

TEST(Simplify, LeavesControlDependenciesAlone) {
  EXPECT_EQ(simplified("x = f32[4] parameter(0)\n a = f32[4] negate(x)\n"
                       "b = f32[4] negate(a), control-predecessors={a}\n"
                       "ROOT r = f32[4] add(b, a)"),
            "add(negate(negate(p0)), negate(p0))");
}

// What is left of `text` whose results are those of the text, bit by bit.
std::string with_same_results(const std::string& text) {
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  if (!module.ok()) return "";
  auto before = (*module)->clone();
  EXPECT_TRUE(simplify(**module).ok());
  EXPECT_TRUE(ir::verify(**module).ok());
  std::vector<ir::Literal> arguments;
  for (const ir::Instruction* parameter : before->entry()->parameters()) {
    arguments.emplace_back(parameter->shape());
    for (std::int64_t i = 0; i < parameter->shape().element_count(); ++i) {
      arguments.back().set(i, i % 3 == 0 ? -0.0 : static_cast<double>(i % 7) - 3);
    }
  }
  const auto a = ir::interpret(*before, arguments), b = ir::interpret(**module, arguments);
  EXPECT_TRUE(a.ok() && b.ok());
  if (a.ok() && b.ok()) {
    EXPECT_EQ(*a, *b) << text;
  }
  return expression(*(*module)->entry()->root());
}

// As JAX writes the gradient of an average over windows side by side.
std::string spread_sum(const std::string& padding, const std::string& result,
                       const std::string& windows, const std::string& fold = "add",
                       const std::string& from = "0") {
  return "HloModule m\nf { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] " + fold +
         "(a, b) }\nENTRY e { x = f32[2,3,4] parameter(0)\n z = f32[] constant(0)\n i = f32[] "
         "constant(" +
         from + ")\n p = pad(x, z), padding=" + padding + "\n ROOT r = f32[" + result +
         "] reduce-window(p, i), window={size=" + windows + "}, to_apply=f }\n";
}

TEST(Simplify, RepeatsElementsThatWindowsHaveOneOf) {
  EXPECT_EQ(with_same_results(spread_sum("0_0x1_1_1x2_2_2", "2,6,12", "1x2x3")),
            "reshape(broadcast(add(p0, broadcast(0))))");
  // The last row was in no window.
  EXPECT_EQ(with_same_results(spread_sum("0_0x1_2_1x0_0", "2,7,4", "1x2x1")),
            "pad(reshape(broadcast(add(p0, broadcast(0)))), 0)");
  for (const std::string& other :
       {spread_sum("0_0x1_1_1x2_2_2", "2,6,12", "1x2x3", "maximum"),
        spread_sum("0_0x1_1_1x2_2_2", "2,6,12", "1x2x3", "add", "1"),
        spread_sum("0_0x1_1_1x2_2_2", "2,6,13", "1x2x2"),     // some windows are empty
        spread_sum("0_0x1_1_1x1_1_1", "2,6,7", "1x2x3"),      // or have two
        spread_sum("0_0x0_1_1x2_2_2", "2,5,12", "1x2x3")}) {  // or begin elsewhere
    EXPECT_EQ(with_same_results(other).substr(0, 13), "reduce-window") << other;
  }
}

TEST(Simplify, MultipliesWhereADotAddsNothingUp) {
  // An outer product.
  EXPECT_EQ(with_same_results("HloModule m\nENTRY e { x = f32[5] parameter(0)\n y = f32[7] "
                              "parameter(1)\n ROOT d = f32[5,7] dot(x, y) }\n"),
            "add(multiply(broadcast(p0), broadcast(p1)), broadcast(0))");
  // Element by element, in another order of dims.
  EXPECT_EQ(with_same_results(
                "HloModule m\nENTRY e { x = f32[3,4] parameter(0)\n y = f32[4,3] parameter(1)\n "
                "ROOT d = f32[4,3] dot(x, y), lhs_batch_dims={1,0}, rhs_batch_dims={0,1} }\n"),
            "add(multiply(transpose(p0), p1), broadcast(0))");
  // Contracted dims of one element, between others.
  EXPECT_EQ(with_same_results(
                "HloModule m\nENTRY e { x = f64[4,1,3] parameter(0)\n y = f64[1,5,3] "
                "parameter(1)\n ROOT d = f64[3,4,5] dot(x, y), lhs_batch_dims={2}, "
                "rhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"),
            "add(multiply(broadcast(transpose(reshape(p0))), "
            "broadcast(transpose(reshape(p1)))), broadcast(0))");
  // Integers have no -0.
  EXPECT_EQ(with_same_results("HloModule m\nENTRY e { x = s32[5,1] parameter(0)\n y = s32[1] "
                              "parameter(1)\n ROOT d = s32[5] dot(x, y), "
                              "lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"),
            "multiply(reshape(p0), broadcast(reshape(p1)))");
  // Sums of several, and products that are wider than their operands, stay.
  for (const char* other :
       {"x = f32[5,2] parameter(0)\n y = f32[2] parameter(1)\n ROOT d = f32[5] dot(x, y), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "x = bf16[5] parameter(0)\n y = bf16[7] parameter(1)\n ROOT d = f32[5,7] dot(x, y)"}) {
    EXPECT_EQ(
        with_same_results("HloModule m\nENTRY e { " + std::string(other) + " }\n").substr(0, 3),
        "dot");
  }
}

// An update that is left out, of one array and of a tuple; by a pred and by a number, as JAX writes
// both.
TEST(Simplify, SelectsBetweenBranchesThatAreLittleWork) {
  const auto text = [](const std::string& which, const std::string& done) {
    return "HloModule m\nkept { p = (f32[4], f32[]) parameter(0)\n ROOT x = f32[4] "
           "get-tuple-element(p), index=0 }\ndone { p = (f32[4], f32[]) parameter(0)\n x = f32[4] "
           "get-tuple-element(p), index=0\n s = f32[] get-tuple-element(p), index=1\n b = f32[4] "
           "broadcast(s), dimensions={}\n ROOT y = f32[4] " +
           done + " }\nENTRY e { c = " + which +
           " parameter(0)\n x = f32[4] parameter(1)\n s = f32[] parameter(2)\n t = (f32[4], f32[]) "
           "tuple(x, s)\n ROOT r = f32[4] conditional(c, t, t), " +
           (which == "pred[]" ? "true_computation=done, false_computation=kept"
                              : "branch_computations={kept, done}") +
           " }\n";
  };
  EXPECT_EQ(with_same_results(text("pred[]", "multiply(x, b)")),
            "select(broadcast(p0), multiply(p1, broadcast(p2)), p1)");
  EXPECT_EQ(with_same_results(text("s32[]", "multiply(x, b)")),
            "select(broadcast(compare(p0, 0)), p1, multiply(p1, broadcast(p2)))");
  EXPECT_EQ(with_same_results(text("pred[]", "tanh(x)")).substr(0, 11), "conditional");
}

}  // namespace
}  // namespace plimsoll::passes
