// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace plimsoll::cases {

// Loops in loops, `depth` deep: each level's body runs the next level's loop `times` times, one
// after the other, by the same two computations, so that there are few computations and times^depth
// ways through them. The outermost loop runs while the parameter's element is below a bound: never
// for arguments of 100 and more, which come back as they are.
inline std::string nested_loops(int depth, int times) {
  std::string text = "HloModule nested\n";
  const std::string state = "(f32[64])";
  for (int level = depth; level-- > 0;) {
    const std::string n = std::to_string(level);
    text += "condition" + n + " {\n  s = " + state + " parameter(0)\n" +
            "  x = f32[64] get-tuple-element(s), index=0\n" +
            "  e = f32[1] slice(x), slice={[0:1]}\n  f = f32[] reshape(e)\n" +
            "  bound = f32[] constant(100)\n" +
            "  ROOT less = pred[] compare(f, bound), direction=LT\n}\n";
    text += "body" + n + " {\n  s = " + state + " parameter(0)\n" +
            "  x = f32[64] get-tuple-element(s), index=0\n  y = f32[64] add(x, x)\n" +
            "  t0 = " + state + " tuple(y)\n";
    std::string last = "t0";
    for (int i = 1; level + 1 < depth && i <= times; ++i) {
      const std::string next = "t" + std::to_string(i), inner = std::to_string(level + 1);
      text += "  " + next + " = " + state + " while(" + last + "), condition=condition" + inner +
              ", body=body" + inner + "\n";
      last = next;
    }
    text += "  z = f32[64] get-tuple-element(" + last + "), index=0\n" + "  ROOT r = " + state +
            " tuple(z)\n}\n";
  }
  return text + "ENTRY main {\n  x = f32[64] parameter(0)\n  t = " + state + " tuple(x)\n" +
         "  w = " + state + " while(t), condition=condition0, body=body0\n" +
         "  ROOT y = f32[64] get-tuple-element(w), index=0\n}\n";
}

}  // namespace plimsoll::cases
