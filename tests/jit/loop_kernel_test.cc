// SPDX-License-Identifier: Apache-2.0
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

TEST(LoopKernel, AddsVectorsOfEverySizeAroundTheVectorWidth) {
  for (const int size : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 4097, 5000}) {
    const std::string shape = "f32[" + std::to_string(size) + "]";
    check("ENTRY e { a = " + shape + " parameter(0)\n b = " + shape +
          " parameter(1)\n ROOT r = " + shape + " add(a, b) }");
  }
}

TEST(LoopKernel, FusesAChainWithBroadcasts) {
  for (const char* dims : {"4,16", "5,10", "3,1", "1,33", "7,48", "300,17", "2,5000"}) {
    const std::string d = dims;
    const std::string rows = d.substr(0, d.find(',')), columns = d.substr(d.find(',') + 1);
    check("f { p = f32[" + d + "] parameter(0)\n q = f32[" + columns + "] parameter(1)\n s = f32[" +
          rows + "] parameter(2)\n one = f32[] constant(1)\n bq = f32[" + d +
          "] broadcast(q), dimensions={1}\n bs = f32[" + d +
          "] broadcast(s), dimensions={0}\n bo = f32[" + d +
          "] broadcast(one), dimensions={}\n m = f32[" + d + "] multiply(p, bq)\n a = f32[" + d +
          "] add(m, bs)\n e = f32[" + d + "] exponential(a)\n g = f32[" + d +
          "] add(e, bo)\n ROOT l = f32[" + d + "] log(g) }\nENTRY e { p = f32[" + d +
          "] parameter(0)\n q = f32[" + columns + "] parameter(1)\n s = f32[" + rows +
          "] parameter(2)\n ROOT r = f32[" + d + "] fusion(p, q, s), kind=kLoop, calls=f }");
  }
}

}  // namespace
}  // namespace plimsoll::jit::testing
