// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

// The message must start with the place and contain what is wrong.
void expect_error(std::string_view text, std::string_view place, std::string_view part) {
  const auto module = parse_module(text, "bad.hlo");
  ASSERT_FALSE(module.ok()) << text;
  EXPECT_EQ(module.status().code(), StatusCode::invalid_argument);
  const std::string& message = module.status().message();
  EXPECT_TRUE(message.starts_with("bad.hlo:" + std::string(place) + ": ")) << message << "\n"
                                                                           << text;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(HloTextError, NamesLineAndColumnAndWhatWasExpected) {
  expect_error("", "1:1", "expected a computation, found the end of the text");
  expect_error("HloModule", "1:10", "expected the module's name");
  expect_error("main {\n  x = f32[4 parameter(0)\n}", "2:13", "expected ']'");
  expect_error("main {\n  x = f32[4] paramter(0)\n}", "2:14",
               "expected an opcode, found 'paramter'");
  expect_error("main {\n  x = f32[4] parameter(0)\n", "3:1", "found the end of the text");
  expect_error("x = f32[4] parameter(0)\n  /* cut off", "2:3", "a comment without a closing '*/'");
  expect_error("x = f32[4] parameter( /*/ 0)", "1:23", "a comment without a closing '*/'");
  expect_error("x = f32[4] parameter(0)\ny = f32[4] add(x, z)", "2:19", "'z' is not defined");
  expect_error("x = f32[4] parameter(0)\nx = f32[4] negate(x)", "2:1", "'x' is already defined");
  expect_error("x = f32[4] parameter(0)\ny = f32[5] negate(x)", "2:1", "negate");
  expect_error("x = f32[4] parameter(0)\ny = f32[4] negate(f32[5] x)", "2:19",
               "expected shape f32[4], that of 'x', found f32[5]");
  expect_error("x = f32[4] parameter(0)\ny = f32[4] add(x)", "2:1", "expected 2 operands of add");
  expect_error("x = f32[4] parameter(0)\ny = f32[4] reshape(x), a=b, a=c", "2:29", "given twice");
  expect_error("x = f32[4] parameter(0)\ny = reshape(x)", "2:1", "expected the shape of reshape");
  expect_error("x = f32[4] parameter(0)\ny = f32[4] transpose(x)", "2:1", "attribute 'dimensions'");
  expect_error("x = f32[4] parameter(0)\ny = f32[4] call(x), to_apply=f", "2:30", "'f' is not");
  expect_error("x = f32[4] parameter(1)", "1:1", "expected parameter numbers below 1");
  expect_error("x = c65[4] parameter(0)", "1:5", "a shape of element type pred");
  expect_error("x = f32[<=4] parameter(0)", "1:9", "dynamic sizes are not supported");
  expect_error("x = f32[1,1,1,1,1,1,1,1,1,1,1] parameter(0)", "1:29", "at most 10 dimensions");
  expect_error("x = f32[9000000000,9000000000] parameter(0)", "1:5", "2^56 bytes");
  expect_error("x = f32[0,9000000000,9000000000] parameter(0)", "1:5", "2^56 bytes");
  expect_error("x = f32[4,4]{0,0} parameter(0)", "1:13", "expected a layout");
  expect_error("x = f32[4,4]{1,0:T(8)S (3)} parameter(0)", "1:22", "'S(' and a memory space");
  expect_error("x = f32[4] parameter(0) y", "1:26", "expected '='");
  expect_error("x = f32[4] custom-call(), custom_call_target=\"abc", "1:46", "no closing '\"'");
  expect_error("x = f32[4] parameter(0), metadata={a={b}", "1:35", "no closing '}'");
  expect_error("x = f32[4] parameter(0), metadata={a=(b}", "1:40", "expected ')'");
}

TEST(HloTextError, RefusesWhatContradictsItself) {
  expect_error("ENTRY a { x = f32[] parameter(0) }\nENTRY b { x = f32[] parameter(0) }", "2:7",
               "expected one ENTRY");
  expect_error("ENTRY a { ROOT x = f32[] parameter(0)\n ROOT y = f32[] negate(x) }", "2:7",
               "expected one ROOT");
  expect_error("a { x = f32[] parameter(0) }\na { x = f32[] parameter(0) }", "2:1",
               "'a' is already defined");
  expect_error("a (x: f32[]) -> f32[2] { x = f32[] parameter(0) }", "1:1", "expected a result");
  expect_error(
      "x = f32[3] parameter(0)\ny = f32[1] parameter(1)\n"
      "z = f32[3] reduce-window(x, y), window={pad=1_1}, to_apply=f",
      "3:40", "expected a size of the window");
  expect_error("a { x = f32[] negate(y)\n y = f32[] negate(x) }", "1:5", "needs itself");
  expect_error("a { x = f32[] parameter(0) ROOT c = f32[] call(x), to_apply=a }", "1:1",
               "calls itself");
  expect_error(
      "HloModule m, is_scheduled=true\nENTRY a { y = f32[] negate(x)\n x = f32[] "
      "parameter(0) }",
      "2:11", "scheduled");
  expect_error("t = (f32[], f32[]) parameter(0)\nx = f32[] negate(t#2)", "2:18",
               "expected a tuple with an element 2");
}

TEST(HloTextError, BoundsDepthAndSize) {
  std::string nested = "x = ";
  for (int i = 0; i < 100000; ++i) nested += "(";
  EXPECT_FALSE(parse_module(nested).ok());
  nested = "x = f32[] parameter(0) y = f32[] ";
  for (int i = 0; i < 100000; ++i) nested += "negate(";
  EXPECT_FALSE(parse_module(nested).ok());
  nested = "x = f32[] parameter(0) y = f32[] call(x), to_apply=";
  for (int i = 0; i < 10000; ++i) nested += "{ y = f32[] call(x), to_apply=";
  EXPECT_FALSE(parse_module(nested).ok());
  std::string doubled = "x0 = f32[] parameter(0)\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = "x" + std::to_string(i - 1);
    doubled += "x" + std::to_string(i) + " = tuple(" + before + ", " + before + ")\n";
  }
  EXPECT_FALSE(parse_module(doubled).ok());
  std::string chain = "f0 { x = f32[] parameter(0) }\n";
  for (int i = 1; i < 2000; ++i) {
    chain += "f" + std::to_string(i) + " { x = f32[] parameter(0) y = f32[] call(x), to_apply=f" +
             std::to_string(i - 1) + " }\n";
  }
  EXPECT_FALSE(parse_module(chain).ok());
  EXPECT_FALSE(parse_module("x = f32[4] parameter(1000000000)").ok());
}

