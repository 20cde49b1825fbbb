// SPDX-License-Identifier: Apache-2.0
// Stores past the caches: the same bits as those through them, wherever buffers begin and end.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

constexpr std::int64_t kThreshold = 6144;  // bytes: 512 elements of two f32 operands and a result

Compiler& streaming() {
  static const std::unique_ptr<Compiler> instance = [] {
    Options options;
    options.streaming_bytes = kThreshold;
    return std::move(Compiler::create(options)).value();
  }();
  return *instance;
}

// Equal to the interpreter, and to itself when streamed, at several places of the buffers.
void check_streamed(const std::string& text, int reuse = -1) {
  SCOPED_TRACE(text);
  const auto module = parse(text);
  ASSERT_NE(module, nullptr);
  const auto arguments = arguments_for(*module->entry());
  const ir::Instruction& root = *module->entry()->root();
  std::vector<ir::Literal> operands;
  for (const ir::Instruction* operand : root.operands()) {
    operands.push_back(arguments[static_cast<std::size_t>(operand->attributes().parameter_number)]);
  }
  const auto expected = run(root, operands);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  if (reuse < 0) check(*module, arguments, 1e-5);
  for (const std::size_t shift : {0, 8, 32, 56}) {
    const auto streamed = run(root, operands, reuse, streaming(), shift);
    ASSERT_TRUE(streamed.ok()) << streamed.status().to_string();
    for (std::size_t i = 0; i < expected->size(); ++i) {
      EXPECT_TRUE(same_bits((*expected)[i], (*streamed)[i])) << "shifted by " << shift;
    }
  }
}

std::string add_of(const std::string& shape) {
  return "ENTRY e { a = " + shape + " parameter(0)\n b = " + shape +
         " parameter(1)\n ROOT r = " + shape + " add(a, b) }";
}

// The IR of the one kernel of `text`.
std::string compiled(const std::string& text, std::int64_t threshold) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "streaming_dump";
  std::filesystem::remove_all(folder);
  Options options;
  options.streaming_bytes = threshold;
  options.dump.llvm = true;
  options.dump.folder = folder.string();
  const auto own = std::move(Compiler::create(options)).value();
  const auto module = parse(text);
  EXPECT_TRUE(own->compile(*module->entry()->root()).ok());
  std::string all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    all.append(std::istreambuf_iterator<char>(file), {});
  }
  std::filesystem::remove_all(folder);
  return all;
}

TEST(Streaming, AsksForOperandsAhead) {
  for (const char* dimension : {"0", "1"}) {
    const std::string sum =
        std::string("sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n") +
        " ROOT s = f32[] add(x, y) }\nENTRY e { p = f32[64,256] parameter(0)\n" +
        " z = f32[] constant(0)\n ROOT r = f32[" + (*dimension == '0' ? "256" : "64") +
        "] reduce(p, z), dimensions={" + dimension + "}, to_apply=sum }";
    // Nothing but the operand is large enough to be asked for.
    EXPECT_NE(compiled(sum, kThreshold).find("call void @llvm.prefetch"), std::string::npos) << sum;
    EXPECT_EQ(compiled(sum, 1 << 20).find("call void @llvm.prefetch"), std::string::npos) << sum;
  }
}

TEST(Streaming, BeginsAtTheThreshold) {
#if defined(__x86_64__)
  EXPECT_EQ(compiled(add_of("f32[511]"), kThreshold).find("nontemporal"), std::string::npos);
  EXPECT_NE(compiled(add_of("f32[512]"), kThreshold).find("nontemporal"), std::string::npos);
  EXPECT_NE(compiled(add_of("f32[512]"), kThreshold).find("sfence"), std::string::npos);
#else
  GTEST_SKIP() << "only x86 has stores past the caches here";
#endif
}

TEST(Streaming, KeepsBitsAroundTheThresholdAndAtOddSizes) {
  for (const int size : {510, 511, 512, 513, 527, 1000, 2048, 4099, 9001}) {
    check_streamed(add_of("f32[" + std::to_string(size) + "]"));
  }
  for (const char* dtype : {"bf16", "f16", "f64", "s8", "s64"}) {
    check_streamed(add_of(std::string(dtype) + "[7001]"));
  }
}

TEST(Streaming, KeepsBitsWhereAnOutputIsAnOperandsBuffer) {
  for (const int size : {512, 1003, 5000}) {
    check_streamed(add_of("f32[" + std::to_string(size) + "]"), 0);
  }
  check_streamed(
      "ENTRY e { a = f32[40,64] parameter(0)\n u = f32[32,33] parameter(1)\n i = s32[] "
      "parameter(2)\n j = s32[] parameter(3)\n ROOT r = f32[40,64] dynamic-update-slice(a, u, i, "
      "j) }",
      0);
}

TEST(Streaming, KeepsBitsInRowsThatBeginAnywhere) {
  check_streamed(
      "f { p = f32[37,101] parameter(0)\n q = f32[101] parameter(1)\n b = f32[37,101] broadcast(q),"
      " dimensions={1}\n s = f32[37,101] add(p, b)\n c = pred[37,101] compare(p, b), "
      "direction=GT\n h = bf16[37,101] convert(s)\n ROOT t = (f32[37,101], pred[37,101], "
      "bf16[37,101]) tuple(s, c, h) }\nENTRY e { p = f32[37,101] parameter(0)\n q = f32[101] "
      "parameter(1)\n ROOT r = (f32[37,101], pred[37,101], bf16[37,101]) fusion(p, q), "
      "kind=kLoop, calls=f }");
}

