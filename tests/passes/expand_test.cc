// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/interpreter/interpreter.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

Result<bool> expanded(ir::Module& module) {
  PLIMSOLL_RETURN_IF_ERROR(expand(module));
  return true;
}

TEST(Expand, TakesCustomCallsThatAreTheIdentityOnOneDevice) {
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8,8] parameter(0)\n"
                        "ROOT s = f32[8,8] custom-call(x), custom_call_target=\"Sharding\", "
                        "sharding={replicated}"),
            "p0");
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n y = f32[8] negate(x)\n"
                        "a = f32[8] custom-call(y), custom_call_target=\"SPMDFullToShardShape\"\n"
                        "b = f32[8] custom-call(a), custom_call_target=\"MoveToHost\"\n"
                        "ROOT s = f32[8] tanh(b)"),
            "tanh(negate(p0))");
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n i = s32[] parameter(1)\n"
                        "s = (f32[8], s32[]) custom-call(x, i), "
                        "custom_call_target=\"LayoutConstraint\"\n"
                        "ROOT r = f32[8] get-tuple-element(s), index=0"),
            "tuple(p0, p1)#0");
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n"
                        "ROOT s = f32[8] custom-call(x), custom_call_target=\"other\""),
            "custom-call(p0)");
}

TEST(Expand, TakesCopiesOfTuplesAsTheTuples) {
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[8] parameter(0)\n y = (f32[8], f32[8]) tuple(x, x)\n"
                        "c = (f32[8], f32[8]) copy(y)\n"
                        "ROOT s = f32[8] get-tuple-element(c), index=1"),
            "tuple(p0, p0)#1");
  EXPECT_EQ(entry_after(expanded, "x = f32[8] parameter(0)\n ROOT c = f32[8] copy(x)"), "copy(p0)");
}

TEST(Expand, TakesAsynchronousComputationsAsCallsUnlessTheyMeetOthers) {
  const auto after = [](const std::string& inner, const std::string& entry) {
    auto module = parse("HloModule m\ninner { p = f32[8] parameter(0)\n" + inner +
                        " }\nENTRY e { x = f32[8] parameter(0)\n" + entry + " }");
    EXPECT_TRUE(expand(*module).ok());
    const Status valid = ir::verify(*module);
    EXPECT_TRUE(valid.ok()) << valid.message();
    return std::to_string(module->entry()->instruction_count()) + " " +
           expression(*module->entry()->root());
  };
  const std::string several = "t = f32[8] tanh(p)\n ROOT r = f32[8] multiply(t, p)";
  const std::string type = "((f32[8]), f32[8], u32[])";
  const std::string halves = "s = " + type + " async-start(x), calls=inner\n u = " + type +
                             " async-update(s)\n v = " + type + " async-update(u)\n";
  EXPECT_EQ(after(several, halves + "ROOT d = f32[8] async-done(v)"), "2 call(p0)");
  EXPECT_EQ(after(several, halves + "d = f32[8] async-done(v)\n ROOT n = f32[8] negate(d)"),
            "3 negate(call(p0))");
  EXPECT_EQ(after("ROOT r = f32[8] collective-broadcast(p), replica_groups={{0}}",
                  halves + "ROOT d = f32[8] async-done(v)"),
            "5 async-done(async-update(async-update(async-start(p0))))");
}

TEST(Expand, RefusesCustomCallsThatMeanSeveralPartitions) {
  auto module = parse(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n"
      "ROOT s = f32[4] custom-call(x), custom_call_target=\"SPMDFullToShardShape\" }");
  const Status status = expand(*module);
  EXPECT_EQ(status.code(), StatusCode::unimplemented);
  EXPECT_EQ(
      status.message(),
      "'s': the custom call 'SPMDFullToShardShape' makes f32[4] of f32[8], which takes several "
      "partitions (the program has 1)");
}

