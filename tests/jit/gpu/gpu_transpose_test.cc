// SPDX-License-Identifier: Apache-2.0
// Loops that read an operand far apart, by way of shared memory.
#include <gtest/gtest.h>

#include <string>

#include "jit/gpu/gpu_code.h"
#include "tests/jit/gpu/gpu_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

// Of 32 by 32 elements, each row one longer.
bool has_tiles(const ir::Module& module) {
  const auto code = write_gpu_code(*module.entry()->root());
  EXPECT_TRUE(code.ok()) << code.status().to_string();
  for (const llvm::GlobalVariable& global : code->module->globals()) {
    if (global.getAddressSpace() == 3) return true;
  }
  return false;
}

void check(const std::string& text, bool in_tiles = true) {
  SCOPED_TRACE(text);
  const auto module = parse(text);
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(has_tiles(*module), in_tiles);
  GpuCheck totals;
  EXPECT_EQ(check_root_on_gpu(*module, arguments_for(*module->entry()), totals), "");
}

std::string transposed(const std::string& dtype, const std::string& from, const std::string& to,
                       const std::string& order) {
  return "ENTRY e { p = " + dtype + "[" + from + "] parameter(0)\n ROOT t = " + dtype + "[" + to +
         "] transpose(p), dimensions={" + order + "} }";
}

TEST(GpuTransposes, PassThroughSharedMemory) {
  for (const char* dtype : {"f32", "bf16", "s8", "f64", "pred"}) {
    check(transposed(dtype, "70,45", "45,70", "1,0"));
  }
  check(transposed("f32", "64,96", "96,64", "1,0"));
  check(transposed("f32", "16,17", "17,16", "1,0"));
  check(transposed("f32", "3,40,50", "3,50,40", "0,2,1"));
  check(transposed("f32", "40,3,50", "50,3,40", "2,1,0"));
  check(transposed("s16", "2,33,3,35", "2,3,35,33", "0,2,3,1"));
}

TEST(GpuTransposes, WhatIsShortOrLiesSideBySideDoesNot) {
  check(transposed("f32", "15,100", "100,15", "1,0"), false);
  check(transposed("f32", "100,8", "8,100", "1,0"), false);
  check(transposed("f32", "9,40,5", "40,9,5", "1,0,2"), false);
  check("ENTRY e { p = f32[50,60] parameter(0)\n ROOT n = f32[50,60] negate(p) }", false);
}

// With arithmetic, an operand that is read as it lies, a slice, and two that are transposed; not
// operands of which a place has one or another.
TEST(GpuTransposes, ArePartsOfFusions) {
  const auto fusion = [](const std::string& parameters, const std::string& body,
                         const std::string& result) {
    std::string inside, outside, names;
    int n = 0;
    for (std::size_t at = 0; at < parameters.size(); ++n) {
      const std::size_t end = std::min(parameters.find(' ', at), parameters.size());
      const std::string p = "p" + std::to_string(n), type = parameters.substr(at, end - at);
      inside += p + " = " + type + " parameter(" + std::to_string(n) + ")\n ";
      names += (n == 0 ? "" : ", ") + p;
      at = end + 1;
    }
    return "f { " + inside + body + " }\nENTRY e { " + inside + "ROOT r = " + result + " fusion(" +
           names + "), kind=kLoop, calls=f }";
  };
  check(fusion("f32[70,45] f32[45,70]",
               "t = f32[45,70] transpose(p0), dimensions={1,0}\n e = f32[45,70] tanh(t)\n ROOT r = "
               "f32[45,70] multiply(e, p1)",
               "f32[45,70]"));
  check(fusion("f32[70,45] bf16[70,45] f32[70]",
               "t = f32[45,70] transpose(p0), dimensions={1,0}\n u = bf16[45,70] transpose(p1), "
               "dimensions={1,0}\n c = f32[45,70] convert(u)\n s = f32[45,70] broadcast(p2), "
               "dimensions={1}\n a = f32[45,70] add(t, c)\n m = f32[45,70] multiply(a, s)\n q = "
               "pred[45,70] compare(t, c), direction=GT\n ROOT r = (f32[45,70], pred[45,70]) "
               "tuple(m, q)",
               "(f32[45,70], pred[45,70])"));
  check(fusion("f32[90,80]",
               "s = f32[40,50] slice(p0), slice={[7:87:2], [3:53]}\n ROOT t = f32[50,40] "
               "transpose(s), dimensions={1,0}",
               "f32[50,40]"));
  check(fusion("f32[40,50] f32[40,30]",
               "c = f32[40,80] concatenate(p0, p1), dimensions={1}\n ROOT t = f32[80,40] "
               "transpose(c), dimensions={1,0}",
               "f32[80,40]"),
        false);  // which operand it is depends on the place
}

}  // namespace
}  // namespace plimsoll::jit::testing