// What kernels and the interpreter index by.
TEST(HloTextError, CollectivesAreCheckedAgainstTheirAttributes) {
  const auto error_of = [](const std::string& operation) {
    const auto module = parse_module(
        "HloModule m, replica_count=4\n"
        "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "wide { a = f64[] parameter(0) b = f64[] parameter(1) ROOT s = f64[] add(a, b) }\n"
        "half { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT s = bf16[] add(a, b) }\n"
        "mixed { a = f32[] parameter(0) b = bf16[] parameter(1) ROOT s = f32[] add(a, b) }\n"
        "one { a = f32[] parameter(0) ROOT s = f32[] negate(a) }\n"
        "rows { a = f32[2] parameter(0) b = f32[2] parameter(1) z = f32[] constant(0) "
        "ROOT s = f32[] reduce(a, z), dimensions={0}, to_apply=sum }\n"
        "ENTRY e {\n  x = f32[4,8] parameter(0)\n  y = f32[4] parameter(1)\n"
        "  n = s32[4] parameter(2)\n  m = s32[8] parameter(3)\n  h = bf16[4] parameter(4)\n"
        "  ROOT r = " +
        operation + "\n}\n");
    return module.ok() ? "" : module.status().message();
  };
  const auto expect_error = [&](const std::string& operation, const std::string& what) {
    EXPECT_NE(error_of(operation).find(what), std::string::npos)
        << operation << error_of(operation);
  };
  // Of a reducer's dtypes, and of a result's.
  expect_error("f32[4,8] all-reduce(x), to_apply=wide",
               "'wide' makes f64 of f64 and f64, must make f32 of two to reduce f32[4,8]");
  expect_error("f32[4,8] all-reduce-start(x), to_apply=half", "makes bf16 of bf16 and bf16");
  expect_error("f32[4,2] reduce-scatter(x), dimensions={1}, to_apply=mixed",
               "'mixed' makes f32 of f32 and bf16, must make f32");
  expect_error("s32[4] all-reduce(n), to_apply=sum", "must make s32 of two to reduce s32[4]");
  expect_error("(f32[4,8], s32[4]) all-reduce(x, n), to_apply=sum", "to reduce s32[4]");
  expect_error("bf16[4] all-reduce(h), to_apply=wide", "must make bf16 of two, or f32 of two,");
  EXPECT_EQ(error_of("bf16[4] all-reduce(h), to_apply=half"), "");
  EXPECT_EQ(error_of("bf16[4] all-reduce(h), to_apply=sum"), "");
  expect_error("f32[4] all-reduce(h), to_apply=sum",
               "result f32[4] of bf16[4]: dtypes must be the same (convert one)");
  expect_error("(bf16[4,8], f32[4]) all-reduce(x, y), to_apply=sum", "bf16[4,8]");
  // Rows of x to others, in a result like x.
  EXPECT_EQ(error_of("f32[4,8] ragged-all-to-all(x, x, n, n, n, n)"), "");
  expect_error("f32[4,8] ragged-all-to-all(x, y, n, n, n, n)", "must be alike but in dim 0");
  expect_error(
      "f32[4] ragged-all-to-all(y, y, n, n, y, n)",
      "operand 4 is f32[4], must be a vector of s32, s64, u32 or u64 as long as operand 2");
  expect_error("f32[4] ragged-all-to-all(y, y, n, n, n, m)", "operand 5 is s32[8], must be");
  expect_error("f32[4] ragged-all-to-all(y, y, n, n, n)", "6 operands");
  const std::string scalars = "must take two scalars and return one";
  for (const std::string name : {"one", "rows"}) {
    expect_error("f32[4,8] all-reduce(x), to_apply=" + name, scalars);
    expect_error("f32[4,8] all-reduce-start(x), to_apply=" + name, scalars);
    expect_error("f32[4,2] reduce-scatter(x), dimensions={1}, to_apply=" + name, scalars);
  }
  expect_error("f32[4,8] all-reduce-start(x)", "one to_apply=");
  expect_error("f32[4,2] reduce-scatter(x), dimensions={1}", "one to_apply=");
  expect_error("f32[4,2] reduce-scatter(x), to_apply=sum", "needs one dimension");
  expect_error("f32[4,2] reduce-scatter(x), dimensions={2}, to_apply=sum", "out of range");
  expect_error("f32[16,8] all-gather(x), dimensions={-1}", "out of range");
  expect_error("(f32[4,8], f32[16,8]) all-gather-start(x)", "needs one dimension");
  expect_error("(f32[4,8], f32[16,8]) all-gather-start(x), dimensions={3}", "out of range");
  expect_error("(f32[4,8], f32[16,9]) all-gather-start(x), dimensions={0}", "do not fit");
  expect_error("(f32[4,9], f32[16,8]) all-gather-start(x), dimensions={0}", "must be (operands");
  expect_error("f32[16,8] all-gather-start(x), dimensions={0}", "must be (operands");
  expect_error("f32[4,8] all-to-all(x), dimensions={2}", "out of range");
  expect_error("(f32[4,8], f32[4]) all-to-all(x, y), dimensions={1}", "out of range");
  expect_error("(f32[4,8], f32[8,8]) collective-permute-start(x), source_target_pairs={{0,1}}",
               "result is f32[8,8], not f32[4,8]");
  expect_error("((f32[4,8]), f32[4], u32[]) async-start(x), calls=one", "must be f32[4,8]");
  expect_error("f32[4,8] all-reduce(x), replica_groups={{},{0,1,2,3}}, to_apply=sum",
               "a group without members");
  EXPECT_EQ(error_of("(f32[4,8], f32[16,8]) all-gather-start(x), dimensions={0}"), "");
}