TEST(Expand, TakesCallsAndConditionalsInReducersAsWhatTheyCompute) {
  const auto reducer_of = [](const std::string& computations, const std::string& root) {
    auto module = parse("HloModule m\n" + computations +
                        "r { a = f32[] parameter(0)\n b = f32[] parameter(1)\n" + root +
                        " }\nENTRY e { x = f32[16] parameter(0)\n z = f32[] constant(0)\n" +
                        "ROOT s = f32[] reduce(x, z), dimensions={0}, to_apply=r }");
    EXPECT_TRUE(expand(*module).ok());
    const Status valid = ir::verify(*module);
    EXPECT_TRUE(valid.ok()) << valid.message();
    return expression(*module->entry()->root()->to_apply()->root());
  };
  const std::string functions =
      "where { p = pred[] parameter(0)\n x = f32[] parameter(1)\n y = f32[] parameter(2)\n"
      "ROOT s = f32[] select(p, x, y) }\n"
      "larger { x = f32[] parameter(0)\n y = f32[] parameter(1)\n"
      "p = pred[] compare(x, y), direction=GT\n ROOT c = f32[] call(p, x, y), to_apply=where }\n"
      "pair { x = f32[] parameter(0)\n n = f32[] negate(x)\n ROOT t = (f32[], f32[]) tuple(x, n) "
      "}\n"
      "swapped { x = f32[] parameter(0)\n ROOT t = (f32[], f32[]) tuple(x, x) }\n";
  EXPECT_EQ(reducer_of(functions, "ROOT c = f32[] call(a, b), to_apply=larger"),
            "select(compare(p0, p1), p0, p1)");
  EXPECT_EQ(reducer_of(functions,
                       "p = pred[] compare(a, b), direction=GT\n"
                       "c = (f32[], f32[]) conditional(p, a, b), true_computation=pair, "
                       "false_computation=swapped\n ROOT g = f32[] get-tuple-element(c), index=1"),
            "select(compare(p0, p1), negate(p0), p1)");
  EXPECT_EQ(reducer_of("id { x = f32[] parameter(0)\n ROOT n = f32[] copy(x) }\n"
                       "no { x = f32[] parameter(0)\n ROOT n = f32[] negate(x) }\n",
                       "i = s32[] convert(a)\n ROOT c = f32[] conditional(i, a, b, b), "
                       "branch_computations={id, no, id}"),
            "select(compare(convert(p0), 0), copy(p0), select(compare(convert(p0), 1), negate(p1), "
            "copy(p1)))");
}

TEST(Expand, TakesScalarBitcastsToAnotherTypeAsBitcastConvert) {
  auto module = parse(
      "HloModule m\nless { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      "c = s32[] bitcast(a)\n d = s32[] bitcast(b)\n"
      "ROOT lt = pred[] compare(c, d), direction=LT }\n"
      "ENTRY e { x = f32[16] parameter(0)\n"
      "ROOT s = f32[16] sort(x), dimensions={0}, to_apply=less }");
  ASSERT_TRUE(expand(*module).ok());
  EXPECT_TRUE(ir::verify(*module).ok());
  EXPECT_EQ(expression(*module->entry()->root()->to_apply()->root()),
            "compare(bitcast-convert(p0), bitcast-convert(p1))");
}

TEST(Expand, LeavesBitcastsThatAreViews) {
  EXPECT_EQ(entry_after(expanded, "x = f32[2,2] parameter(0)\n ROOT b = s32[4] bitcast(x)"),
            "bitcast(p0)");
  EXPECT_EQ(entry_after(expanded, "x = f32[] parameter(0)\n ROOT b = f32[] bitcast(x)"),
            "bitcast(p0)");
}

TEST(Expand, TakesTheLargestAsAStableSort) {
  EXPECT_EQ(entry_after(expanded,
                        "x = f32[4,8] parameter(0)\n"
                        "ROOT t = (f32[4,3], s32[4,3]) topk(x), k=3, largest=true"),
            "tuple(slice(sort(p0, iota())#0), slice(sort(p0, iota())#1))");
}

TEST(Expand, KeepsTheFewLargestWhereThereIsAKernel) {
  const auto kept = [](const std::string& text) {
    auto module = ir::parse_module(text);
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    EXPECT_TRUE(expand(**module, {.keeps_top_k = true}).ok());
    EXPECT_TRUE(ir::verify(**module).ok());
    return expression(*(*module)->entry()->root());
  };
  const auto entry = [](const std::string& lines) { return "ENTRY e {\n" + lines + " }\n"; };
  EXPECT_EQ(
      kept("HloModule m\n" + entry("x = f32[4,8] parameter(0)\n"
                                   "ROOT t = (f32[4,2], s32[4,2]) topk(x), k=2, largest=true")),
      "topk(p0)");
  // As many as a sort would have to order.
  EXPECT_EQ(
      kept("HloModule m\n" + entry("x = f32[4,8] parameter(0)\n"
                                   "ROOT t = (f32[4,3], s32[4,3]) topk(x), k=3, largest=true")),
      "tuple(slice(sort(p0, iota())#0), slice(sort(p0, iota())#1))");
  const auto call = [&](const std::string& comparison) {
    return kept(
        "HloModule m\norder { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] "
        "parameter(2) d = s32[] parameter(3) ROOT r = pred[] " +
        comparison + " }\n" +
        entry("x = f32[4,8] parameter(0)\n"
              "ROOT t = (f32[4,2], s32[4,2]) custom-call(x), "
              "custom_call_target=\"TopK\", called_computations={order}"));
  };
  EXPECT_EQ(call("compare(a, b), direction=GT, type=TOTALORDER"), "topk(p0)");
  EXPECT_EQ(call("compare(c, d), direction=GT"),
            "tuple(slice(sort(p0, iota())#0), slice(sort(p0, iota())#1))");
  EXPECT_EQ(call("compare(a, b), direction=GT"),
            "tuple(slice(sort(p0, iota())#0), slice(sort(p0, iota())#1))");
}

