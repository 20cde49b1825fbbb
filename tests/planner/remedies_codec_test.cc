// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/text/text.h"
#include "runtime/planner/facts/codec_choice.h"
#include "runtime/planner/options.h"

namespace plimsoll::planner {
namespace {

std::unique_ptr<ir::Module> parse_body(const std::string& body, const std::string& before = "") {
  auto module = ir::parse_module("HloModule m\n" + before + "\nENTRY e {\n" + body + "\n}", "test");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return module.ok() ? std::move(*module) : nullptr;
}

// The codec that the facts about `name` allow, as text.
std::string exact(const std::string& body, const std::string& name = "r", int leaf = 0,
                  const std::string& before = "") {
  const auto module = parse_body(body, before);
  if (module == nullptr) return "unparsed";
  const ir::Instruction* instruction = module->entry()->find(name);
  if (instruction == nullptr) return "no such instruction";
  FactFinder finder;
  const ir::DType dtype = ir::leaves(instruction->shape())[static_cast<std::size_t>(leaf)]->dtype();
  return to_string(exact_codec(finder.find(*instruction, leaf), dtype));
}

TEST(CodecChoice, NarrowsWhatIsProvedToFit) {
  const std::string p =
      "x = f32[8] parameter(0)\nv = f32[] constant(3)\ni = s32[8] parameter(1)\nh = bf16[8] "
      "parameter(2)\n"
      "k = s64[8] parameter(3)\nu = u8[8] parameter(4)\nq = pred[8] parameter(5)\n";
  EXPECT_EQ(exact(p + "ROOT r = pred[8] compare(x, x), direction=EQ"), "bit-mask");
  EXPECT_EQ(exact(p + "ROOT r = f32[8] convert(h)"), "narrow(bf16)");
  EXPECT_EQ(exact(p + "ROOT r = f32[8] convert(u)"), "narrow(u8)");
  EXPECT_EQ(exact(p + "ROOT r = f64[8] convert(i)"), "narrow(s32)");
  EXPECT_EQ(exact(p + "c = f32[8] convert(q)\nd = f32[8] broadcast(v), dimensions={}\n"
                      "ROOT r = f32[8] multiply(c, d)"),
            "narrow(u8)");
  EXPECT_EQ(exact(p + "ROOT r = s32[8,300] iota(), iota_dimension=1"), "narrow(u16)");
  EXPECT_EQ(exact(p + "a = s32[] constant(-5)\nb = s32[] constant(100)\n"
                      "ROOT r = s32[8] clamp(a, i, b)"),
            "narrow(s8)");
  EXPECT_EQ(exact(p + "m = s32[] constant(255)\nn = s32[8] broadcast(m), dimensions={}\n"
                      "ROOT r = s32[8] and(i, n)"),
            "narrow(u8)");
  EXPECT_EQ(exact(p + "z = f32[] constant(0)\nn = f32[8] broadcast(z), dimensions={}\n"
                      "c = f32[8] convert(h)\nROOT r = f32[8] maximum(c, n)"),
            "narrow(bf16)");
}

TEST(CodecChoice, LeavesWhatMightNotFit) {
  const std::string p =
      "x = f32[8] parameter(0)\ni = s32[8] parameter(1)\nh = bf16[8] parameter(2)\n"
      "u = u8[8] parameter(3)\n";
  EXPECT_EQ(exact(p + "ROOT r = f32[8] tanh(x)"), "none");
  // A sum of two bf16 is not one.
  EXPECT_EQ(exact(p + "c = f32[8] convert(h)\nROOT r = f32[8] add(c, c)"), "none");
  // Beyond 2^24 an f32 skips integers.
  EXPECT_EQ(exact(p + "ROOT r = f32[8] convert(i)"), "none");
  // The opposite of zero is a negative zero, which integers lack; bf16 has it.
  EXPECT_EQ(exact(p + "c = f32[8] convert(u)\nROOT r = f32[8] negate(c)"), "narrow(bf16)");
  // 200 + 200 wraps in u8, and not in s32.
  EXPECT_EQ(exact(p + "c = s32[8] convert(u)\nROOT r = s32[8] add(c, c)"), "narrow(u16)");
  EXPECT_EQ(exact(p + "ROOT r = u8[8] add(u, u)"), "none");
  // NaN has no place among integers.
  EXPECT_EQ(
      exact(p + "a = f32[] constant(0)\nb = f32[] constant(9)\nROOT r = f32[8] clamp(a, x, b)"),
      "none");
  EXPECT_EQ(exact("ROOT r = f32[2] constant({nan, 1})"), "none");
  EXPECT_EQ(exact("ROOT r = f32[2] constant({-0, 1})"), "narrow(bf16)");
}

TEST(CodecChoice, RemediesNameTheLossyCodec) {
  const auto bfloat16 = parse_remedies("lossy", "here");
  ASSERT_TRUE(bfloat16.ok());
  EXPECT_TRUE(bfloat16->lossy && bfloat16->compress && !bfloat16->swap);
  EXPECT_EQ(bfloat16->lossy_codec, CodecKind::bfloat16);
  EXPECT_EQ(to_string(*bfloat16), "compress,lossy");
  for (const std::string name : {"float16", "int8", "int4", "int2"}) {
    const auto remedies = parse_remedies("swap,lossy:" + name, "here");
    ASSERT_TRUE(remedies.ok()) << remedies.status().to_string();
    EXPECT_EQ(to_string(remedies->lossy_codec), name);
    EXPECT_EQ(to_string(*remedies), "compress,swap,lossy:" + name);
  }
  for (const std::string name : {"", "narrow", "int3", "none"}) {
    const auto remedies = parse_remedies("lossy:" + name, "here");
    EXPECT_EQ(remedies.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(remedies.status().message().find("here: lossy codec '" + name + "'"),
              std::string::npos);
  }
  EXPECT_FALSE(parse_remedies("lossily", "here").ok());
}

TEST(CodecChoice, LooksThroughFusions) {
  const std::string fused = R"(f {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  g = pred[8] compare(a, b), direction=GT
  n = f32[8] convert(g)
  m = f32[8] maximum(a, n)
  ROOT t = (f32[8], f32[8]) tuple(n, m)
})";
  const std::string body =
      "h = bf16[8] parameter(0)\nx = f32[8] parameter(1)\nc = f32[8] convert(h)\n"
      "ROOT r = (f32[8], f32[8]) fusion(c, x), kind=kLoop, calls=f";
  EXPECT_EQ(exact(body, "r", 0, fused), "narrow(u8)");
  EXPECT_EQ(exact(body, "r", 1, fused), "narrow(bf16)");
}

std::string comparison(const std::string& body, const std::string& reader, int operand,
                       const std::string& before = "") {
  const auto module = parse_body(body, before);
  if (module == nullptr) return "unparsed";
  const ir::Instruction* instruction = module->entry()->find(reader);
  const ir::Shape& shape = instruction->operand(operand)->shape();
  return to_string(comparison_of(*instruction, operand, shape.dtype()));
}

TEST(CodecChoice, KeepsTheOutcomeOfComparisonsWithOneConstant) {
  const std::string p =
      "x = f32[8] parameter(0)\ny = f32[8] parameter(1)\nz = f32[] constant(2)\n"
      "b = f32[8] broadcast(z), dimensions={}\nn = f32[] constant(nan)\n"
      "e = f32[8] broadcast(n), dimensions={}\n";
  EXPECT_EQ(comparison(p + "ROOT r = pred[8] compare(x, b), direction=GE", "r", 0),
            "compare-mask(ge, 2)");
  EXPECT_EQ(comparison(p + "ROOT r = pred[8] compare(b, x), direction=GE", "r", 1),
            "compare-mask(le, 2)");
  EXPECT_EQ(comparison(p + "ROOT r = pred[8] compare(x, y), direction=GE", "r", 0), "none");
  EXPECT_EQ(comparison(p + "ROOT r = pred[8] compare(x, e), direction=GE", "r", 0), "none");
  EXPECT_EQ(comparison(p + "ROOT r = f32[8] maximum(x, b)", "r", 0), "none");
  EXPECT_EQ(comparison(p + "ROOT r = pred[8] compare(x, b), direction=GT, type=TOTALORDER", "r", 0),
            "none");
}

TEST(CodecChoice, LooksAtAllThatAFusionReads) {
  const std::string p = "x = f32[8] parameter(0)\ng = f32[8] parameter(1)\n";
  const auto fused = [](const std::string& more) {
    return "f {\n a = f32[8] parameter(0)\n g = f32[8] parameter(1)\n z = f32[] constant(0)\n"
           " b = f32[8] broadcast(z), dimensions={}\n c = pred[8] compare(a, b), direction=GT\n" +
           more + "\n}";
  };
  const std::string call = p + "ROOT r = f32[8] fusion(x, g), kind=kLoop, calls=f";
  EXPECT_EQ(comparison(call, "r", 0, fused("ROOT s = f32[8] select(c, g, b)")),
            "compare-mask(gt, 0)");
  EXPECT_EQ(comparison(call, "r", 1, fused("ROOT s = f32[8] select(c, g, b)")), "none");
  EXPECT_EQ(comparison(call, "r", 0, fused("ROOT s = f32[8] select(c, a, b)")), "none");
  EXPECT_EQ(comparison(call, "r", 0,
                       fused("d = pred[8] compare(a, b), direction=GE\n"
                             "e = pred[8] and(c, d)\nROOT s = f32[8] select(e, g, b)")),
            "none");
}

}  // namespace
}  // namespace plimsoll::planner