constexpr std::string_view kSeed = R"(HloModule seed, input_output_alias={ {0}: (0, {}, may-alias) }
sum (a: f32[], b: f32[]) -> f32[] {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body { s = (s32[], f32[4,8]{1,0}) parameter(0) ROOT t = tuple(add(s#0, s32[] constant(1)), s#1) }
cond { s = (s32[], f32[4,8]) parameter(0) ROOT c = compare(s#0, s32[] constant(9)), direction=LT }
ENTRY %main {
  %x = f32[4,8]{1,0:T(8)S(1)} parameter(0), sharding={devices=[2,1]<=[2]}
  %k = f32[2,8] constant({{1,2,3,4,5,6,7,inf},{-1,nan,0x,1e3,0,0,0,0}})
  w = (s32[], f32[4,8]) while(tuple(s32[] constant(0), x)), condition=cond, body=body
  r = f32[4] reduce(w#1, f32[] constant(0)), dimensions={1}, to_apply=sum
  p = f32[9] pad(r, f32[] constant(0)), padding=1_1_1
  g = f32[9] all-reduce(p), replica_groups=[1,2]<=[2], to_apply=sum
  ROOT %out = (f32[4,8], f32[9]) tuple(x, g), control-predecessors={k}
}
)";

TEST(HloTextError, SurvivesMutatedText) {
  std::mt19937 random(11);
  const std::string alphabet = "{}[]()=,%#:<>-\"/* \n0129abfsTROx_.";
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text(kSeed);
    text.replace(text.find("0x"), 2, "2");
    const int edits = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < edits; ++i) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, 1, static_cast<char>(random() % 256));
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    const auto module = parse_module(text, "bad.hlo");
    if (module.ok()) {
      ++accepted;
      const std::string printed = to_text(**module);
      const auto again = parse_module(printed);
      ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text << "\n" << printed;
      EXPECT_EQ(printed, to_text(**again));
    } else {
      EXPECT_TRUE(module.status().message().starts_with("bad.hlo:")) << module.status().message();
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(TextErrors, OpcodesWithoutAMeaningHereAreNamed) {
  for (const std::string opcode : {"dynamic-reshape", "get-dimension-size", "set-dimension-size"}) {
    const auto module =
        parse_module("ENTRY e { a = f32[4] parameter(0)\n  ROOT r = f32[4] " + opcode + "(a) }");
    EXPECT_EQ(module.status().code(), StatusCode::unimplemented);
    EXPECT_NE(module.status().message().find("2:19: '" + opcode + "' is not supported"),
              std::string::npos)
        << module.status().message();
  }
}

}  // namespace
}  // namespace plimsoll::ir
