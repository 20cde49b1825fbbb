// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/fusions/in_place.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

constexpr const char* kSum =
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = "
    "f32[] add(x, y) }\n";
constexpr const char* kMax =
    "max { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = "
    "f32[] maximum(x, y) }\n";

TEST(ReductionFusion, MeanAndSumOfSquaresShareOneSweep) {
  for (const char* dims : {"8,5,7,48", "3,5,7,10", "2,9,1,300"}) {
    SCOPED_TRACE(dims);
    const std::string d = dims;
    const std::string c = d.substr(d.rfind(',') + 1);
    check(std::string(kSum) + "f { p = f32[" + d + "] parameter(0)\n b = f32[" + c +
              "] parameter(1)\n z = f32[] constant(0)\n k = f32[] constant(0.125)\n bb = f32[" + d +
              "] broadcast(b), dimensions={3}\n q = f32[" + d + "] subtract(p, bb)\n m = f32[" + d +
              "] multiply(q, q)\n s = f32[" + c +
              "] reduce(q, z), dimensions={0,1,2}, to_apply=sum\n t = f32[" + c +
              "] reduce(m, z), dimensions={0,1,2}, to_apply=sum\n bk = f32[" + c +
              "] broadcast(k), dimensions={}\n u = f32[" + c + "] multiply(s, bk)\n v = f32[" + c +
              "] add(u, b)\n ROOT r = (f32[" + c + "], f32[" + c + "], f32[" + d +
              "]) tuple(v, t, m) }\nENTRY e { p = f32[" + d + "] parameter(0)\n b = f32[" + c +
              "] parameter(1)\n ROOT r = (f32[" + c + "], f32[" + c + "], f32[" + d +
              "]) fusion(p, b), kind=kInput, calls=f }",
          1e-5);
  }
}

TEST(ReductionFusion, ChannelSumsOfPlanesWithAnEpilogueReshaped) {
  check(std::string(kSum) +
            "f { p = f32[3,20,7,7] parameter(0)\n b = f32[20] parameter(1)\n z = f32[] "
            "constant(0)\n bb = f32[3,20,7,7] broadcast(b), dimensions={1}\n q = f32[3,20,7,7] "
            "multiply(p, bb)\n s = f32[20] reduce(q, z), dimensions={0,2,3}, to_apply=sum\n e = "
            "f32[20] exponential(s)\n ROOT r = f32[4,5] reshape(e) }\nENTRY e { p = "
            "f32[3,20,7,7] parameter(0)\n b = f32[20] parameter(1)\n ROOT r = f32[4,5] fusion(p, "
            "b), kind=kInput, calls=f }",
        1e-4);
}

TEST(ReductionFusion, SoftmaxNumeratorKeepsRowsAndTheirSum) {
  for (const char* dims : {"6,10", "5,300", "3,5000", "1,9"}) {
    SCOPED_TRACE(dims);
    const std::string d = dims;
    const std::string n = d.substr(0, d.find(','));
    check(std::string(kSum) + "f { p = f32[" + d + "] parameter(0)\n m = f32[" + n +
              "] parameter(1)\n z = f32[] constant(0)\n bm = f32[" + d +
              "] broadcast(m), dimensions={0}\n q = f32[" + d + "] subtract(p, bm)\n x = f32[" + d +
              "] exponential(q)\n s = f32[" + n +
              "] reduce(x, z), dimensions={1}, to_apply=sum\n ROOT r = (f32[" + d + "], f32[" + n +
              "]) tuple(x, s) }\nENTRY e { p = f32[" + d + "] parameter(0)\n m = f32[" + n +
              "] parameter(1)\n ROOT r = (f32[" + d + "], f32[" + n +
              "]) fusion(p, m), kind=kInput, calls=f }",
          1e-5);
  }
}