TEST(Streaming, KeepsBitsOfMoves) {
  check_streamed(
      "ENTRY e { p = f32[70,50] parameter(0)\n ROOT t = f32[50,70] transpose(p), "
      "dimensions={1,0} }");
  check_streamed(
      "ENTRY e { p = bf16[96,64] parameter(0)\n ROOT t = bf16[64,96] transpose(p), "
      "dimensions={1,0} }");
  check_streamed(
      "ENTRY e { p = f32[33,40] parameter(0)\n q = f32[33,24] parameter(1)\n ROOT t = f32[33,64] "
      "concatenate(p, q), dimensions={1} }");
  check_streamed(
      "ENTRY e { p = f32[33,40] parameter(0)\n z = f32[] parameter(1)\n ROOT t = f32[36,64] pad(p, "
      "z), padding=1_2x5_19 }");
}

// Longer than a unit on either side, and with rests of tiles on both.
TEST(Streaming, KeepsBitsOfLongTransposes) {
  for (const char* shape : {"40,2100", "2100,40", "64,2048", "130,260"}) {
    const std::string dims = shape;
    const auto comma = dims.find(',');
    const std::string turned = dims.substr(comma + 1) + "," + dims.substr(0, comma);
    for (const std::string dtype : {"f32", "bf16", "s8", "f64"}) {
      const std::string text = "ENTRY e { p = " + dtype + "[" + dims +
                               "] parameter(0)\n ROOT t = " + dtype + "[" + turned +
                               "] transpose(p), dimensions={1,0} }";
      check_streamed(text);
    }
  }
  check_streamed(
      "ENTRY e { p = bf16[3,32,7,64] parameter(0)\n ROOT t = bf16[3,64,32,7] transpose(p), "
      "dimensions={0,3,1,2} }");
}

TEST(Streaming, KeepsBitsOfWhatAReductionStoresOnItsWay) {
  for (const char* reduced : {"0", "1"}) {
    const std::string kept = *reduced == '0' ? "f32[96]" : "f32[50]";
    check_streamed(
        "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, "
        "b) }\nf { p = f32[50,96] parameter(0)\n z = f32[] constant(0)\n d = "
        "f32[50,96] multiply(p, p)\n s = " +
        kept + " reduce(d, z), dimensions={" + reduced +
        "}, to_apply=sum\n ROOT t = (f32[50,96], " + kept +
        ") tuple(d, s) }\nENTRY e { p = f32[50,96] parameter(0)\n ROOT r = "
        "(f32[50,96], " +
        kept + ") fusion(p), kind=kInput, calls=f }");
  }
}

// Softmax of `count` rows; with the powers it divides as a second result, where `keeps`.
std::string softmax_of(const std::string& count, const std::string& minor, const std::string& dtype,
                       bool keeps) {
  const std::string rows = "f32[" + count + "]", all = "[" + count + "," + minor + "]";
  const std::string result = keeps ? "(" + dtype + all + ", f32" + all + ")" : dtype + all;
  return "most { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT m = f32[] maximum(a, b) }\n"
         "sum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b) }\n"
         "f { p = " +
         dtype + all + " parameter(0)\n x = f32" + all +
         " convert(p)\n n = f32[] constant(-inf)\n z = f32[] constant(0)\n m = " + rows +
         " reduce(x, n), dimensions={1}, to_apply=most\n mb = f32" + all +
         " broadcast(m), dimensions={0}\n c = f32" + all + " subtract(x, mb)\n e = f32" + all +
         " exponential(c)\n s = " + rows +
         " reduce(e, z), dimensions={1}, to_apply=sum\n sb = f32" + all +
         " broadcast(s), dimensions={0}\n y = f32" + all + " divide(e, sb)\n " +
         (keeps ? "r = " : "ROOT r = ") + dtype + all + " convert(y)" +
         (keeps ? "\n ROOT t = " + result + " tuple(r, e)" : "") + " }\nENTRY e { p = " + dtype +
         all + " parameter(0)\n ROOT out = " + result + " fusion(p), kind=kInput, calls=f }";
}

TEST(Streaming, KeepsBitsOfRowsThatAreSweptSeveralTimes) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (const bool keeps : {false, true}) {
      // In registers, in loops over scratch memory, and longer than that may be.
      check_streamed(softmax_of("60", "48", dtype, keeps));
      check_streamed(softmax_of("7", "1037", dtype, keeps));
      check_streamed(softmax_of("2", "20003", dtype, keeps));
    }
    check_streamed(softmax_of("7", "1037", dtype, false), 0);
  }
#if defined(__x86_64__)
  const std::string text = softmax_of("7", "1037", "f32", false);
  EXPECT_EQ(compiled(text, std::int64_t{1} << 30).find("nontemporal"), std::string::npos);
  EXPECT_NE(compiled(text, kThreshold).find("nontemporal"), std::string::npos);
#endif
}

}  // namespace
}  // namespace plimsoll::jit::testing
