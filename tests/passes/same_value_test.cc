// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/collectives/same_value.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// Whether the two operands of the entry's root are the same.
bool same(const std::string& entry, const std::string& others = "") {
  const auto module = parse("HloModule m\n" + others + "ENTRY e {\n" + entry + "\n}\n");
  if (module == nullptr) return false;
  const ir::Instruction& root = *module->entry()->root();
  return SameValues(*module).same(*root.operand(0), *root.operand(1));
}

std::string pair(const std::string& lines, const std::string& type = "f32[2]") {
  return lines + " ROOT t = (" + type + ", " + type + ") tuple(a, b)";
}

TEST(SameValues, OperationsOnConstants) {
  EXPECT_TRUE(same(pair(" a = f32[2] constant({1,2})\n b = f32[2] constant({1,2})\n")));
  EXPECT_FALSE(same(pair(" a = f32[2] constant({1,2})\n b = f32[2] constant({1,3})\n")));
  const std::string c = " c = f32[2] constant({1,2})\n d = f32[2] constant({1,2})\n";
  EXPECT_TRUE(same(pair(c + " a = f32[2] tanh(c)\n b = f32[2] tanh(d)\n")));
  EXPECT_FALSE(same(pair(c + " a = f32[2] tanh(c)\n b = f32[2] negate(d)\n")));
  const std::string rows = " c = f32[2,2] constant({{1,2},{3,4}})\n";
  EXPECT_FALSE(same(pair(rows + " a = f32[1,2] slice(c), slice={[0:1], [0:2]}\n"
                                " b = f32[1,2] slice(c), slice={[1:2], [0:2]}\n",
                         "f32[1,2]")));
}

TEST(SameValues, ParametersAndParticipantsDiffer) {
  EXPECT_FALSE(same(pair(" a = f32[2] parameter(0)\n b = f32[2] parameter(1)\n")));
  EXPECT_TRUE(same(" a = f32[2] parameter(0)\n ROOT t = (f32[2], f32[2]) tuple(a, a)"));
  EXPECT_FALSE(same(pair(" a = u32[] partition-id()\n b = u32[] partition-id()\n", "u32[]")));
  EXPECT_FALSE(same(pair(" a = f32[2] constant({...})\n b = f32[2] constant({...})\n")));
}

constexpr const char* kSum =
    "sum {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT s = f32[] add(p, q)\n}\n";

TEST(SameValues, AllReducesOfOneChannel) {
  const auto of = [](const std::string& first, const std::string& second) {
    return same(
        pair(" x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n"
             " a = f32[2] all-reduce(x), " +
             first + "to_apply=sum\n b = f32[2] all-reduce(y), " + second + "to_apply=sum\n"),
        kSum);
  };
  EXPECT_TRUE(of("channel_id=1, ", "channel_id=1, "));
  EXPECT_FALSE(of("channel_id=1, ", "channel_id=2, "));
  EXPECT_FALSE(of("", ""));
}

TEST(SameValues, ElementsOfTuples) {
  const std::string both =
      " c = f32[2] constant({1,2})\n d = f32[2] constant({1,2})\n x = f32[2] parameter(0)\n"
      " both = (f32[2], f32[2], f32[2]) tuple(c, d, x)\n a = f32[2] get-tuple-element(both), "
      "index=0\n b = f32[2] get-tuple-element(both), index=";
  EXPECT_TRUE(same(pair(both + "1\n")));
  EXPECT_FALSE(same(pair(both + "2\n")));
}

// A loop whose state is (x, y); `body` makes the next of each. `start` makes `c` and `d`.
std::string loop(const std::string& body) {
  return "more {\n s = (f32[2], f32[2]) parameter(0)\n ROOT more = pred[] constant(false)\n}\n"
         "body {\n s = (f32[2], f32[2]) parameter(0)\n x = f32[2] get-tuple-element(s), index=0\n"
         " y = f32[2] get-tuple-element(s), index=1\n" +
         body + " ROOT t = (f32[2], f32[2]) tuple(u, v)\n}\n";
}
std::string of_loop(const std::string& second) {
  return pair(" c = f32[2] constant({1,2})\n d = f32[2] constant(" + second +
              ")\n start = (f32[2], f32[2]) tuple(c, d)\n"
              " loop = (f32[2], f32[2]) while(start), condition=more, body=body\n"
              " a = f32[2] get-tuple-element(loop), index=0\n"
              " b = f32[2] get-tuple-element(loop), index=1\n");
}

TEST(SameValues, ElementsOfLoops) {
  const std::string alike = " u = f32[2] add(x, x)\n v = f32[2] add(y, y)\n";
  EXPECT_TRUE(same(of_loop("{1,2}"), loop(alike)));
  EXPECT_FALSE(same(of_loop("{1,3}"), loop(alike)));
  EXPECT_FALSE(same(of_loop("{1,2}"), loop(" u = f32[2] add(x, x)\n v = f32[2] multiply(y, y)\n")));
  // They change places.
  EXPECT_TRUE(same(of_loop("{1,2}"), loop(" u = f32[2] copy(y)\n v = f32[2] copy(x)\n")));
  EXPECT_FALSE(same(of_loop("{1,3}"), loop(" u = f32[2] copy(y)\n v = f32[2] copy(x)\n")));
}

TEST(SameValues, LoopsInLoops) {
  const auto nested = [](const std::string& inner) {
    std::string text = loop(inner);
    for (const char* name : {"more", "body"}) {
      text.replace(text.find(std::string(name) + " {"), 4, std::string("inner_") + name);
    }
    return text + loop(
                      " start = (f32[2], f32[2]) tuple(x, y)\n"
                      " within = (f32[2], f32[2]) while(start), condition=inner_more, "
                      "body=inner_body\n u = f32[2] get-tuple-element(within), index=0\n"
                      " v = f32[2] get-tuple-element(within), index=1\n");
  };
  EXPECT_TRUE(same(of_loop("{1,2}"), nested(" u = f32[2] add(x, x)\n v = f32[2] add(y, y)\n")));
  EXPECT_FALSE(same(of_loop("{1,2}"), nested(" u = f32[2] add(x, x)\n v = f32[2] negate(y)\n")));
}

TEST(SameValues, Branches) {
  const auto branch = [](const std::string& name, const std::string& second) {
    return name +
           " {\n s = (f32[2], f32[2]) parameter(0)\n x = f32[2] get-tuple-element(s), "
           "index=0\n y = f32[2] get-tuple-element(s), index=1\n u = f32[2] negate(x)\n v = "
           "f32[2] " +
           second + "(y)\n ROOT t = (f32[2], f32[2]) tuple(u, v)\n}\n";
  };
  const auto of = [](const std::string& second) {
    return pair(" p = pred[] parameter(0)\n c = f32[2] constant({1,2})\n d = f32[2] constant(" +
                second +
                ")\n s = (f32[2], f32[2]) tuple(c, d)\n"
                " r = (f32[2], f32[2]) conditional(p, s, s), true_computation=yes, "
                "false_computation=no\n a = f32[2] get-tuple-element(r), index=0\n"
                " b = f32[2] get-tuple-element(r), index=1\n");
  };
  EXPECT_TRUE(same(of("{1,2}"), branch("yes", "negate") + branch("no", "negate")));
  EXPECT_FALSE(same(of("{1,3}"), branch("yes", "negate") + branch("no", "negate")));
  EXPECT_FALSE(same(of("{1,2}"), branch("yes", "negate") + branch("no", "tanh")));
}

}  // namespace
}  // namespace plimsoll::passes