// The same sum alone, behind a prologue that changes nothing, with a second output, and at every
// thread count.
TEST(ReductionFusion, BitsDependOnTheShapeAlone) {
  for (const char* text : {"70001;;0", "37,3000;37;1", "3000,37;37;0", "6,50,40,10;10;0,1,2",
                           "6,20,30,31;20;0,2,3", "900,8,5;8;0,2"}) {
    SCOPED_TRACE(text);
    const std::string all = text;
    const auto first = all.find(';'), second = all.find(';', first + 1);
    const std::string d = all.substr(0, first), o = all.substr(first + 1, second - first - 1),
                      r = all.substr(second + 1);
    const std::string alone = std::string(kSum) + "ENTRY e { p = f32[" + d +
                              "] parameter(0)\n i = f32[] parameter(1)\n ROOT r = f32[" + o +
                              "] reduce(p, i), dimensions={" + r + "}, to_apply=sum }";
    const std::string fused =
        std::string(kSum) + kMax + "f { p = f32[" + d +
        "] parameter(0)\n i = f32[] parameter(1)\n" + " n = f32[" + d + "] negate(p)\n q = f32[" +
        d + "] negate(n)\n s = f32[" + o + "] reduce(q, i), dimensions={" + r +
        "}, to_apply=sum\n t = f32[" + o + "] reduce(n, i), dimensions={" + r +
        "}, to_apply=max\n ROOT r = (f32[" + o + "], f32[" + o + "], f32[" + d +
        "]) tuple(s, t, n) }\nENTRY e { p = f32[" + d +
        "] parameter(0)\n i = f32[] parameter(1)\n ROOT r = (f32[" + o + "], f32[" + o + "], f32[" +
        d + "]) fusion(p, i), kind=kInput, calls=f }";
    const auto a = parse(alone), b = parse(fused);
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    const auto arguments = arguments_for(*a->entry());
    const int threads = device::thread_count();
    std::vector<ir::Literal> reference;
    for (const int count : {1, 2, 5}) {
      device::set_thread_count(count);
      auto x = run(*a->entry()->root(), arguments);
      auto y = run(*b->entry()->root(), arguments);
      ASSERT_TRUE(x.ok()) << x.status().to_string();
      ASSERT_TRUE(y.ok()) << y.status().to_string();
      if (reference.empty()) reference = *x;
      EXPECT_TRUE(same_bits(reference[0], (*x)[0])) << count << " threads";
      EXPECT_TRUE(same_bits(reference[0], (*y)[0])) << count << " threads, fused";
    }
    device::set_thread_count(threads);
  }
}

TEST(ReductionFusion, PositionOfTheLargestWithItsOwnIndices) {
  for (const char* text : {"40,300;40;1", "300,40;40;0", "9000;;0", "3,2000,5;3,5;1"}) {
    SCOPED_TRACE(text);
    const std::string all = text;
    const auto first = all.find(';'), second = all.find(';', first + 1);
    const std::string d = all.substr(0, first), o = all.substr(first + 1, second - first - 1),
                      r = all.substr(second + 1);
    const std::string parameter = "p = f32[" + d + "] parameter(0)\n ";
    check(
        "r { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n j = s32[] "
        "parameter(3)\n g = pred[] compare(v, w), direction=GT\n q = pred[] compare(v, w), "
        "direction=EQ\n l = pred[] compare(i, j), direction=LT\n t = pred[] and(q, l)\n k = "
        "pred[] or(g, t)\n x = f32[] select(k, v, w)\n y = s32[] select(k, i, j)\n ROOT z = "
        "(f32[], s32[]) tuple(x, y) }\nf { " +
        parameter + "m = f32[] constant(-inf)\n z = s32[] constant(0)\n a = f32[" + d +
        "] round-nearest-even(p)\n n = s32[" + d + "] iota(), iota_dimension=" + r +
        "\n o = (f32[" + o + "], s32[" + o + "]) reduce(a, n, m, z), dimensions={" + r +
        "}, to_apply=r\n v = f32[" + o + "] get-tuple-element(o), index=0\n i = s32[" + o +
        "] get-tuple-element(o), index=1\n e = f32[" + o + "] negate(v)\n ROOT t = (s32[" + o +
        "], f32[" + o + "]) tuple(i, e) }\nENTRY e { " + parameter + "ROOT r = (s32[" + o +
        "], f32[" + o + "]) fusion(p), kind=kInput, calls=f }");
  }
}