TEST(Expand, ChoosesTheFirstOfASortWithPlaces) {
  const auto chosen = [](const std::string& comparison, const std::string& rest) {
    auto module = ir::parse_module(
        "HloModule m\norder { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] "
        "parameter(2) d = s32[] parameter(3) ROOT r = pred[] " +
        comparison +
        " }\nENTRY e {\nx = f32[4,40] parameter(0)\ni = s32[40] iota(), iota_dimension=0\n"
        "p = s32[4,40] broadcast(i), dimensions={1}\n"
        "s = (f32[4,40], s32[4,40]) sort(x, p), dimensions={1}, is_stable=true, to_apply=order\n"
        "v = f32[4,40] get-tuple-element(s), index=0\nw = s32[4,40] get-tuple-element(s), "
        "index=1\n" +
        rest + " }\n");
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    EXPECT_TRUE(expand(**module, {.keeps_top_k = true}).ok());
    EXPECT_TRUE(ir::verify(**module).ok()) << ir::verify(**module).to_string();
    return expression(*(*module)->entry()->root());
  };
  const std::string largest = "compare(a, b), direction=GT, type=TOTALORDER";
  const std::string both =
      "f = f32[4,8] slice(v), slice={[0:4], [0:8]}\ng = s32[4,3] slice(w), slice={[0:4], [0:3]}\n"
      "ROOT t = (f32[4,8], s32[4,3]) tuple(f, g)";
  EXPECT_EQ(chosen(largest, both), "tuple(topk(p0)#0, slice(topk(p0)#1))");
  EXPECT_EQ(chosen(largest, "ROOT f = s32[4,8] slice(w), slice={[0:4], [0:8]}"), "topk(p0)#1");
  const auto stays = [&](const std::string& comparison, const std::string& rest) {
    EXPECT_EQ(chosen(comparison, rest).find("topk"), std::string::npos) << comparison << rest;
  };
  stays("compare(a, b), direction=GT", both);                   // NaNs are in no order
  stays("compare(b, a), direction=GE, type=TOTALORDER", both);  // the last of equal ones first
  stays(largest, "ROOT f = f32[4,8] slice(v), slice={[0:4], [1:9]}");
  stays(largest, "ROOT f = f32[4,30] slice(v), slice={[0:4], [0:30]}");
  stays(largest, "ROOT f = f32[4,40] negate(v)");
}

TEST(Expand, SolvesFromTheRightUnlessTheTextSaysLeft) {
  const auto side = [](const std::string& b, const std::string& attributes) {
    auto module =
        ir::parse_module("a = f32[4,4] parameter(0)\n b = " + b + " parameter(1)\n x = " + b +
                         " triangular-solve(a, b), lower=true" + attributes);
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    if (!module.ok() || !expand(**module).ok()) return std::string("refused");
    const std::string_view options =
        (*module)->entry()->root()->attributes().find_extra("backend_config");
    return std::string(options.substr(options.find("side"), 9));
  };
  EXPECT_EQ(side("f32[3,4]", ""), "side = 82");
  EXPECT_EQ(side("f32[4,4]", ""), "side = 82");
  EXPECT_EQ(side("f32[4,4]", ", left_side=false"), "side = 82");
  EXPECT_EQ(side("f32[4,3]", ", left_side=true"), "side = 76");
}

TEST(Expand, TakesXlasTopKByTheOrderThatItCalls) {
  const std::string order =
      "order { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n"
      " d = s32[] parameter(3)\n x = f32[] abs(a)\n y = f32[] abs(b)\n"
      " ROOT r = pred[] compare(x, y), direction=GT }\n";
  const auto text = [](const std::string& called, const std::string& result) {
    return "ENTRY e { a = f32[2,4] parameter(0)\n ROOT t = " + result +
           " custom-call(a), custom_call_target=\"TopK\", called_computations={" + called + "} }";
  };
  auto module = ir::parse_module(order + text("order", "(f32[2,2], s32[2,2])"));
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  ASSERT_TRUE(expand(**module).ok());
  ir::Literal a(ir::Shape(ir::DType::f32, {2, 4}));
  const float values[] = {1, -9, 3, 2, 0, 5, -6, 5};
  std::copy(std::begin(values), std::end(values), a.mutable_data<float>());
  const auto made = ir::interpret(**module, std::span(&a, 1));
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const std::vector<float> expected = {-9, 3, -6, 5};
  const std::vector<std::int32_t> places = {1, 2, 2, 1};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(made->elements()[0].at(i), expected[static_cast<std::size_t>(i)]);
    EXPECT_EQ(made->elements()[1].at(i), places[static_cast<std::size_t>(i)]);
  }
  auto wrong = ir::parse_module(order + text("order", "(f32[2,5], s32[2,5])"));
  ASSERT_TRUE(wrong.ok()) << wrong.status().to_string();
  EXPECT_EQ(expand(**wrong).code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace plimsoll::passes