TEST(ReductionFusion, TakesElementsInOrderWhereTheOperationIsNotAssociative) {
  for (const char* text : {"5000;;0", "20,300;20;1", "600,20;20;0"}) {
    SCOPED_TRACE(text);
    const std::string all = text;
    const auto first = all.find(';'), second = all.find(';', first + 1);
    const std::string d = all.substr(0, first), o = all.substr(first + 1, second - first - 1),
                      r = all.substr(second + 1);
    check(
        "q { x = f32[] parameter(0)\n y = f32[] parameter(1)\n h = f32[] constant(0.5)\n z = "
        "f32[] multiply(x, h)\n ROOT s = f32[] add(z, y) }\nENTRY e { p = f32[" +
        d + "] parameter(0)\n i = f32[] parameter(1)\n ROOT r = f32[" + o +
        "] reduce(p, i), dimensions={" + r + "}, to_apply=q }");
  }
}

TEST(LoopFusion, ALongChainCompiles) {
  std::string body = "f { v0 = f32[40] parameter(0)\n c = f32[40] parameter(1)\n ";
  const int count = 900;
  for (int i = 1; i <= count; ++i) {
    body += (i == count ? "ROOT v" : "v") + std::to_string(i) + " = f32[40] " +
            (i % 2 == 0 ? "add" : "multiply") + "(v" + std::to_string(i - 1) + ", c)\n ";
  }
  check(body +
        "}\nENTRY e { p = f32[40] parameter(0)\n c = f32[40] parameter(1)\n ROOT r = "
        "f32[40] fusion(p, c), kind=kLoop, calls=f }");
}

TEST(LoopFusion, MovementsBetweenElementwiseOperations) {
  check(
      "f { p = f32[6,20] parameter(0)\n q = f32[20,6] parameter(1)\n t = f32[6,20] transpose(q), "
      "dimensions={1,0}\n s = f32[6,20] add(p, t)\n r = f32[2,3,20] reshape(s)\n v = f32[2,3,20] "
      "reverse(r), dimensions={1,2}\n ROOT e = f32[2,3,20] exponential(v) }\nENTRY e { p = "
      "f32[6,20] parameter(0)\n q = f32[20,6] parameter(1)\n ROOT r = f32[2,3,20] fusion(p, q), "
      "kind=kLoop, calls=f }");
  check(
      "f { p = f32[5,18] parameter(0)\n z = f32[] constant(2)\n a = f32[9,37] pad(p, z), "
      "padding=1_3x-1_3_1\n b = f32[9,3] slice(a), slice={[0:9], [4:37:11]}\n c = f32[9,40] "
      "concatenate(a, b), dimensions={1}\n ROOT n = f32[9,40] negate(c) }\nENTRY e { p = "
      "f32[5,18] parameter(0)\n ROOT r = f32[9,40] fusion(p), kind=kLoop, calls=f }");
  check(
      "f { p = f32[4,100] parameter(0)\n i = s32[] parameter(1)\n j = s32[] constant(3)\n k = "
      "s32[] "
      "add(i, j)\n d = f32[2,40] dynamic-slice(p, j, k), dynamic_slice_sizes={2,40}\n n = "
      "f32[2,40] iota(), iota_dimension=1\n ROOT s = f32[2,40] add(d, n) }\nENTRY e { p = "
      "f32[4,100] parameter(0)\n i = s32[] parameter(1)\n ROOT r = f32[2,40] fusion(p, i), "
      "kind=kLoop, calls=f }");
}

TEST(LoopFusion, SeveralOutputsOfSeveralTypes) {
  check(
      "f { p = f32[3,50] parameter(0)\n b = bf16[50] parameter(1)\n w = bf16[3,50] broadcast(b), "
      "dimensions={1}\n x = f32[3,50] convert(w)\n a = f32[3,50] multiply(p, x)\n g = pred[3,50] "
      "compare(a, p), direction=GT\n h = bf16[3,50] convert(a)\n s = s8[3,50] convert(a)\n ROOT r "
      "= (f32[3,50], pred[3,50], bf16[3,50], s8[3,50]) tuple(a, g, h, s) }\nENTRY e { p = "
      "f32[3,50] parameter(0)\n b = bf16[50] parameter(1)\n ROOT r = (f32[3,50], pred[3,50], "
      "bf16[3,50], s8[3,50]) fusion(p, b), kind=kLoop, calls=f }");
}

TEST(InPlace, ElementwiseResultMayTakeOverAnOperand) {
  const auto module = parse(
      "f { p = f32[1003] parameter(0)\n q = f32[1003] parameter(1)\n a = f32[1003] multiply(p, "
      "q)\n "
      "ROOT s = f32[1003] add(a, p) }\nENTRY e { p = f32[1003] parameter(0)\n q = f32[1003] "
      "parameter(1)\n ROOT r = f32[1003] fusion(p, q), kind=kLoop, calls=f }");
  ASSERT_NE(module, nullptr);
  const auto arguments = arguments_for(*module->entry());
  const auto expected = run(*module->entry()->root(), arguments);
  ASSERT_TRUE(expected.ok());
  for (const int reuse : {0, 1}) {
    const auto result = run(*module->entry()->root(), arguments, reuse);
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(same_bits((*expected)[0], (*result)[0])) << "operand " << reuse;
  }
}

TEST(InPlace, SweptResultOfAReductionMayTakeOverTheOperand) {
  for (const char* dims : {"70,33", "3,5000"}) {
    const std::string d = dims;
    const auto module = parse(
        std::string(kSum) + "f { p = f32[" + d +
        "] parameter(0)\n z = f32[] constant(0)\n e = f32[" + d + "] exponential(p)\n a = f32[" +
        d + "] add(e, p)\n s = f32[" + d.substr(d.find(',') + 1) +
        "] reduce(p, z), dimensions={0}, to_apply=sum\n ROOT t = (f32[" + d + "], f32[" +
        d.substr(d.find(',') + 1) + "]) tuple(a, s) }\nENTRY e { p = f32[" + d +
        "] parameter(0)\n ROOT r = (f32[" + d + "], f32[" + d.substr(d.find(',') + 1) +
        "]) fusion(p), kind=kInput, calls=f }");
    ASSERT_NE(module, nullptr);
    const auto arguments = arguments_for(*module->entry());
    const auto expected = run(*module->entry()->root(), arguments);
    const auto result = run(*module->entry()->root(), arguments, 0);
    ASSERT_TRUE(expected.ok() && result.ok());
    EXPECT_TRUE(same_bits((*expected)[0], (*result)[0]));
    EXPECT_TRUE(same_bits((*expected)[1], (*result)[1]));
  }
}

// An optimizer's step of one layer: the weights' new slice depends on the old ones of both arrays.
TEST(InPlace, SeveralUpdatesReadWhatTheyReplace) {
  const auto module = parse(
      "f { w = f32[7,40,30] parameter(0)\n m = f32[7,40,30] parameter(1)\n g = f32[40,30] "
      "parameter(2)\n i = s32[] parameter(3)\n z = s32[] constant(0)\n"
      " wi = f32[1,40,30] dynamic-slice(w, i, z, z), dynamic_slice_sizes={1,40,30}\n"
      " mi = f32[1,40,30] dynamic-slice(m, i, z, z), dynamic_slice_sizes={1,40,30}\n"
      " w0 = f32[40,30] reshape(wi)\n m0 = f32[40,30] reshape(mi)\n"
      " m1 = f32[40,30] add(m0, g)\n t = f32[40,30] tanh(m1)\n w1 = f32[40,30] subtract(w0, t)\n"
      " wn = f32[1,40,30] reshape(w1)\n mn = f32[1,40,30] reshape(m1)\n"
      " wr = f32[7,40,30] dynamic-update-slice(w, wn, i, z, z)\n"
      " mr = f32[7,40,30] dynamic-update-slice(m, mn, i, z, z)\n"
      " ROOT r = (f32[7,40,30], f32[7,40,30], f32[40,30]) tuple(wr, mr, t) }\n"
      "ENTRY e { w = f32[7,40,30] parameter(0)\n m = f32[7,40,30] parameter(1)\n"
      " g = f32[40,30] parameter(2)\n i = s32[] parameter(3)\n ROOT r = (f32[7,40,30], "
      "f32[7,40,30], f32[40,30]) fusion(w, m, g, i), kind=kLoop, calls=f }");
  ASSERT_NE(module, nullptr);
  const ir::Instruction& fusion = *module->entry()->root();
  EXPECT_TRUE(ir::may_reuse_operand(fusion, 0, 0));
  EXPECT_TRUE(ir::may_reuse_operand(fusion, 1, 1));
  EXPECT_FALSE(ir::may_reuse_operand(fusion, 1, 0));
  EXPECT_FALSE(ir::may_reuse_operand(fusion, 2, 2));
  auto arguments = arguments_for(*module->entry());
  for (const int start : {-5, 0, 3, 6, 1000}) {
    arguments[3].set(0, start);
    const auto expected = check(*module, arguments);
    const auto result = run(fusion, arguments, 0);
    ASSERT_TRUE(result.ok());
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(same_bits(expected[i], (*result)[i])) << i << ", start " << start;
    }
  }
}

TEST(InPlace, DynamicUpdateSliceWritesOnlyTheSlice) {
  const auto module = parse(
      "f { p = f32[40,30] parameter(0)\n u = f32[3,30] parameter(1)\n i = s32[] parameter(2)\n z = "
      "s32[] constant(0)\n n = f32[3,30] negate(u)\n ROOT d = f32[40,30] dynamic-update-slice(p, "
      "n, "
      "i, z) }\nENTRY e { p = f32[40,30] parameter(0)\n u = f32[3,30] parameter(1)\n i = s32[] "
      "parameter(2)\n ROOT r = f32[40,30] fusion(p, u, i), kind=kLoop, calls=f }");
  ASSERT_NE(module, nullptr);
  auto arguments = arguments_for(*module->entry());
  for (const int start : {-5, 0, 17, 37, 38, 1000}) {
    arguments[2].set(0, start);
    const auto expected = check(*module, arguments);
    const auto result = run(*module->entry()->root(), arguments, 0);
    ASSERT_TRUE(result.ok());
    EXPECT_TRUE(same_bits(expected[0], (*result)[0])) << "start " << start;
  }
}

TEST(Compiler, EqualInstructionsShareAKernelWhateverTheirNames) {
  const auto a = parse("ENTRY e { x = f32[77] parameter(0)\n ROOT y = f32[77] negate(x) }");
  const auto b = parse("ENTRY g { u = f32[77] parameter(0)\n ROOT v = f32[77] negate(u) }");
  const auto first = compiler().compile(*a->entry()->root());
  const auto hits = compiler().statistics().cache_hits;
  const auto second = compiler().compile(*b->entry()->root());
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first->get(), second->get());
  EXPECT_EQ(compiler().statistics().cache_hits, hits + 1);
  EXPECT_EQ((*first)->name(), "negate");
  EXPECT_EQ((*first)->origin(), device::KernelOrigin::jit);
}

TEST(Compiler, CompilesFromSeveralThreadsAtOnce) {
  auto own = Compiler::create();
  ASSERT_TRUE(own.ok());
  std::vector<std::unique_ptr<ir::Module>> modules;
  for (int i = 0; i < 12; ++i) {
    const std::string shape = "f32[" + std::to_string(20 + i / 2) + "]";
    modules.push_back(parse("ENTRY e { x = " + shape + " parameter(0)\n ROOT y = " + shape +
                            " exponential(x) }"));
  }
  std::vector<std::shared_ptr<const device::Kernel>> kernels(modules.size());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = static_cast<std::size_t>(t); i < modules.size(); i += 4) {
        auto kernel = (*own)->compile(*modules[i]->entry()->root());
        if (kernel.ok()) kernels[i] = *kernel;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kernels.size(); i += 2) {
    EXPECT_NE(kernels[i], nullptr);
    EXPECT_EQ(kernels[i], kernels[i + 1]);
  }
  EXPECT_EQ((*own)->statistics().kernels_compiled, 6);
  EXPECT_EQ((*own)->statistics().cache_hits, 6);
}

TEST(Compiler, ConstantsWithoutValuesAreRefusedAsSuch) {
  const auto module = parse("ENTRY e { ROOT c = f32[64] constant({...}) }");
  ASSERT_NE(module, nullptr);
  const auto kernel = compiler().compile(*module->entry()->root());
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::failed_precondition);
}

TEST(Compiler, KernelsOutliveTheCompiler) {
  const auto module = parse("ENTRY e { x = f32[50] parameter(0)\n ROOT y = f32[50] abs(x) }");
  auto own = Compiler::create();
  ASSERT_TRUE(own.ok());
  auto kernel = (*own)->compile(*module->entry()->root());
  ASSERT_TRUE(kernel.ok());
  own->reset();
  std::vector<float> x(50, -2.0f), y(50);
  const void* input = x.data();
  void* output = y.data();
  const auto stream = std::move(device::cpu_device()->create_stream()).value();
  ASSERT_TRUE((*kernel)->launch(*stream, {{&input, 1}, {&output, 1}, nullptr}).ok());
  EXPECT_EQ(y, std::vector<float>(50, 2.0f));
}

TEST(Compiler, RefusesAReduceReadAtAnotherIndexAndSaysWhatToDo) {
  const auto module = parse(
      "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
      "turned { x = f32[4,6,8] parameter(0)\n z = f32[] constant(0)\n s = f32[4,6] reduce(x, z), "
      "dimensions={2}, to_apply=sum\n ROOT t = f32[6,4] transpose(s), dimensions={1,0} }\n"
      "ENTRY e { x = f32[4,6,8] parameter(0)\n ROOT f = f32[6,4] fusion(x), kind=kInput, "
      "calls=turned }");
  ASSERT_NE(module, nullptr);
  const ir::Instruction& fusion = *module->entry()->root();
  EXPECT_FALSE(compiler().supports(fusion));
  for (const Status& status :
       {compiler().compile(fusion).status(), kernel_text(fusion, 32).status()}) {
    EXPECT_EQ(status.code(), StatusCode::unimplemented);
    EXPECT_NE(status.message().find("'s'"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("a fusion of its own"), std::string::npos) << status.message();
  }
}

// Every step reads the one before at two places, none of which meet: 2^16 values in the end.
TEST(Compiler, RefusesTooMuchCodeAndSaysWhatToDo) {
  std::string body = " v0 = f32[65552] parameter(0)\n";
  int size = 65552;
  for (int step = 0; step < 16; ++step) {
    const int shift = 1 << step;
    const auto number = [](int n) { return std::to_string(n); };
    const std::string from = "v" + number(step), shape = "f32[" + number(size - shift) + "]";
    body += " l" + number(step) + " = " + shape + " slice(" + from +
            "), slice={[0:" + number(size - shift) + "]}\n r" + number(step) + " = " + shape +
            " slice(" + from + "), slice={[" + number(shift) + ":" + number(size) + "]}\n " +
            (step == 15 ? "ROOT " : "") + "v" + number(step + 1) + " = " + shape + " add(l" +
            number(step) + ", r" + number(step) + ")\n";
    size -= shift;
  }
  const auto module =
      parse("deep {\n" + body + "}\nENTRY e { x = f32[65552] parameter(0)\n ROOT f = f32[" +
            std::to_string(size) + "] fusion(x), kind=kLoop, calls=deep }");
  ASSERT_NE(module, nullptr);
  EXPECT_FALSE(compiler().supports(*module->entry()->root()));
  const Status status = compiler().compile(*module->entry()->root()).status();
  EXPECT_NE(status.message().find("'f': its code computes more than 30000 values; make it several "
                                  "fusions"),
            std::string::npos)
      << status.message();
}

TEST(Compiler, RefusesWithTheInstructionsName) {
  const auto module = parse(
      "ENTRY e { x = f32[4,4] parameter(0)\n ROOT bad = f32[4,4] dot(x, x), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0} }");
  EXPECT_FALSE(compiler().supports(*module->entry()->root()));
  const auto kernel = compiler().compile(*module->entry()->root());
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::unimplemented);
  EXPECT_NE(kernel.status().message().find("'bad'"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::jit::testing
